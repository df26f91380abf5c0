//! The folder of the wake-up FIFOs, beside the database file. Other users may be able to write to the parent folder. So
//! the folder is opened once, without following symlinks, checked, and then used through its descriptor, which cannot
//! be swapped for another.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use tenure_core::wall_micros;

use crate::database::beside;
use crate::wake;

/// Who may use a store, according to the owner and the permissions of its file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Users {
    mode: u32,
    owner: Option<(u32, u32)>,
}

/// The name of a file that is about to become the store.
pub(crate) const NEW_FILE: &str = ".new";
/// The name of the lock file for creating the store.
pub(crate) const CREATE_LOCK: &str = ".making";

/// How long another user may take from creating the folder to creating the file.
const CREATION_TIME: Duration = Duration::from_secs(1);

const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

impl Users {
    /// Only the user who creates the file.
    pub(crate) const CREATOR: Self = Self { mode: 0o600, owner: None };

    /// The users of a file that is created with this mode.
    pub(crate) fn of_mode(mode: u32) -> Self {
        Self { mode: 0o600 | (mode & 0o066), owner: None }
    }

    /// The users of an existing file.
    pub(crate) fn of_file(file: &Stat) -> Self {
        Self { owner: Some((file.st_uid, file.st_gid)), ..Self::of_mode(file.st_mode) }
    }

    /// The users of a file that is created in `folder`: its group, if the folder is the group's; all, if all could
    /// replace the file with another one anyway.
    pub(crate) fn of_folder(folder: &Stat) -> Self {
        let has = |bits: u32| folder.st_mode & bits == bits;
        Self::of_mode(match has(0o002) {
            true if has(STICKY) => 0o600,
            true => 0o666,
            false if has(SETGID | 0o020) => 0o660,
            false => 0o600,
        })
    }

    /// The permissions of the file.
    pub(crate) fn file_mode(self) -> u32 {
        self.mode
    }

    /// The permissions of a FIFO: all who may write the file may wake its clients.
    pub(crate) fn fifo_mode(self) -> u32 {
        0o600 | (self.mode & 0o022)
    }

    /// The permissions of the wake-up folder: all who may write the file may create files there.
    fn folder_mode(self, parent: &Stat) -> u32 {
        let may_write = |bit: u32, all: u32| if self.mode & bit != 0 { all } else { 0 };
        let sticky = may_write(0o002, STICKY) | (parent.st_mode & STICKY);
        0o700 | may_write(0o020, 0o070) | may_write(0o002, 0o007) | sticky | (parent.st_mode & SETGID)
    }

    /// Whether an existing file already has this mode and the right owner.
    fn have_access(self, found: &Stat, mode: u32) -> bool {
        let may_give = rustix::process::geteuid().is_root();
        let given = self.owner.is_none_or(|owner| !may_give || owner == (found.st_uid, found.st_gid));
        given && found.st_mode & mode == mode
    }

    /// Gives them access to a new file, through its descriptor: its path may name another file by now. What root
    /// creates beside another user's store is given to that user, as SQLite does with its WAL.
    pub(crate) fn grant_access(self, file: impl AsFd, mode: u32) -> io::Result<()> {
        if let Some((uid, gid)) = self.owner
            && rustix::process::geteuid().is_root()
        {
            rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?)
    }
}

/// The open wake-up folder.
#[derive(Debug)]
pub(crate) struct WakeFolder(OwnedFd);

