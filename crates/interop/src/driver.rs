//! The Java driver, built when it is first needed and kept until its sources change.
//!
//! It goes into cargo's target folder, under a name made of the sources, and a file there is locked meanwhile: test
//! processes that start together build it once.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result};

/// The class path with which `java` finds the driver. Builds it if that has not been done.
pub(crate) fn class_path() -> Result<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("java");
    class_path_of(&sources, &target_folder()?.join("interop-java"))
}

fn class_path_of(sources: &Path, folder: &Path) -> Result<String> {
    let failed = |e: std::io::Error| Error::Build(format!("{}: {e}", folder.display()));
    let out = folder.join(fingerprint(sources)?);
    fs::create_dir_all(&out).map_err(failed)?;
    // Unlocked when it is closed, however this ends.
    let lock = File::create(out.join("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if let Some(known) = kept(&out) {
        return Ok(known);
    }
    // What was fetched before is enough most of the time, and then no registry need be reachable.
    maven(sources, &out, &["-o"]).or_else(|_| maven(sources, &out, &[]))?;
    kept(&out).ok_or_else(|| Error::Build(format!("{} has no class path after the build", out.display())))
}

/// Of a finished build whose libraries are still there.
fn kept(out: &Path) -> Option<String> {
    let libraries = fs::read_to_string(out.join("class-path")).ok()?;
    let libraries = libraries.trim();
    let all_there = libraries.split(':').all(|jar| Path::new(jar).is_file());
    all_there.then(|| format!("{}:{libraries}", out.join("classes").display()))
}

/// The class path is written last: where it is, the classes are.
fn maven(sources: &Path, out: &Path, how: &[&str]) -> Result<()> {
    let unfinished = out.join("class-path.unfinished");
    let built = Command::new("mvn")
        .args(["-q", "-B"])
        .args(how)
        .arg("-f")
        .arg(sources.join("pom.xml"))
        .arg(format!("-Dout={}", out.display()))
        .arg(format!("-Dmdep.outputFile={}", unfinished.display()))
        .args(["compiler:compile", "dependency:build-classpath"])
        .output()
        .map_err(|e| Error::Build(format!("mvn: {e}")))?;
    if !built.status.success() {
        return Err(Error::Build(String::from_utf8_lossy(&built.stdout).into_owned()));
    }
    fs::rename(&unfinished, out.join("class-path")).map_err(|e| Error::Build(e.to_string()))
}

/// Of every source, by name and content.
fn fingerprint(sources: &Path) -> Result<String> {
    let mut files = Vec::new();
    let mut folders = vec![sources.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|e| Error::Build(format!("{}: {e}", folder.display())))?;
        for path in entries.flatten().map(|e| e.path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.strip_prefix(sources).unwrap_or(&file).hash(&mut hasher);
        fs::read(&file).map_err(|e| Error::Build(format!("{}: {e}", file.display())))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Cargo marks it with a file.
fn target_folder() -> Result<PathBuf> {
    let me = std::env::current_exe().map_err(|e| Error::Build(e.to_string()))?;
    let marked = me.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
    marked.map(Path::to_owned).ok_or_else(|| Error::Build(format!("{} is in no target folder", me.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_sources_are_another_driver() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        for sources in [&a, &b] {
            fs::create_dir_all(sources.join("src")).unwrap();
            fs::write(sources.join("pom.xml"), "pom").unwrap();
            fs::write(sources.join("src/A.java"), "class A").unwrap();
        }
        assert_eq!(fingerprint(&a).unwrap(), fingerprint(&b).unwrap());
        fs::write(b.join("src/A.java"), "class A {}").unwrap();
        assert_ne!(fingerprint(&a).unwrap(), fingerprint(&b).unwrap());
    }

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
    fn what_does_not_build_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let sources = folder.path().join("sources");
        fs::create_dir_all(&sources).unwrap();
        fs::write(sources.join("pom.xml"), "<project>").unwrap();
        let said = class_path_of(&sources, &folder.path().join("out")).unwrap_err().to_string();
        assert!(said.contains("pom.xml"), "{said}");
    }
}
