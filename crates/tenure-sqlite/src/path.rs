//! The path of the database file: the default one, and the checks before SQLite opens a file.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::network::network_fs;
use crate::{Error, Options, Result};

/// Advice where the default path cannot be used.
const GIVE_A_PATH: &str = "give a path, as in --url sqlite:/var/lib/app/locks.db or TENURE_URL";

/// Returns the file that is used when none is given: `$XDG_STATE_HOME/tenure/locks.db`, else
/// `$HOME/.local/state/tenure/locks.db`. Where `HOME` is not set, as in services and some cron jobs, the home
/// directory comes from the user database, so that a service and a shell of the same user lock in the same file.
/// [`open`](crate::open) creates its folder on first use.
///
/// ```no_run
/// # fn main() -> tenure_core::Result<()> {
/// let store = tenure_sqlite::open(tenure_sqlite::default_path()?, tenure_sqlite::Options::default())?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// `Config` when no state directory is known: a guess could differ between processes, which would lock different
/// files.
pub fn default_path() -> Result<PathBuf> {
    choose(std::env::var_os("XDG_STATE_HOME"), std::env::home_dir())
}

fn choose(state: Option<OsString>, home: Option<PathBuf>) -> Result<PathBuf> {
    let state = state.map(PathBuf::from).filter(|state| state.is_absolute());
    let home = home.filter(|home| home.is_absolute()).map(|home| home.join(".local/state"));
    match state.or(home) {
        Some(state) => Ok(state.join("tenure/locks.db")),
        None => Err(Error::Config(format!(
            "the default store has no path, since neither $HOME nor the user database names a home directory: \
             {GIVE_A_PATH}"
        ))),
    }
}

/// Resolves `path` to the path that all processes use: absolute and without symlinks, so that all find the same files
/// beside it. Checks that its folder exists and is not on a network file system.
pub(crate) fn resolve(path: &Path, options: &Options) -> Result<PathBuf> {
    let wrong = |why: String| Error::Config(format!("{}: {why}", path.display()));
    let absolute = std::path::absolute(path).map_err(|e| wrong(e.to_string()))?;
    if absolute.is_dir() {
        return Err(wrong("this is a folder: give the path of a file in it".into()));
    }
    let (Some(folder), Some(file)) = (absolute.parent(), absolute.file_name()) else {
        return Err(wrong("this is not the path of a file".into()));
    };
    if default_path().is_ok_and(|default| absolute == default) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| {
            wrong(format!("the folder {} cannot be created ({e}): {GIVE_A_PATH}", folder.display()))
        })?;
    }
    if !folder.is_dir() {
        return Err(wrong(format!("the folder {} does not exist: create it first", folder.display())));
    }
    let dangling = !absolute.exists() && absolute.is_symlink();
    if dangling {
        return Err(wrong(
            "this is a symbolic link to a file that does not exist: give the path of the file itself".into(),
        ));
    }
    let real = match fs::canonicalize(&absolute) {
        Ok(real) => real,
        Err(_) => fs::canonicalize(folder).map_err(|e| wrong(e.to_string()))?.join(file),
    };
    if !options.network_fs
        && let Some(fs) = real.parent().and_then(network_fs)
    {
        return Err(wrong(format!(
            "this is on a network file system ({fs}), where file locks and shared memory do not work between machines: \
             use a local file, or set network_fs=allow if only this machine uses the file"
        )));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_path_follows_the_environment() {
        let choose =
            |state: Option<&str>, home: Option<&str>| choose(state.map(Into::into), home.map(Into::into));
        assert_eq!(choose(Some("/s"), Some("/h")).unwrap(), Path::new("/s/tenure/locks.db"));
        assert_eq!(choose(None, Some("/h")).unwrap(), Path::new("/h/.local/state/tenure/locks.db"));
        assert_eq!(
            choose(Some("relative"), Some("/h")).unwrap(),
            Path::new("/h/.local/state/tenure/locks.db")
        );
        for unknown in [choose(Some(""), None), choose(None, Some("relative"))] {
            assert!(unknown.unwrap_err().to_string().contains("--url sqlite:/"));
        }
    }

    #[test]
    fn without_home_the_default_path_comes_from_the_user_database() {
        // The test runs itself in a process with another environment, which prints the default path.
        const IN_CHILD: &str = "TENURE_TEST_PRINT_DEFAULT_PATH";
        if std::env::var_os(IN_CHILD).is_some() {
            println!("found {:?}", default_path());
            return;
        }
        let own = ["-c", "getent passwd \"$(id -u)\" | cut -d: -f6"];
        let own = std::process::Command::new("sh").args(own).output().unwrap().stdout;
        let find = |home: Option<&str>| {
            let mut process = std::process::Command::new(std::env::current_exe().unwrap());
            let me = "path::tests::without_home_the_default_path_comes_from_the_user_database";
            process.args(["--exact", me, "--nocapture"]).env(IN_CHILD, "1");
            process.env_remove("XDG_STATE_HOME").env_remove("HOME").envs(home.map(|home| ("HOME", home)));
            let output = String::from_utf8(process.output().unwrap().stdout).unwrap();
            output.lines().find(|line| line.contains("found ")).unwrap().to_owned()
        };
        let own = String::from_utf8(own).unwrap();
        assert_eq!(find(None), find(Some(own.trim())), "a service and the shell of one user");
        assert!(find(Some("relative")).contains("--url sqlite:/"));
    }
}
