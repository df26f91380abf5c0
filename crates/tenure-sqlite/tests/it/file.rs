//! Failures of the database file: of another program, damaged, full, busy, removed or replaced.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Client, Error, Settings};
use tenure_sqlite::Options;
use testbed::{FAR, PATIENCE, done, until};

use crate::support::{ChildProcess, client, fresh, patient, until_waiting};
use crate::users::is_root;

fn refused(path: &Path) -> String {
    match tenure_sqlite::open(path, Options::default()) {
        Err(Error::Config(why)) => {
            assert!(why.contains(&path.display().to_string()), "names the file: {why}");
            why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let (_folder, path) = fresh();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 7").unwrap();
    drop(other);
    let before = std::fs::read(&path).unwrap();
    assert!(refused(&path).contains("not a Tenure store (application id 0x00000007)"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn another_layout_is_refused_with_both_numbers() {
    let (_folder, path) = fresh();
    drop(client(&path));
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    let why = refused(&path);
    assert!(why.contains("layout 2") && why.contains("layout 1"), "{why}");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let (folder, path) = fresh();
    std::fs::write(
        &path,
        "a shopping list, and by no means a database, long enough for a header ".repeat(20),
    )
    .unwrap();
    assert!(refused(&path).contains("not a SQLite database"));
    assert!(refused(folder.path()).contains("folder"));
    assert!(refused(&folder.path().join("absent/locks.db")).contains("does not exist"));
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let (_folder, path) = fresh();
    let store = client(&path);
    store.lock("a").acquire().await.unwrap().release().await.unwrap();
    drop(store);
    // Everything behind the header, where the tables are described.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100..].fill(0xAB);
    std::fs::write(&path, bytes).unwrap();
    assert!(refused(&path).contains("damaged"));
}

#[test]
fn an_empty_file_becomes_a_store() {
    let (_folder, path) = fresh();
    std::fs::write(&path, "").unwrap();
    drop(client(&path));
    drop(client(&path));
}

#[test]
fn where_nothing_can_be_made_it_says_so() {
    // Permissions do not stop a superuser; this file system does.
    let why = refused(Path::new("/proc/tenure-test.db"));
    assert!(why.contains("read-only"), "{why}");
}

/// A client that waits so long for a busy file, and then gives up at once.
fn with_limit(path: &Path, limit: Duration) -> Client {
    let mut options = Options::default();
    options.busy_limit = Some(limit);
    let mut settings = Settings::default();
    // Longer than one attempt, which would otherwise be cut off before the limit.
    settings.call_timeout = limit * 5;
    Client::with(Arc::new(tenure_sqlite::open(path, options).unwrap()), settings)
}

#[tokio::test]
async fn a_busy_file_is_unavailable_after_the_limit_and_usable_afterwards() {
    let (_folder, path) = fresh();
    let client = with_limit(&path, Duration::from_millis(200));
    let patient = with_limit(&path, FAR);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let began = Instant::now();
    match client.lock("a").try_acquire().await {
        Err(Error::Unavailable { reason, .. }) => {
            assert!(reason.contains("another process holds the file"), "{reason}");
            assert!(reason.contains(&path.display().to_string()), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() >= Duration::from_millis(200), "it was patient");

    let lock = patient.lock("a");
    let waiting = tokio::spawn(async move { lock.try_acquire().await });
    tokio::task::yield_now().await;
    other.execute_batch("ROLLBACK").unwrap();
    let guard = done("it goes on when the file is free", waiting).await.unwrap().expect("nobody has it");
    guard.release().await.unwrap();
    let after = client.lock("a").try_acquire_for(PATIENCE).await.unwrap();
    assert!(after.is_some(), "usable by the one that was refused, too");
}

#[tokio::test]
async fn a_full_disk_is_unavailable_and_what_is_held_can_be_released() {
    let (_folder, path) = fresh();
    let mut options = Options::default();
    options.max_pages = Some(8);
    let mut settings = Settings::default();
    settings.call_timeout = Duration::from_millis(1);
    let client = Client::with(Arc::new(tenure_sqlite::open(&path, options).unwrap()), settings);
    let note = "x".repeat(1000);
    let mut guards = Vec::new();
    let error = loop {
        match client.lock(format!("n{}", guards.len())).note(note.clone()).try_acquire().await {
            Ok(guard) => guards.push(guard.unwrap()),
            Err(error) => break error,
        }
        assert!(guards.len() < 100, "it never gets full");
    };
    let Error::Unavailable { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("full") && reason.contains("locks.db"), "{reason}");
    assert!(!guards.is_empty());
    let refused = format!("n{}", guards.len());
    assert!(client.show(&refused).await.unwrap().is_none(), "what failed had no effect");
    for guard in guards {
        guard.release().await.unwrap();
    }
    drop(client.lock("n0").note(note).try_acquire().await.unwrap().unwrap());
}

#[tokio::test]
async fn a_removed_file_is_noticed_by_all() {
    let (folder, path) = fresh();
    let (a, b) = (patient(&path), patient(&path));
    let guard = a.lock("x").acquire().await.unwrap();
    assert!(b.lock("x").try_acquire().await.unwrap().is_none());
    // Only the file itself, as people do; what lies beside it stays and is in use.
    std::fs::remove_file(&path).unwrap();
    let c = patient(&path);
    let taken = c.lock("x").try_acquire().await.unwrap().expect("a new file knows of no holder");
    let only_new = c.lock("z").try_acquire().await.unwrap().expect("free");
    // What it saw at the path before counts for 10 ms.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let theirs = b.lock("z").try_acquire().await.unwrap();
    assert!(theirs.is_none(), "who has the old file open locks in it no more");
    only_new.release().await.unwrap();
    for old in [&a, &b] {
        let new = taken.id().to_string();
        until("the new file", || async {
            old.lock("x").holder().await.unwrap().is_some_and(|h| h.id == new)
        })
        .await;
    }
    assert!(guard.release().await.is_err(), "the hold was lost with the file");
    taken.release().await.unwrap();
    b.lock("x").try_acquire().await.unwrap().unwrap().release().await.unwrap();

    // And the whole folder. What is released in the background may make a file in it meanwhile.
    until("removed", || async { std::fs::remove_dir_all(folder.path()).is_ok() }).await;
    std::fs::create_dir(folder.path()).unwrap();
    let c = patient(&path);
    let taken = c.lock("y").acquire().await.unwrap();
    for old in [&a, &b] {
        until("the new file", || async { old.lock("y").holder().await.unwrap().is_some() }).await;
    }
    let lock = a.lock("y");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until_waiting(&c, "y", 1).await;
    taken.release().await.unwrap();
    drop(done("who was there before is woken as well", waiting).await.unwrap());
}

#[tokio::test]
async fn holds_in_a_replaced_file_are_lost_with_the_next_call() {
    let (_folder, path) = fresh();
    let client = patient(&path);
    let renewed = client.lock("renewed").acquire().await.unwrap();
    let fixed = client.lock("fixed").lease(FAR).acquire().await.unwrap();
    assert!(renewed.is_held() && fixed.is_held());
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    until("lost", || async {
        client.show("another").await.unwrap();
        !renewed.is_held() && !fixed.is_held()
    })
    .await;
    let again = client.lock("renewed").try_acquire().await.unwrap().expect("free in the new file");
    again.release().await.unwrap();
}

#[tokio::test]
async fn waiters_of_a_replaced_file_wait_in_the_new_one() {
    let (_folder, path) = fresh();
    let (here, there) = (patient(&path), patient(&path));
    let guard = here.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = there.lock("x");
        async move { lock.acquire().await }
    });
    until_waiting(&here, "x", 1).await;
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    // In the new file this one is first, whatever the other one saw in the old.
    let other = patient(&path);
    let new = other.lock("x").try_acquire().await.unwrap().expect("a new file knows of no holder");
    until("it waits in the new file", || async {
        // Looking makes it notice, but for a moment it may still see the old file, in which it waits too.
        there.show("x").await.unwrap();
        other.show("x").await.unwrap().is_some_and(|seen| seen.waiters.len() == 1)
    })
    .await;
    new.release().await.unwrap();
    drop(done("woken in the new file", waiting).await.unwrap());
    drop(guard);
}

#[tokio::test]
async fn a_file_that_is_gone_for_good_is_unavailable() {
    let (folder, path) = fresh();
    let client = with_limit(&path, Duration::from_millis(200));
    std::fs::remove_dir_all(folder.path()).unwrap();
    until("noticed", || async { client.lock("x").try_acquire().await.is_err() }).await;
    match client.lock("x").try_acquire().await.unwrap_err() {
        Error::Unavailable { reason, .. } => assert!(reason.contains("removed or replaced"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named() {
    let (_folder, path) = fresh();
    let client = client(&path);
    let guard = client.lock("odd").acquire().await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.busy_timeout(testbed::PATIENCE).unwrap();
    other.execute("UPDATE ledgers SET body = '{' WHERE name = 'odd'", []).unwrap();
    match client.lock("odd").try_acquire().await {
        Err(Error::Config(why)) => assert!(why.contains("ledger of odd cannot be read"), "{why}"),
        other => panic!("{other:?}"),
    }
    drop(guard);
}

#[tokio::test]
async fn one_file_under_two_paths_is_one_store() {
    let (folder, path) = fresh();
    let link = folder.path().join("link.db");
    let a = patient(&path);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let b = patient(&link);
    let guard = a.lock("x").acquire().await.unwrap();
    assert!(b.lock("x").try_acquire().await.unwrap().is_none());
    let lock = b.lock("x");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until_waiting(&a, "x", 1).await;
    guard.release().await.unwrap();
    drop(done("wake-ups go by the real path", waiting).await.unwrap());
}

#[tokio::test]
async fn a_file_with_two_names_is_refused() {
    let (folder, path) = fresh();
    let link = folder.path().join("second.db");
    let first = patient(&path);
    let guard = first.lock("x").acquire().await.unwrap();
    std::fs::hard_link(&path, &link).unwrap();
    for name in [&path, &link] {
        let why = refused(name);
        assert!(why.contains("2 names") && why.contains("symbolic"), "{why}");
    }
    let found = first.diagnose().await.unwrap();
    let reach = found.iter().find(|f| f.check == "reach").unwrap();
    assert!(reach.level == tenure_core::Level::Error && reach.what.contains("2 names"), "{reach}");
    std::fs::remove_file(&link).unwrap();
    assert!(client(&path).lock("x").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_file_mounted_by_itself_is_refused() {
    let (folder, path) = fresh();
    drop(client(&path));
    let mounted = folder.path().join("mounted.db");
    std::fs::write(&mounted, "").unwrap();
    // In a namespace of its own, as in a container.
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", r#"mount --bind "$1" "$2" && shift 2 && exec "$@""#, "sh"]);
    inside.arg(&path).arg(&mounted).arg(std::env::current_exe().unwrap());
    let may_mount =
        Command::new("unshare").args(["--mount", "true"]).output().is_ok_and(|o| o.status.success());
    if !is_root() || !may_mount {
        // The list of mounts is read in a unit test.
        assert!(refused(&mounted.join("x")).contains("does not exist"));
        return;
    }
    let mut other = ChildProcess::start_by(inside, "open", &mounted);
    let why = other.next_line().await;
    assert!(why.contains("mounted by itself") && why.contains("mount the folder"), "{why}");
    other.wait_for_success();
}

#[test]
fn a_link_to_nothing_is_refused() {
    let (folder, path) = fresh();
    let target = folder.path().join("absent.db");
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(refused(&path).contains("does not exist"));
    assert!(!target.exists());
}

#[test]
fn no_runtime_needs_timers() {
    let (_folder, path) = fresh();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let client = with_limit(&path, FAR);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let freed = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        other.execute_batch("COMMIT").unwrap();
    });
    runtime.block_on(async {
        client.lock("x").acquire().await.unwrap().release().await.unwrap();
    });
    freed.join().unwrap();
}
