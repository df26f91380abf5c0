//! Wall clocks that can be set: a library that is loaded into a process before the others adds to its wall clock what
//! stands in a file. The monotonic clocks stay as they are.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;

use testbed::Result;

use crate::options::home;

const SOURCE: &str = include_str!("../shim/clock.rs");

/// The wall clock of a process.
pub(crate) struct Wall {
    /// Eight bytes: nanoseconds.
    file: tempfile::NamedTempFile,
}

impl Wall {
    /// One that is right.
    pub(crate) fn create() -> Result<Self> {
        library()?;
        let file = tempfile::NamedTempFile::new()?;
        let wall = Self { file };
        wall.set(0)?;
        Ok(wall)
    }

    /// Lets it differ from that of the machine by so many milliseconds.
    pub(crate) fn set(&self, millis: i64) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let nanos = millis.saturating_mul(1_000_000);
        Ok(self.file.as_file().write_all_at(&nanos.to_ne_bytes(), 0)?)
    }

    /// What the process is started with.
    pub(crate) fn environment(&self) -> Vec<OsString> {
        let pair = |name: &str, value: PathBuf| {
            let mut pair = OsString::from(name);
            pair.push("=");
            pair.push(value);
            pair
        };
        let library = library().unwrap_or_default();
        vec![pair("LD_PRELOAD", library), pair("WALL_CLOCK", self.file.path().to_owned())]
    }
}

/// Compiles it, if that has not been done yet.
fn library() -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let folder = home().join("clock");
    let library = folder.join(format!("{:016x}.so", hasher.finish()));
    if !library.is_file() {
        std::fs::create_dir_all(&folder)?;
        let built = tempfile::tempdir_in(&folder)?;
        let [source, unfinished] = ["clock.rs", "clock.so"].map(|name| built.path().join(name));
        std::fs::write(&source, SOURCE)?;
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-O", "-C", "panic=abort", "-o"]);
        let done = rustc.arg(&unfinished).arg(&source).output()?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(std::io::Error::other(format!("rustc: {said}")).into());
        }
        std::fs::rename(unfinished, &library)?;
    }
    Ok(library.canonicalize()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_as_it_is_told() {
        let wall = Wall::create().unwrap();
        let day = |millis: i64| {
            wall.set(millis).unwrap();
            let said = Command::new("env").args(wall.environment()).args(["date", "+%Y"]).output().unwrap();
            String::from_utf8(said.stdout).unwrap().trim().parse::<i64>().unwrap()
        };
        let year = 366 * 24 * 3600 * 1000;
        let now = day(0);
        assert_eq!(day(10 * year), now + 10);
        assert_eq!(day(0), now);
    }
}
