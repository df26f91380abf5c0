//! The end of the process: what was dropped just before is released, and nothing else is waited for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use tenure::testing::{Call, Fate, Faults};
use tenure::{Client, Memory, Settings, blocking, connect};
use testbed::{FAR, wait_until_true};

const STORE: &str = "EXIT_TEST_STORE";

/// This program, to do only what a test named `the_process_that_…` does.
struct Process(Child);

impl Process {
    fn that(does: &str, store: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("exit::the_process_that_{does}")]).env(STORE, store);
        Self(command.spawn().unwrap())
    }

    fn ends(&mut self) {
        let mut ended = None;
        wait_until_true("the process ends", || {
            ended = self.0.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success(), "{ended:?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A store in a file, and its address.
async fn store() -> (tempfile::TempDir, String, Client) {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("locks.db").display());
    let client = connect(&address).await.unwrap();
    (folder, address, client)
}

/// Runs `work` in the process that a test has started, and ends it.
fn end_after(work: impl AsyncFnOnce(&str)) {
    let Ok(store) = std::env::var(STORE) else { return };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work(&store));
    std::process::exit(0);
}

/// A client whose releases take this long, and whose end would wait for them.
fn with_slow_releases(delay: Duration) -> blocking::Client {
    let plan = move |call: Call<'_>| match call {
        Call::Release(_) => Fate { delay, ..Fate::default() },
        _ => Fate::default(),
    };
    let mut settings = Settings::default();
    settings.close_timeout = FAR;
    Client::with(Arc::new(Faults::new(Arc::new(Memory::new()), plan)), settings).into()
}

#[tokio::test]
async fn a_guard_dropped_just_before_the_end_is_released() {
    let (_folder, store, client) = store().await;
    for _ in 0..10 {
        Process::that("drops_guards", &store).ends();
        let left = client.list("", 10).await.unwrap();
        assert!(left.iter().all(|name| name.holders.is_empty()), "{left:?}");
    }
}

#[test]
fn the_process_that_drops_guards() {
    end_after(async |store| {
        let client = connect(store).await.unwrap();
        for name in ["a", "b", "c"] {
            drop(client.lock(name).acquire().await.unwrap());
        }
    });
}

#[tokio::test]
async fn a_wait_given_up_just_before_the_end_leaves_no_place() {
    let (_folder, store, client) = store().await;
    let fair = client.lock("a").fair();
    let held = fair.acquire().await.unwrap();
    for _ in 0..10 {
        Process::that("gives_up", &store).ends();
        assert_eq!(fair.waiters().await.unwrap(), []);
    }
    held.release().await.unwrap();
}

#[test]
fn the_process_that_gives_up() {
    end_after(async |store| {
        let lock = connect(store).await.unwrap().lock("a").fair();
        let waited = tokio::time::timeout(Duration::from_millis(50), lock.acquire()).await;
        assert!(waited.is_err());
    });
}

#[test]
fn releases_begun_later_by_other_threads_do_not_delay_the_exit() {
    Process::that("works_on", "memory").ends();
}

#[test]
fn the_process_that_works_on() {
    end_after(async |_| {
        let client = with_slow_releases(Duration::from_secs(1));
        let released = Arc::new(AtomicUsize::new(0));
        for thread in 0..4 {
            let (client, released) = (client.clone(), released.clone());
            thread::spawn(move || {
                loop {
                    let n = released.fetch_add(1, SeqCst);
                    drop(client.lock(format!("{thread}:{n}")).acquire());
                    thread::sleep(Duration::from_millis(10));
                }
            });
        }
        wait_until_true("all are at work", || released.load(SeqCst) > 100);
    });
}

/// What the copy of this process does, which dies of an alarm if it hangs. Returns whether it has ended with the code 0.
#[allow(unsafe_code)]
fn copy_ends_well(copy: impl FnOnce()) -> bool {
    // SAFETY: the copy has one thread, with the locks as they were. Those of the allocator are put right by the C library,
    // all others that it needs are of what it makes itself.
    match unsafe { libc::fork() } {
        0 => {
            let limit = u32::try_from(testbed::patience().as_secs()).unwrap();
            // SAFETY: a number.
            unsafe { libc::alarm(limit) };
            let done = catch_unwind(AssertUnwindSafe(copy)).is_ok();
            // SAFETY: ends the copy before it returns into the test.
            unsafe { libc::_exit(i32::from(!done)) }
        }
        copy => {
            let mut status = 0;
            // SAFETY: the place is writable, and outlives the call.
            let waited = unsafe { libc::waitpid(copy, &raw mut status, 0) };
            waited == copy && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

/// Ends the process without its exit handlers.
#[allow(unsafe_code)]
fn end_at_once(well: bool) -> ! {
    // SAFETY: a number.
    unsafe { libc::_exit(i32::from(!well)) }
}

#[test]
fn a_copy_of_the_process_does_not_wait_for_what_only_the_original_can_release() {
    Process::that("copies_itself_with_a_release_under_way", "memory").ends();
}

#[test]
fn the_process_that_copies_itself_with_a_release_under_way() {
    end_after(async |_| {
        let well = thread::spawn(|| {
            let client = with_slow_releases(FAR);
            drop(client.lock("x").acquire().unwrap());
            copy_ends_well(|| std::process::exit(0))
        });
        end_at_once(well.join().unwrap());
    });
}

#[test]
fn a_copy_of_the_process_can_block() {
    Process::that("copies_itself_after_a_blocking_call", "memory").ends();
}

#[test]
fn the_process_that_copies_itself_after_a_blocking_call() {
    end_after(async |_| {
        let waits = || {
            let guard = blocking::connect("memory:").unwrap().lock("x").acquire().unwrap();
            assert!(guard.lost_for(Duration::from_millis(10)).is_none());
            guard.release().unwrap();
        };
        let well = thread::spawn(move || {
            waits();
            copy_ends_well(|| {
                waits();
                assert!(copy_ends_well(waits), "a copy of the copy");
            })
        });
        end_at_once(well.join().unwrap());
    });
}
