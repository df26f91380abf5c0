//! Several users: those who share a store, and those who try to damage it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use rustix::fs::{FlockOperation, Gid, Uid};
use tenure_core::backend::Interest;
use tenure_core::{Backend, Claim, Client, ClientId, Error, HoldId, Kind, Name};
use tenure_sqlite::Options;

use crate::support::{ChildProcess, client, fresh, patient, until_waiting};

const NOBODY: u32 = 65534;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes this thread, and those that it starts, another user's.
pub(crate) fn become_nobody() {
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_gid(Gid::from_raw(NOBODY)).unwrap();
    rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn wake_folder(path: &Path) -> PathBuf {
    format!("{}-wake", path.display()).into()
}

fn why(opened: tenure_core::Result<tenure_sqlite::Sqlite>) -> String {
    match opened {
        Err(Error::Config(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn open(path: &Path) -> tenure_core::Result<tenure_sqlite::Sqlite> {
    tenure_sqlite::open(path, Options::default())
}

#[tokio::test]
async fn nothing_is_made_where_a_link_leads() {
    let (folder, path) = fresh();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, wake_folder(&path)).unwrap();
    let said = why(open(&path));
    assert!(said.contains("locks.db-wake is a symbolic link") && said.contains("remove it"), "{said}");
    assert!(!path.exists());

    // And of a store that is there already: it polls, and says so.
    fs::remove_file(wake_folder(&path)).unwrap();
    let here = patient(&path);
    fs::remove_dir(wake_folder(&path)).unwrap();
    symlink(&elsewhere, wake_folder(&path)).unwrap();
    let guard = here.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = patient(&path).lock("x");
        async move { lock.acquire().await }
    });
    until_waiting(&here, "x", 1).await;
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "a FIFO was made where the link leads");
    let found = here.diagnose().await.unwrap();
    let wake_ups = found.iter().find(|f| f.check == "wake-ups").unwrap();
    assert!(
        wake_ups.level == tenure_core::Level::Warning && wake_ups.what.contains("a symbolic link"),
        "{wake_ups}"
    );
    waiting.abort();
    drop(guard);
}

/// Somebody who may write to the folder puts links in the place of FIFOs that are being made.
#[tokio::test]
async fn a_link_put_in_its_place_does_not_open_what_it_leads_to() {
    /// So many that some are put in just before the mode is set.
    const SWAPS: usize = 200;
    let (folder, path) = fresh();
    let secret = folder.path().join("secret");
    fs::write(&secret, "").unwrap();
    set_mode(&secret, 0o640);
    drop(open(&path).unwrap());
    // Whoever may write the store may write to FIFOs.
    set_mode(&path, 0o666);
    let (stop, swapped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let swapping = std::thread::spawn({
        let (stop, swapped, secret) = (stop.clone(), swapped.clone(), secret.clone());
        let (wake, link) = (wake_folder(&path), folder.path().join("link"));
        move || {
            while !stop.load(SeqCst) {
                let _ = symlink(&secret, &link);
                for entry in fs::read_dir(&wake).into_iter().flatten().flatten() {
                    let unfinished = entry.file_name().to_string_lossy().starts_with('.');
                    let is_fifo = entry.file_type().is_ok_and(|kind| kind.is_fifo());
                    if unfinished && is_fifo && fs::rename(&link, entry.path()).is_ok() {
                        swapped.fetch_add(1, SeqCst);
                        break;
                    }
                }
            }
        }
    });
    let began = Instant::now();
    while swapped.load(SeqCst) < SWAPS && mode(&secret) == 0o640 && began.elapsed() < testbed::PATIENCE {
        let store = open(&path).unwrap();
        for _ in 0..50 {
            // Those that find something else in its place poll.
            let id = HoldId { client: ClientId::new(), n: 1 };
            let claim = Claim::of(id, Name::new("x").unwrap(), Kind::Lock);
            drop(store.watch(&claim.name, Interest::Claim(&claim)).await.unwrap());
        }
    }
    stop.store(true, SeqCst);
    swapping.join().unwrap();
    let swapped = swapped.load(SeqCst);
    assert_eq!(mode(&secret), 0o640, "after {swapped} links");
    // On a busy machine there may be fewer, and one is enough to show something.
    assert!(swapped > 0, "no link was put in the place of a FIFO");
    println!("{swapped} links in {:?}", began.elapsed());
}

#[tokio::test]
async fn a_folder_of_somebody_else_is_not_used() {
    let (_folder, path) = fresh();
    fs::create_dir(wake_folder(&path)).unwrap();
    if !is_root() {
        drop(open(&path).unwrap());
        assert_eq!(mode(&path) & 0o077, 0);
        return;
    }
    chown(wake_folder(&path), Some(NOBODY), Some(NOBODY)).unwrap();
    let said = why(open(&path));
    assert!(said.contains("belongs to user 65534") && said.contains("remove it"), "{said}");
    assert!(!path.exists());
    // That of the one who owns the file is.
    fs::write(&path, "").unwrap();
    chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    let here = client(&path);
    let found = here.diagnose().await.unwrap();
    assert!(found.iter().all(|f| f.level == tenure_core::Level::Ok), "{found:?}");
    assert_eq!(fs::metadata(&path).unwrap().uid(), NOBODY);
}

#[test]
fn a_lock_of_somebody_else_does_not_keep_a_store_from_being_made() {
    let (_folder, path) = fresh();
    fs::create_dir(wake_folder(&path)).unwrap();
    // As anybody can who may look into the folder.
    let theirs = fs::File::open(wake_folder(&path)).unwrap();
    rustix::fs::flock(&theirs, FlockOperation::LockExclusive).unwrap();
    drop(open(&path).unwrap());
    assert_eq!(fs::read_dir(wake_folder(&path)).unwrap().count(), 0, "nothing is left of the making");
}

#[test]
fn a_store_is_for_those_who_may_write_to_its_folder() {
    for (folder_mode, file, wake) in
        [(0o700, 0o600, 0o700), (0o755, 0o600, 0o700), (0o2770, 0o660, 0o2770), (0o1777, 0o600, 0o1700)]
    {
        let (folder, path) = fresh();
        set_mode(folder.path(), folder_mode);
        drop(open(&path).unwrap());
        assert_eq!((mode(&path), mode(&wake_folder(&path))), (file, wake), "in {folder_mode:o}");
    }
    let (_folder, path) = fresh();
    let mut options = Options::default();
    options.mode = Some(0o660);
    drop(tenure_sqlite::open(&path, options).unwrap());
    assert_eq!((mode(&path), mode(&wake_folder(&path))), (0o660, 0o770), "as it was asked for");
}

/// Whichever of them makes the folder, and whatever the other has put into it by then.
#[test]
fn those_who_begin_together_open_the_folder_to_their_group() {
    for round in 0..40 {
        let (folder, path) = fresh();
        set_mode(folder.path(), 0o2770);
        let begin = std::sync::Barrier::new(3);
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| {
                    begin.wait();
                    tenure_sqlite::open(&path, patiently()).unwrap();
                });
            }
        });
        assert_eq!((mode(&path), mode(&wake_folder(&path))), (0o660, 0o2770), "round {round}");
    }
}