impl AsFd for WakeFolder {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl WakeFolder {
    /// Opens the wake-up folder of the file `store`.
    ///
    /// # Errors
    /// When it does not exist, is a symlink, or belongs to neither this user, root nor the owner of the file.
    pub(crate) fn open(store: &Path) -> io::Result<Self> {
        let path = beside(store, "-wake");
        let wrong = |why: String| io::Error::other(format!("{} {why}", path.display()));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| match e {
            Errno::NOTDIR | Errno::LOOP => {
                wrong("is a symbolic link or a file instead of a folder: remove it".into())
            }
            other => other.into(),
        })?;
        let owner = rustix::fs::fstat(&fd)?.st_uid;
        let ours = rustix::process::geteuid().as_raw();
        let of_file = || rustix::fs::stat(store).is_ok_and(|file| file.st_uid == owner);
        if owner != ours && owner != 0 && !of_file() {
            return Err(wrong(format!(
                "belongs to user {owner} instead of this user ({ours}), root or the owner of the store: remove it"
            )));
        }
        Ok(Self(fd))
    }

    /// Opens the wake-up folder, creates it if it does not exist, and gives these users access.
    pub(crate) fn open_or_create(store: &Path, users: Users) -> io::Result<Self> {
        match rustix::fs::mkdir(beside(store, "-wake"), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(other) => return Err(other.into()),
        }
        let folder = Self::open(store)?;
        folder.grant_access(store, users)?;
        Ok(folder)
    }

    /// Gives these users access, if the folder is ours. Every opener does this, since the process that created the
    /// folder may have been killed before it did.
    pub(crate) fn grant_access(&self, store: &Path, users: Users) -> io::Result<()> {
        let parent = rustix::fs::stat(store.parent().unwrap_or(Path::new("/")))?;
        let (found, mode) = (rustix::fs::fstat(self)?, users.folder_mode(&parent));
        let ours = found.st_uid == rustix::process::geteuid().as_raw();
        // Skips a folder of ours that was moved into its place, which would contain other files.
        if ours && !users.have_access(&found, mode) && self.file_names()?.iter().all(|name| is_own_name(name))
        {
            users.grant_access(self, (found.st_mode & 0o7777) | mode)?;
        }
        Ok(())
    }

    /// Whether the folder of `store` was created just now, perhaps by another user who has not finished.
    pub(crate) fn is_new(store: &Path) -> bool {
        let Ok(found) = rustix::fs::lstat(beside(store, "-wake")) else { return false };
        let changed = Duration::new(found.st_ctime.try_into().unwrap_or(0), found.st_ctime_nsec as u32);
        let age = Duration::from_micros(wall_micros()).saturating_sub(changed);
        FileType::from_raw_mode(found.st_mode) == FileType::Directory && age < CREATION_TIME
    }

    /// The names of its files.
    pub(crate) fn file_names(&self) -> io::Result<Vec<String>> {
        let entries =
            Dir::read_from(self)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        entries.filter(|name| !matches!(name.as_deref(), Ok("." | ".."))).collect()
    }

    /// Opens one of its files, which must be of this type. Never follows a symlink, and never blocks.
    pub(crate) fn open_file(&self, name: &str, kind: FileType, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self, name, flags, Mode::RUSR | Mode::WUSR)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) == kind {
            true => Ok(fd),
            false => Err(Errno::INVAL),
        }
    }

    /// The metadata of one of its files, or `None` if it does not exist.
    pub(crate) fn stat(&self, name: &str) -> Option<Stat> {
        rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    pub(crate) fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(self, name, AtFlags::empty());
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(self, from, self, to)?)
    }

    /// Moves one of its files to a path that must not exist yet.
    pub(crate) fn move_out(&self, name: &str, to: &Path) -> io::Result<()> {
        let only_new = rustix::fs::RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(self, name, CWD, to, only_new) {
            // Not every file system supports `NOREPLACE`.
            Err(Errno::INVAL | Errno::NOSYS) => Ok(rustix::fs::renameat(self, name, CWD, to)?),
            other => Ok(other?),
        }
    }
}

/// Whether a file of this name belongs in the folder.
fn is_own_name(name: &str) -> bool {
    name == NEW_FILE || name == CREATE_LOCK || wake::client_of(name).is_some()
}

