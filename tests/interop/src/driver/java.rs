//! The Java drivers: compiled classes, with libraries in Maven's repository. They share their sources, and each has a
//! project file with its dependencies.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Recipe, offline_first, other_version, run};
use crate::Result;

/// Class path of the Redisson driver.
pub(crate) const REDISSON: Recipe<String> = Recipe {
    name: "redisson",
    folder: "java",
    version: "TENURE_REDISSON",
    build: |sources, into| build(&sources.join("redisson.xml"), "TENURE_REDISSON", into),
    kept,
};

/// Class path of the Curator driver.
pub(crate) const CURATOR: Recipe<String> = Recipe {
    name: "curator",
    folder: "java",
    version: "TENURE_CURATOR",
    build: |sources, into| build(&sources.join("curator.xml"), "TENURE_CURATOR", into),
    kept,
};

/// The class path of a finished build, if its libraries still exist.
fn kept(built: &Path) -> Option<String> {
    let libraries = fs::read_to_string(built.join("class-path")).ok()?;
    let libraries = libraries.trim();
    let all_there = libraries.split(':').all(|jar| Path::new(jar).is_file());
    all_there.then(|| format!("{}:{libraries}", built.join("classes").display()))
}

/// Builds with the library's version in its project file, or in this variable.
fn build(project: &Path, version: &str, into: &Path) -> Result<()> {
    offline_first(|offline| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B"]).args(offline.then_some("-o"));
        maven.arg("-f").arg(project);
        maven.args(other_version(version).map(|version| format!("-Dpeer.version={version}")));
        maven.arg(format!("-Dout={}", into.display()));
        maven.arg(format!("-Dmdep.outputFile={}", into.join("class-path").display()));
        run(maven.args(["compiler:compile", "dependency:build-classpath"]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_whose_libraries_have_gone_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let jar = folder.path().join("a.jar");
        fs::write(&jar, "").unwrap();
        fs::write(folder.path().join("class-path"), format!("{}\n", jar.display())).unwrap();
        let classes = folder.path().join("classes");
        assert_eq!(kept(folder.path()), Some(format!("{}:{}", classes.display(), jar.display())));
        fs::remove_file(jar).unwrap();
        assert_eq!(kept(folder.path()), None);
    }

    #[test]
    fn a_build_that_fails_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let sources = folder.path().join("sources");
        fs::create_dir_all(&sources).unwrap();
        fs::write(sources.join("redisson.xml"), "<project>").unwrap();
        let said = REDISSON.made_in(&sources, &folder.path().join("out")).unwrap_err().to_string();
        assert!(said.contains("redisson.xml"), "{said}");
    }
}
