//! Where the file is: the default path, and what is checked about a path before SQLite sees it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::network::network_fs;
use crate::{Error, Options, Result};

/// The file that is used when none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPath {
    /// The file.
    pub path: PathBuf,
    /// Whether it is in the temporary folder, because neither `$XDG_STATE_HOME` nor `$HOME` says where state belongs.
    /// Such a file may not outlive a reboot.
    pub fallback: bool,
}

/// `$XDG_STATE_HOME/tenure/locks.db`, else `$HOME/.local/state/tenure/locks.db`, else a file in a folder of this user
/// in the temporary folder. [`open`](crate::open) makes its folder on first use.
pub fn default_path() -> DefaultPath {
    let var = |key| std::env::var_os(key);
    choose(var("XDG_STATE_HOME"), var("HOME"), &std::env::temp_dir(), rustix::process::getuid().as_raw())
}

fn choose(state: Option<OsString>, home: Option<OsString>, tmp: &Path, uid: u32) -> DefaultPath {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|p| p.is_absolute());
    let state = absolute(state).or_else(|| absolute(home).map(|home| home.join(".local/state")));
    let (folder, fallback) = match state {
        Some(state) => (state.join("tenure"), false),
        None => (tmp.join(format!("tenure-{uid}")), true),
    };
    DefaultPath { path: folder.join("locks.db"), fallback }
}

/// The one path under which all processes know the file: absolute, without links, so that what lies beside it is the
/// same for all. Its folder exists.
pub(crate) fn settle(path: &Path, options: &Options) -> Result<PathBuf> {
    let wrong = |why: String| Error::Config(format!("{}: {why}", path.display()));
    let absolute = std::path::absolute(path).map_err(|e| wrong(e.to_string()))?;
    if absolute.is_dir() {
        return Err(wrong("this is a folder, expected a file".into()));
    }
    let (Some(folder), Some(file)) = (absolute.parent(), absolute.file_name()) else {
        return Err(wrong("this does not name a file".into()));
    };
    let default = default_path();
    if absolute == default.path {
        make_default_folder(folder, default.fallback).map_err(wrong)?;
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

fn make_default_folder(folder: &Path, shared_parent: bool) -> std::result::Result<(), String> {
    let cannot = |e: std::io::Error| format!("cannot make the folder {}: {e}", folder.display());
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(cannot)?;
    if shared_parent {
        // Anybody may have made it before us, to own our locks.
        let found = fs::symlink_metadata(folder).map_err(cannot)?;
        if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() {
            return Err(format!("{} belongs to somebody else", folder.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_belongs_where_the_user_says() {
        let choose = |state: Option<&str>, home: Option<&str>| {
            choose(state.map(Into::into), home.map(Into::into), Path::new("/tmp"), 7)
        };
        let expect = |path: &str, fallback| DefaultPath { path: path.into(), fallback };
        assert_eq!(choose(Some("/s"), Some("/h")), expect("/s/tenure/locks.db", false));
        assert_eq!(choose(None, Some("/h")), expect("/h/.local/state/tenure/locks.db", false));
        assert_eq!(choose(Some("relative"), Some("/h")), expect("/h/.local/state/tenure/locks.db", false));
        assert_eq!(choose(Some(""), None), expect("/tmp/tenure-7/locks.db", true));
    }

    #[test]
    fn a_folder_in_the_temporary_folder_must_be_ours() {
        let tmp = tempfile::tempdir().unwrap();
        let folder = tmp.path().join("tenure-7");
        std::os::unix::fs::symlink("/", &folder).unwrap();
        assert!(make_default_folder(&folder, true).unwrap_err().contains("somebody else"));
        let fresh = tmp.path().join("fresh");
        make_default_folder(&fresh, true).unwrap();
        assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o777, 0o700);
    }
}