/// Bears for as long as it takes that others make the file.
fn patiently() -> Options {
    let mut options = Options::default();
    options.busy_limit = Some(testbed::PATIENCE);
    options
}

#[test]
fn opening_a_store_opens_a_folder_that_was_left_closed() {
    let (folder, path) = fresh();
    set_mode(folder.path(), 0o2770);
    drop(open(&path).unwrap());
    set_mode(&wake_folder(&path), 0o700);
    drop(open(&path).unwrap());
    assert_eq!(mode(&wake_folder(&path)), 0o2770);
}

#[tokio::test]
async fn users_of_one_group_share_a_store() {
    let (folder, path) = fresh();
    set_mode(folder.path(), 0o755);
    let (group, path) =
        (folder.path().join("group"), folder.path().join("group").join(path.file_name().unwrap()));
    fs::create_dir(&group).unwrap();
    if is_root() {
        chown(&group, None, Some(NOBODY)).unwrap();
    }
    set_mode(&group, 0o2770);
    let here = patient(&path);
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.mode() & 0o777, found.gid()), (0o660, fs::metadata(&group).unwrap().gid()));
    hand_over(&here, &path).await;
    let found = here.diagnose().await.unwrap();
    assert!(found.iter().all(|f| f.level == tenure_core::Level::Ok), "{found:?}");
    set_mode(&group, 0o770);
    let found = here.diagnose().await.unwrap();
    assert!(
        found.iter().any(|f| f.check == "sharing" && f.advice.as_ref().unwrap().contains("g+s")),
        "{found:?}"
    );
}

/// A lock goes from this process to one of another user, and back: each wakes the other.
async fn hand_over(here: &Client, path: &Path) {
    let guard = here.lock("door").acquire().await.unwrap();
    let mut other = ChildProcess::start(if is_root() { "wait as nobody" } else { "wait" }, path);
    until_waiting(here, "door", 1).await;
    guard.release().await.unwrap();
    assert_eq!(other.next_line().await, "held", "one user wakes the other");
    let waiting = tokio::spawn({
        let lock = here.lock("door");
        async move { lock.acquire().await }
    });
    until_waiting(here, "door", 1).await;
    other.proceed();
    assert_eq!(other.next_line().await, "released");
    drop(testbed::done("and back", waiting).await.unwrap());
    other.wait_for_success();
}

#[tokio::test]
async fn root_uses_the_store_of_another_user() {
    let (folder, path) = fresh();
    if is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let mut maker = ChildProcess::start("open as nobody", &path);
        assert_eq!(maker.next_line().await, "opened");
        maker.wait_for_success();
        // Made anew by root, it is still that user's.
        fs::remove_dir(wake_folder(&path)).unwrap();
    }
    let here = patient(&path);
    hand_over(&here, &path).await;
    let owner = fs::metadata(folder.path()).unwrap().uid();
    assert_eq!(fs::metadata(wake_folder(&path)).unwrap().uid(), owner);
}

#[tokio::test]
async fn a_user_who_may_not_write_is_told_how_to_share() {
    let said = if is_root() {
        let (folder, path) = fresh();
        set_mode(folder.path(), 0o755);
        drop(open(&path).unwrap());
        let mut other = ChildProcess::start("open as nobody", &path);
        let said = other.next_line().await;
        other.wait_for_success();
        said
    } else {
        why(open(Path::new("/etc/passwd")))
    };
    for part in ["cannot be opened for writing", "belongs to user 0", "chmod g+rwxs"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}
