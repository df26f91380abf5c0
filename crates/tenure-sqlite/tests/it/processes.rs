//! Several processes on one file: they exclude each other, wake each other, and recover when one of them dies.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tenure_core::backend::Attempt;
use tenure_core::{Backend, Claim, ClientId, Error, HoldId, Kind, Lock, Name};
use testbed::{done, retry, until, within};

use crate::support::{
    ChildProcess, client, fresh, patient, print_line, run_role, until_waiting, wait_for_parent,
};
use crate::users;

const ROUNDS: u64 = 300;

#[test]
fn role() {
    run_role(async |role, path| match role {
        "count" => count(path).await,
        "create" => create(path).await,
        "hold" => hold(path).await,
        "wait" => wait(path, false).await,
        "wait fair" => wait(path, true).await,
        "wait permit" => wait_for(patient(path).semaphore("seats", 1).permits(1)).await,
        "open" => print_line(opened(path)),
        "open as nobody" => {
            users::become_nobody();
            print_line(opened(path));
        }
        "wait as nobody" => {
            users::become_nobody();
            wait(path, false).await;
        }
        "latch" => latch(path).await,
        "take" => take(path).await,
        "observe" => observe(path).await,
        "churn" => churn(path).await,
        "without threads" => without_threads(path).await,
        other => panic!("{other}"),
    });
}

/// Adds to a number in a plain file, which goes wrong if anybody else does the same at the same time.
async fn count(path: &Path) {
    let client = client(path);
    let file = path.with_extension("number");
    wait_for_parent();
    for _ in 0..ROUNDS {
        let guard = client.lock("number").acquire().await.unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let (n, last) = text.split_once(' ').unwrap();
        let fence = guard.fence().unwrap().0;
        assert!(fence > last.parse().unwrap(), "fences grow across processes");
        std::fs::write(&file, format!("{} {fence}", n.parse::<u64>().unwrap() + 1)).unwrap();
        guard.release().await.unwrap();
    }
    print_line("done");
}

#[tokio::test]
async fn processes_exclude_each_other() {
    let (_folder, path) = fresh();
    let file = path.with_extension("number");
    std::fs::write(&file, "0 0").unwrap();
    let mut others: Vec<_> = (0..3).map(|_| ChildProcess::start("count", &path)).collect();
    others.iter_mut().for_each(ChildProcess::proceed);
    for mut other in others {
        assert_eq!(other.next_line().await, "done");
        other.wait_for_success();
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.split_once(' ').unwrap().0, (3 * ROUNDS).to_string());
}

async fn create(path: &Path) {
    print_line("ready");
    wait_for_parent();
    let client = client(path);
    let guard = client.lock("first").acquire().await.unwrap();
    guard.release().await.unwrap();
    print_line("done");
}

#[tokio::test]
async fn eight_processes_make_the_same_file_at_once() {
    let (_folder, path) = fresh();
    let mut others: Vec<_> = (0..8).map(|_| ChildProcess::start("create", &path)).collect();
    for other in &mut others {
        assert_eq!(other.next_line().await, "ready");
    }
    others.iter_mut().for_each(ChildProcess::proceed);
    for mut other in others {
        assert_eq!(other.next_line().await, "done");
        other.wait_for_success();
    }
}

async fn hold(path: &Path) {
    let client = client(path);
    let lock = client.lock("door").lease(Duration::from_secs(1));
    // An answer that comes after a second is none: it is asked for again.
    let guard = retry("it is taken", Error::is_transient, || lock.acquire()).await;
    print_line(guard.fence().unwrap());
    wait_for_parent();
    let note = async || client.lock("door").holder().await.unwrap()?.note;
    until("a note", || async { note().await.is_some() }).await;
    print_line(note().await.unwrap());
    drop(guard);
}

#[tokio::test]
async fn a_killed_holder_is_gone_after_its_lease_and_not_before() {
    let (_folder, path) = fresh();
    let client = patient(&path);
    // A machine that stands still for a lease ends it by that.
    for _ in 0..20 {
        let mut other = ChildProcess::start("hold", &path);
        let fence: u64 = other.next_line().await.parse().unwrap();
        let asked = Instant::now();
        let held = client.lock("door").holder().await.unwrap();
        other.kill();
        let guard = within("it ends by itself, without a poll", client.lock("door").acquire()).await.unwrap();
        if let Some(held) = held {
            assert!(asked.elapsed() >= held.left.unwrap(), "it lasts for its lease");
            assert!(guard.fence().unwrap().0 > fence);
            return;
        }
        guard.release().await.unwrap();
    }
    panic!("nobody is seen to hold it");
}

#[tokio::test]
async fn a_removed_file_is_made_anew_while_another_process_has_it_open() {
    let (_folder, path) = fresh();
    let mut other = ChildProcess::start("hold", &path);
    other.next_line().await;
    // What lies beside it stays, and is in use by the other process.
    std::fs::remove_file(&path).unwrap();
    let client = client(&path);
    let guard =
        client.lock("door").note("new").try_acquire().await.unwrap().expect("a new file knows of no holder");
    other.proceed();
    assert_eq!(other.next_line().await, "new", "the other process sees the new file");
    other.wait_for_success();
    guard.release().await.unwrap();
}