/// The identity of a file, independent of its path.
pub(crate) fn file_id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as _, stat.st_ino as _)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_file_is_for_the_group_of_its_folder_or_for_all_who_could_replace_it() {
        for (parent, file) in [
            (0o700, 0o600),
            (0o755, 0o600),
            (0o770, 0o600),
            (0o2750, 0o600),
            (0o2775, 0o660),
            (0o3770, 0o660),
            (0o777, 0o666),
            (0o1777, 0o600),
            (0o3777, 0o600),
        ] {
            let tmp = tempfile::tempdir().unwrap();
            std::fs::set_permissions(tmp.path(), std::fs::Permissions::from_mode(parent)).unwrap();
            let users = Users::of_folder(&rustix::fs::stat(tmp.path()).unwrap());
            assert_eq!(users.file_mode(), file, "{parent:o}");
        }
    }

    #[test]
    fn the_folder_is_for_those_who_may_write_the_file() {
        for (file, wake) in [(0o600, 0o700), (0o660, 0o770), (0o644, 0o700), (0o666, 0o1777)] {
            let tmp = tempfile::tempdir().unwrap();
            let store = tmp.path().join("locks.db");
            WakeFolder::open_or_create(&store, Users::of_mode(file)).unwrap();
            let made = std::fs::metadata(tmp.path().join("locks.db-wake")).unwrap();
            assert_eq!(made.mode() & 0o7777, wake, "{file:o}");
        }
    }

    /// The folder of a group's store that was created, but not opened to the group, with a file in it.
    fn create_closed(inside: Option<&str>) -> (tempfile::TempDir, std::path::PathBuf) {
        let tmp = tempfile::tempdir().unwrap();
        let wake = tmp.path().join("locks.db-wake");
        rustix::fs::mkdir(&wake, Mode::RWXU).unwrap();
        inside.inspect(|name| std::fs::write(wake.join(name), "").unwrap());
        (tmp, wake)
    }

    #[test]
    fn the_next_opener_grants_the_access_that_the_creator_did_not() {
        let id = tenure_core::ClientId::new();
        let (fifo, unfinished) = (id.to_string(), wake::unfinished_name(id));
        for inside in [None, Some(CREATE_LOCK), Some(NEW_FILE), Some(&*fifo), Some(&*unfinished)] {
            let (tmp, wake) = create_closed(inside);
            WakeFolder::open_or_create(&tmp.path().join("locks.db"), Users::of_mode(0o660)).unwrap();
            assert_eq!(wake.metadata().unwrap().mode() & 0o7777, 0o770, "{inside:?}");
        }
    }

    #[test]
    fn a_foreign_folder_in_its_place_stays_closed() {
        let (tmp, wake) = create_closed(Some("diary"));
        WakeFolder::open_or_create(&tmp.path().join("locks.db"), Users::of_mode(0o660)).unwrap();
        assert_eq!(wake.metadata().unwrap().mode() & 0o7777, 0o700);
    }

    #[test]
    fn wider_permissions_of_the_owner_are_kept() {
        let (tmp, wake) = create_closed(None);
        std::fs::set_permissions(&wake, std::fs::Permissions::from_mode(0o705)).unwrap();
        WakeFolder::open_or_create(&tmp.path().join("locks.db"), Users::of_mode(0o660)).unwrap();
        assert_eq!(wake.metadata().unwrap().mode() & 0o7777, 0o775);
    }

    #[test]
    fn a_symlink_or_a_file_in_its_place_is_refused() {
        let tmp = tempfile::tempdir().unwrap();
        let (store, wake) = (tmp.path().join("locks.db"), tmp.path().join("locks.db-wake"));
        let users = Users::CREATOR;
        std::os::unix::fs::symlink(tmp.path(), &wake).unwrap();
        assert!(
            WakeFolder::open_or_create(&store, users).unwrap_err().to_string().contains("a symbolic link")
        );
        std::fs::remove_file(&wake).unwrap();
        std::fs::write(&wake, "").unwrap();
        assert!(WakeFolder::open_or_create(&store, users).unwrap_err().to_string().contains("remove it"));
    }
}
