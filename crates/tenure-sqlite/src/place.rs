//! The path of the file: the default path, and checks before SQLite opens it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::network::network_fs;
use crate::{Error, Options, Result};

/// Advice where the default path cannot be used.
const NAME_IT: &str = "name the file, as in --url sqlite:/var/lib/app/locks.db, or in TENURE_URL";

/// The file that is used when none is given: `$XDG_STATE_HOME/tenure/locks.db`, else
/// `$HOME/.local/state/tenure/locks.db`. Where `HOME` is not set, as in services and some cron jobs, the home
/// directory comes from the user database, so that a service and a shell of the same user lock in the same file.
/// [`open`](crate::open) creates its folder on first use.
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
            "no place for the default store: neither $HOME nor the user database names a home directory; {NAME_IT}"
        ))),
    }
}

/// The canonical path, which is the same for all processes: absolute, without symlinks, so that all find the same
/// files beside it. Its folder exists.
pub(crate) fn settle(path: &Path, options: &Options) -> Result<PathBuf> {
    let wrong = |why: String| Error::Config(format!("{}: {why}", path.display()));
    let absolute = std::path::absolute(path).map_err(|e| wrong(e.to_string()))?;
    if absolute.is_dir() {
        return Err(wrong("this is a folder, expected a file".into()));
    }
    let (Some(folder), Some(file)) = (absolute.parent(), absolute.file_name()) else {
        return Err(wrong("this does not name a file".into()));
    };
    if default_path().is_ok_and(|default| absolute == default) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|e| wrong(format!("cannot make the folder {}: {e}; {NAME_IT}", folder.display())))?;
    }
    if !folder.is_dir() {
        return Err(wrong(format!("the folder {} does not exist: make it first", folder.display())));
    }
    let dangling = !absolute.exists() && absolute.is_symlink();
    if dangling {
        return Err(wrong("this is a link to a file that does not exist: name the file itself".into()));
    }
    let real = match fs::canonicalize(&absolute) {
        Ok(real) => real,
        Err(_) => fs::canonicalize(folder).map_err(|e| wrong(e.to_string()))?.join(file),
    };
    if !options.network_fs
        && let Some(fs) = real.parent().and_then(network_fs)
    {
        return Err(wrong(format!(
            "it is on a network file system ({fs}), where file locks and shared memory do not hold between machines: \
             use a local file, or allow it with network_fs if only this machine uses the file"
        )));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_belongs_where_the_user_says() {
        let choose =
            |state: Option<&str>, home: Option<&str>| choose(state.map(Into::into), home.map(Into::into));
        assert_eq!(choose(Some("/s"), Some("/h")).unwrap(), Path::new("/s/tenure/locks.db"));
        assert_eq!(choose(None, Some("/h")).unwrap(), Path::new("/h/.local/state/tenure/locks.db"));
        assert_eq!(
            choose(Some("relative"), Some("/h")).unwrap(),
            Path::new("/h/.local/state/tenure/locks.db")
        );
        for nowhere in [choose(Some(""), None), choose(None, Some("relative"))] {
            assert!(nowhere.unwrap_err().to_string().contains("--url sqlite:/"));
        }
    }

    #[test]
    fn without_a_home_in_the_environment_it_is_the_users_own() {
        // The test runs itself as a process with another environment, which prints what it finds there.
        const ASKED: &str = "TENURE_TEST_TELLS_ITS_PATH";
        if std::env::var_os(ASKED).is_some() {
            println!("found {:?}", default_path());
            return;
        }
        let own = ["-c", "getent passwd \"$(id -u)\" | cut -d: -f6"];
        let own = std::process::Command::new("sh").args(own).output().unwrap().stdout;
        let find = |home: Option<&str>| {
            let mut process = std::process::Command::new(std::env::current_exe().unwrap());
            let me = "place::tests::without_a_home_in_the_environment_it_is_the_users_own";
            process.args(["--exact", me, "--nocapture"]).env(ASKED, "1");
            process.env_remove("XDG_STATE_HOME").env_remove("HOME").envs(home.map(|home| ("HOME", home)));
            let said = String::from_utf8(process.output().unwrap().stdout).unwrap();
            said.lines().find(|line| line.contains("found ")).unwrap().to_owned()
        };
        let own = String::from_utf8(own).unwrap();
        assert_eq!(find(None), find(Some(own.trim())), "a service and the shell of one user");
        assert!(find(Some("relative")).contains("--url sqlite:/"));
    }
}