/// What came of opening a store.
fn opened(path: &Path) -> String {
    match tenure_sqlite::open(path, tenure_sqlite::Options::default()) {
        Ok(_) => "opened".into(),
        Err(error) => error.to_string(),
    }
}

async fn wait(path: &Path, fair: bool) {
    let lock = patient(path).lock("door");
    wait_for(if fair { lock.fair() } else { lock }).await;
}

async fn wait_for(lock: Lock) {
    let guard = lock.acquire().await.unwrap();
    print_line("held");
    wait_for_parent();
    guard.release().await.unwrap();
    print_line("released");
}

#[tokio::test]
async fn a_release_wakes_another_process() {
    let (_folder, path) = fresh();
    let client = patient(&path);
    let guard = client.lock("door").acquire().await.unwrap();
    let mut other = ChildProcess::start("wait", &path);
    until_waiting(&client, "door", 1).await;
    guard.release().await.unwrap();
    assert_eq!(other.next_line().await, "held");

    // And back: this process waits, the other one releases.
    let lock = client.lock("door");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until_waiting(&client, "door", 1).await;
    other.proceed();
    assert_eq!(other.next_line().await, "released");
    drop(done("woken", waiting).await.unwrap());
    other.wait_for_success();
}

#[tokio::test]
async fn a_killed_waiter_is_skipped() {
    let (_folder, path) = fresh();
    let client = patient(&path);
    let guard = client.lock("door").fair().acquire().await.unwrap();
    let mut first = ChildProcess::start("wait fair", &path);
    until_waiting(&client, "door", 1).await;
    let mut second = ChildProcess::start("wait fair", &path);
    until_waiting(&client, "door", 2).await;
    first.kill();
    guard.release().await.unwrap();
    assert_eq!(second.next_line().await, "held");
    tenure_sqlite::open(&path, tenure_sqlite::Options::default()).unwrap();
    let fifos = std::fs::read_dir(format!("{}-wake", path.display())).unwrap().count();
    assert_eq!(fifos, 1, "whoever opens the store removes that of the dead one");
    second.wait_for_success();
}

fn wake_folder(path: &Path) -> PathBuf {
    format!("{}-wake", path.display()).into()
}

/// A process that opens the store removes the FIFO of a dead waiter, after which the waiter cannot be recognised as
/// dead.
#[tokio::test]
async fn a_dead_waiter_without_a_trace_holds_nobody_up() {
    for (role, name) in [("wait", "door"), ("wait permit", "seats")] {
        let (_folder, path) = fresh();
        let here = patient(&path);
        let held = match role {
            "wait" => here.lock(name),
            _ => here.semaphore(name, 1).permits(1),
        };
        let guard = held.acquire().await.unwrap();
        let mut dead: Vec<_> = Vec::new();
        for n in 1..4 {
            dead.push(ChildProcess::start(role, &path));
            until_waiting(&here, name, n).await;
        }
        let mut living = ChildProcess::start(role, &path);
        until_waiting(&here, name, 4).await;
        dead.iter_mut().for_each(ChildProcess::kill);
        client(&path);
        assert_eq!(std::fs::read_dir(wake_folder(&path)).unwrap().count(), 1, "that of the living one");
        guard.release().await.unwrap();
        assert_eq!(living.next_line().await, "held", "{role}");
        living.proceed();
        assert_eq!(living.next_line().await, "released");
        living.wait_for_success();
    }
}

#[tokio::test]
async fn a_missing_fifo_is_not_a_death() {
    let (_folder, path) = fresh();
    let here = patient(&path);
    let guard = here.lock("door").acquire().await.unwrap();
    let mut first = ChildProcess::start("wait", &path);
    until_waiting(&here, "door", 1).await;
    let waits = here.show("door").await.unwrap().unwrap().waiters[0].id.clone();
    for fifo in std::fs::read_dir(wake_folder(&path)).unwrap() {
        std::fs::remove_file(fifo.unwrap().path()).unwrap();
    }
    let mut second = ChildProcess::start("wait", &path);
    until_waiting(&here, "door", 2).await;
    guard.release().await.unwrap();
    assert_eq!(second.next_line().await, "held", "the next one is woken");
    let left = here.show("door").await.unwrap().unwrap().waiters;
    assert_eq!(left.iter().map(|w| &w.id).collect::<Vec<_>>(), [&waits], "the first one keeps its place");
    first.kill();
    second.proceed();
    assert_eq!(second.next_line().await, "released");
    second.wait_for_success();
}

#[tokio::test]
async fn an_opener_removes_what_the_dead_left() {
    let (_folder, path) = fresh();
    let here = patient(&path);
    let _guard = here.lock("door").acquire().await.unwrap();
    let mut other = ChildProcess::start("wait", &path);
    until_waiting(&here, "door", 1).await;
    let fifos = || std::fs::read_dir(format!("{}-wake", path.display())).unwrap().count();
    assert_eq!(fifos(), 1);
    client(&path);
    assert_eq!(fifos(), 1, "a living one stays");
    other.kill();
    client(&path);
    assert_eq!(fifos(), 0);
}

