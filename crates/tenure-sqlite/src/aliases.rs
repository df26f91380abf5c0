//! Refuses a database file that has several paths. SQLite keeps its WAL and its shared memory beside the path by which
//! a file was opened. Processes that open one file by two paths use two WALs, and both would be granted the lock.

use std::fmt;
use std::path::Path;

/// Why a file may have several paths, and what to do about it.
#[derive(Debug, PartialEq)]
pub(crate) struct Aliased {
    pub(crate) what: String,
    pub(crate) advice: String,
}

impl fmt::Display for Aliased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.advice)
    }
}

/// Checks that all processes that use the file find the same WAL beside it.
pub(crate) fn check_single_path(path: &Path) -> Result<(), Aliased> {
    let shown = path.display();
    let links = rustix::fs::stat(path).map_or(1, |found| found.st_nlink);
    if links > 1 {
        return Err(Aliased {
            what: format!(
                "{shown} has {links} names (hard links), and processes that use different ones would not see each \
                 other's locks"
            ),
            advice: "remove the other names (find -samefile lists them), or make them symbolic links".into(),
        });
    }
    if is_mount_point(path) {
        return Err(Aliased {
            what: format!(
                "{shown} is mounted by itself, without the files beside it, and processes that use it elsewhere would \
                 not see its locks"
            ),
            advice: "mount the folder that contains it instead, in every container that uses it".into(),
        });
    }
    Ok(())
}

/// Whether the file itself is a mount point, as when a container mounts a single file.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_mount_point(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let root = StatxAttributes::MOUNT_ROOT;
    match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS) {
        Ok(found) if found.stx_attributes_mask.contains(root) => found.stx_attributes.contains(root),
        // Kernels before 5.8 do not report it.
        _ => std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| is_mounted(&mounts, path)),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_mount_point(_: &Path) -> bool {
    false
}

#[cfg(any(target_os = "linux", target_os = "android", test))]
/// Whether `path` is a mount point in this `mountinfo`, where mount points are the fifth field.
fn is_mounted(mountinfo: &str, path: &Path) -> bool {
    let shown = path.to_string_lossy();
    let escaped =
        shown.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012");
    mountinfo.lines().any(|line| line.split(' ').nth(4) == Some(&*escaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_found_where_the_kernel_lists_them() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      95 22 8:1 /srv/locks.db /data/a\\040b.db rw,relatime - ext4 /dev/sda1 rw\n";
        assert!(is_mounted(mounts, Path::new("/data/a b.db")));
        assert!(!is_mounted(mounts, Path::new("/data/a")));
        assert!(!is_mounted(mounts, Path::new("/srv/locks.db")));
    }

    #[test]
    fn an_ordinary_file_has_one_path() {
        let tmp = tempfile::tempdir().unwrap();
        let (path, link) = (tmp.path().join("a"), tmp.path().join("b"));
        std::fs::write(&path, "").unwrap();
        assert_eq!(check_single_path(&path), Ok(()));
        std::fs::hard_link(&path, link).unwrap();
        assert!(check_single_path(&path).unwrap_err().what.contains("2 names"));
    }
}
