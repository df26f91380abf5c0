//! Drivers: programs around the other libraries, built on first use and kept until their sources change.
//!
//! They are put into cargo's target folder, named by a fingerprint of the sources. A lock file there ensures that test
//! processes that start together build each driver once.

pub mod go;
pub(crate) mod java;
pub(crate) mod node;
pub mod python;

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, Result};

/// How a driver is built, and what its users get.
pub struct Recipe<T> {
    /// Its name.
    pub name: &'static str,
    /// The folder of its sources, in this crate or absolute.
    pub folder: &'static str,
    /// The variable with another version of the library than the sources name; empty if there is none.
    pub version: &'static str,
    /// Builds from the sources into an empty folder, which is then moved into place.
    pub build: fn(&Path, &Path) -> Result<()>,
    /// What users get of a finished build, if it is complete.
    pub kept: fn(&Path) -> Option<T>,
}

impl<T> Recipe<T> {
    /// Returns what users get of the driver; builds it first if necessary.
    ///
    /// # Errors
    /// `Build` when that fails.
    pub fn made(&self) -> Result<T> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(self.folder);
        let version = other_version(self.version).map(|version| format!("-{version}")).unwrap_or_default();
        self.made_in(&sources, &target_folder()?.join(format!("interop-{}{version}", self.name)))
    }

    fn made_in(&self, sources: &Path, folder: &Path) -> Result<T> {
        let failed = |e: std::io::Error| Error::Build(format!("{}: {e}", folder.display()));
        let folder = folder.join(fingerprint(sources)?);
        let (built, unfinished) = (folder.join("built"), folder.join("unfinished"));
        fs::create_dir_all(&folder).map_err(failed)?;
        // Released when the file is closed, however this ends.
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        if let Some(known) = (self.kept)(&built) {
            return Ok(known);
        }
        for old in [&built, &unfinished].into_iter().filter(|old| old.exists()) {
            fs::remove_dir_all(old).map_err(failed)?;
        }
        fs::create_dir(&unfinished).map_err(failed)?;
        (self.build)(sources, &unfinished)?;
        fs::rename(&unfinished, &built).map_err(failed)?;
        (self.kept)(&built).ok_or_else(|| Error::Build(format!("{} has no driver in it", built.display())))
    }
}

/// The version of a library in this variable, if it is set.
fn other_version(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|version| !version.is_empty())
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ran = command.output().map_err(|e| Error::Build(format!("{program}: {e}")))?;
    if ran.status.success() {
        return Ok(());
    }
    // Some tools report errors on standard output.
    let said = [ran.stdout, ran.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    Err(Error::Build(format!("{program}: {said}")))
}

/// Builds from local caches if possible, so that no registry need be reachable.
fn offline_first(build: impl Fn(bool) -> Result<()>) -> Result<()> {
    build(true).or_else(|_| build(false))
}

/// Copies the sources, for languages that are not compiled.
fn copy(sources: &Path, into: &Path) -> Result<()> {
    for file in files(sources)? {
        let to = into.join(file.strip_prefix(sources).unwrap_or(&file));
        let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(&file, &to));
        copied.map_err(|e| Error::Build(format!("{}: {e}", to.display())))?;
    }
    Ok(())
}

/// Hashes the names and contents of all sources.
fn fingerprint(sources: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in files(sources)? {
        file.strip_prefix(sources).unwrap_or(&file).hash(&mut hasher);
        fs::read(&file).map_err(|e| Error::Build(format!("{}: {e}", file.display())))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|e| Error::Build(format!("{}: {e}", folder.display())))?;
        for path in entries.flatten().map(|e| e.path()) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}

/// Cargo marks it with `CACHEDIR.TAG`.
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
    fn a_build_is_kept_once_it_has_ended_well() {
        let folder = tempfile::tempdir().unwrap();
        let (sources, out) = (folder.path().join("sources"), folder.path().join("out"));
        fs::create_dir_all(sources.join("part")).unwrap();
        fs::write(sources.join("part/text"), "a driver").unwrap();
        let kept = |built: &Path| fs::read_to_string(built.join("part/text")).ok();
        let fails = |sources: &Path, into: &Path| {
            copy(sources, into)?;
            run(Command::new("sh").args(["-c", "echo this; echo and that >&2; exit 1"]))
        };
        let failing = Recipe { name: "", folder: "", version: "", build: fails, kept };
        let said = failing.made_in(&sources, &out).unwrap_err().to_string();
        assert!(said.contains("this") && said.contains("and that"), "{said}");
        let good = Recipe { name: "", folder: "", version: "", build: copy, kept };
        assert_eq!(good.made_in(&sources, &out).unwrap(), "a driver");
        assert_eq!(failing.made_in(&sources, &out).unwrap(), "a driver");
    }
}