async fn latch(path: &Path) {
    let client = patient(path);
    client.latch("gate").wait().await.unwrap();
    print_line("open");
}

#[tokio::test]
async fn a_latch_opens_in_another_process() {
    let (_folder, path) = fresh();
    let client = patient(&path);
    client.latch("gate").try_set_count(1).await.unwrap();
    let mut other = ChildProcess::start("latch", &path);
    until_watched(&path, "gate").await;
    client.latch("gate").count_down().await.unwrap();
    assert_eq!(other.next_line().await, "open");
    other.wait_for_success();
}

/// Waits until another process is registered as a watcher, which no answer of the library tells.
async fn until_watched(path: &Path, name: &str) {
    let file = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT count(*) FROM ledgers WHERE name = ?1 AND json_array_length(body, '$.watchers') > 0";
    until("watched", || async { file.query_row(sql, [name], |row| row.get(0)).is_ok_and(|n: i64| n > 0) })
        .await;
}

async fn take(path: &Path) {
    let client = patient(path);
    client.counting_semaphore("pool").acquire(1).await.unwrap();
    print_line("taken");
}

#[tokio::test]
async fn a_counting_semaphore_wakes_another_process() {
    let (_folder, path) = fresh();
    let client = patient(&path);
    client.counting_semaphore("pool").release(1).await.unwrap();
    client.counting_semaphore("pool").acquire(1).await.unwrap();
    let mut other = ChildProcess::start("take", &path);
    until_watched(&path, "pool").await;
    client.counting_semaphore("pool").release(1).await.unwrap();
    assert_eq!(other.next_line().await, "taken");
    other.wait_for_success();
}

async fn observe(path: &Path) {
    let client = patient(path);
    let mut observer = client.election("seat").observe().unwrap();
    loop {
        match observer.next().await.unwrap() {
            Some(holder) => print_line(holder.id),
            None => print_line("nobody"),
        }
    }
}

#[tokio::test]
async fn an_observer_sees_leaders_of_another_process_come_and_go() {
    let (_folder, path) = fresh();
    let client = patient(&path);
    let mut other = ChildProcess::start("observe", &path);
    assert_eq!(other.next_line().await, "nobody");
    let leader = client.election("seat").campaign().await.unwrap();
    assert_ne!(other.next_line().await, "nobody");
    leader.release().await.unwrap();
    assert_eq!(other.next_line().await, "nobody");
}

/// Looks whether a process that can start no thread can wait, and bear a busy file.
async fn without_threads(path: &Path) {
    assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "a thread can be started");
    let mut options = tenure_sqlite::Options::default();
    options.busy_limit = Some(Duration::from_millis(50));
    let store = tenure_sqlite::open(path, options).unwrap();
    let attempt = async || {
        let id = HoldId { client: ClientId::new(), n: 1 };
        let (stamp, lease) = (testbed::FAR, testbed::FAR);
        let claim = Claim::of(id, Name::new("door").unwrap(), Kind::Lock);
        store.try_acquire(&Claim { wait: Some(stamp), stamp, lease, holds: 1, ..claim }).await
    };
    assert!(matches!(attempt().await, Ok(Attempt::Granted { .. })));
    assert!(matches!(attempt().await, Ok(Attempt::Busy { .. })), "it queues, and polls");
    assert_eq!(std::fs::read_dir(wake_folder(path)).unwrap().count(), 0, "a FIFO that nobody reads");
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(attempt().await, Err(Error::Unavailable { .. })));
    print_line("polls");
}

#[tokio::test]
async fn a_process_that_can_start_no_thread_polls() {
    let (_folder, path) = fresh();
    let mut command = Command::new(std::env::current_exe().unwrap());
    // No address space has room for such a stack.
    command.env("RUST_MIN_STACK", (1_u64 << 60).to_string());
    let mut other = ChildProcess::start_by(command, "without threads", &path);
    assert_eq!(other.next_line().await, "polls");
    other.wait_for_success();
}

/// Takes and leaves locks for as long as it lives.
async fn churn(path: &Path) {
    let client = client(path);
    for n in 0.. {
        let guard = client.lock("churn").lease(Duration::from_millis(300)).acquire().await;
        // On a loaded machine an answer may come after the lease.
        let Ok(guard) = guard else { continue };
        if n % 100 == 0 {
            print_line(guard.fence().unwrap());
        }
        let _ = guard.release().await;
    }
}

#[tokio::test]
async fn killed_at_any_moment_the_file_stays_whole_and_fences_grow() {
    let (_folder, path) = fresh();
    let mut last = 0;
    for _ in 0..5 {
        let mut other = ChildProcess::start("churn", &path);
        for _ in 0..3 {
            last = other.next_line().await.parse::<u64>().unwrap().max(last);
        }
        other.kill();
        let client = client(&path);
        let guard = client.lock("churn").acquire().await.unwrap();
        let fence = guard.fence().unwrap().0;
        assert!(fence > last);
        last = fence;
        guard.release().await.unwrap();
    }
}
