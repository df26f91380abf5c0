//! What is said to people in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure_core::testing::{Call, Fate, Faults};
use tenure_core::{Client, Clock, Error, Memory, Settings};
use testbed::{PATIENCE, done, until, within};

use crate::listener::{events, listen, words};
use crate::puppet::{Act, Call as PuppetCall, Puppet};

fn said(name: &str, what: &str) -> bool {
    words(&events(name)).iter().any(|line| line.contains(what))
}

#[tokio::test]
async fn a_task_that_waits_for_itself_is_told_how_to_enter_again() {
    const WARNING: &str = "waits for a name that it holds itself";
    listen();
    let client = Client::new(Memory::new());
    // Another task waits for this one: nothing is wrong with that.
    let other = client.lock("shared").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock("shared");
        async move { lock.acquire().await }
    });
    until("the other waits", || async { said("shared", "waiting") }).await;
    // This one waits for itself, and came later.
    let own = tokio::spawn(async move {
        let _held = client.lock("own").acquire().await.unwrap();
        client.lock("own").acquire().await
    });
    until("it is said", || async { said("own", WARNING) }).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!said("shared", WARNING), "{:?}", events("shared"));
    own.abort();
    drop(other);
    drop(done("the other", waiting).await.unwrap());
}

/// In `main` and in `block_on` there is no task, but a thread.
#[tokio::test]
async fn a_wait_for_oneself_outside_of_a_task_is_warned_about() {
    listen();
    let client = Client::new(Memory::new());
    let closing = client.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let _held = client.lock("outside").acquire().await.unwrap();
            client.lock("outside").acquire().await.map(drop)
        })
    });
    until("it is said", || async { said("outside", "waits for a name that it holds itself") }).await;
    closing.close().await.unwrap();
    assert_eq!(thread.join().unwrap(), Err(Error::Closed));
}

/// The answer of a store that cannot tell whether an attempt on a broken connection is still to come.
#[tokio::test]
async fn a_release_that_is_never_confirmed_is_over_with_its_lease() {
    const LEASE: Duration = Duration::from_secs(2);
    listen();
    let releases = Arc::new(AtomicUsize::new(0));
    let (counted, clock) = (releases.clone(), Clock::manual());
    let memory = Arc::new(Memory::with_clock(clock.clone()));
    let store = Faults::new(memory.clone(), move |call| {
        let release = matches!(call, Call::Release(_));
        counted.fetch_add(usize::from(release), SeqCst);
        Fate { reply_lost: release, ..Fate::default() }
    });
    let mut settings = Settings::default();
    (settings.call_timeout, settings.close_timeout) = (LEASE / 8, PATIENCE);
    let (client, other) =
        (Client::with(Arc::new(store), settings), Client::with(memory, Settings::default()));
    let start = Instant::now();
    drop(client.lock("gone").lease(LEASE).acquire().await.unwrap());
    until("it is free", || async { !other.lock("gone").is_locked().await.unwrap() }).await;
    // The next acquire waits for it, for half of the time of a call, and not for a lease: by the clock of the store no
    // time passes.
    let next =
        within("it was freed", client.lock("gone").try_acquire()).await.unwrap().expect("nobody has it");
    assert!(start.elapsed() >= LEASE / 16, "{:?}", start.elapsed());
    next.detach();
    let closing = tokio::spawn(async move { client.close().await });
    until("it is tried again", || async { releases.load(SeqCst) > 2 }).await;
    clock.advance(LEASE - Duration::from_millis(1));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!closing.is_finished(), "given up before its lease was over");
    clock.advance(Duration::from_millis(1));
    done("it is given up", closing).await.unwrap();
    assert!(said("gone", "not confirmed, but its time is over"), "{:?}", events("gone"));
    assert!(!said("gone", "not released"));
}

#[tokio::test]
async fn a_renewal_that_fails_is_said_with_its_reason_and_tried_again() {
    listen();
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|_| ());
    let guard = client.lock("unsteady").acquire().await.unwrap();
    let mut failed = 0;
    store.tell(move |call| match call {
        PuppetCall::Renew(_) if failed < 1 => {
            failed += 1;
            Act::Fail
        }
        _ => Act::Pass,
    });
    clock.advance(Duration::from_secs(11));
    until("it is said", || async { said("unsteady", "renewal failed, trying again") }).await;
    let told = events("unsteady");
    let line = told.iter().find(|line| line.what.contains("renewal failed")).unwrap();
    assert_eq!(line.level, "WARN");
    assert_eq!(line.fields["hold"], guard.id().to_string());
    assert!(line.fields["error"].contains("it is told to fail"), "{line:?}");
    clock.advance(Duration::from_secs(2));
    until("it is tried again", || async { said("unsteady", "renewed") }).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// A store that is down for a lease makes many renewals fail, and one line of the log.
#[tokio::test]
async fn an_outage_is_one_warning_its_end_one_line_and_a_loss_one_more() {
    const NAME: &str = "one line each";
    listen();
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|_| ());
    let guard = client.lock(NAME).acquire().await.unwrap();
    let fail = || store.tell(|call| if matches!(call, PuppetCall::Renew(_)) { Act::Fail } else { Act::Pass });
    let count = |level: &str, what: &str| {
        events(NAME).iter().filter(|told| told.level == level && told.what.contains(what)).count()
    };
    for outage in 1..=2 {
        fail();
        clock.advance(Duration::from_secs(11));
        until("the first is told", || async { count("WARN", "renewal failed") == outage }).await;
        let before = count("DEBUG", "renewal failed again");
        // The next try is a second after the last one has failed, by a clock that stands until then.
        for times in 1..=4 {
            clock.advance(Duration::from_secs(2));
            until("the others, too", || async { count("DEBUG", "renewal failed again") >= before + times })
                .await;
        }
        assert_eq!(count("WARN", "renewal failed"), outage, "{:?}", events(NAME));
        store.tell(|_| Act::Pass);
        clock.advance(Duration::from_secs(2));
        until("it works again", || async { count("INFO", "renewed again") == outage }).await;
    }
    assert!(guard.is_held());
    fail();
    clock.advance(Duration::from_secs(31));
    until("it is lost", || async { count("WARN", "lost") == 1 }).await;
    assert_eq!(count("WARN", ""), 2 + count("WARN", "renewal failed") - 1, "{:?}", events(NAME));
    let lost = guard.release().await.unwrap_err().to_string();
    assert!(lost.starts_with("memory: one line each is no longer held: its lease ended "), "{lost}");
    assert!(lost.ends_with(" ms ago") || lost.ends_with(" s ago"), "{lost}");
}

#[tokio::test]
async fn a_size_that_differs_is_warned_of_once_per_client() {
    const WARNING: &str = "stored with another size";
    listen();
    let store = Arc::new(Memory::new());
    let (a, b) = (Client::with(store.clone(), Settings::default()), Client::with(store, Settings::default()));
    drop(a.semaphore("sized", 2).acquire().await.unwrap());
    assert!(!said("sized", WARNING));
    for client in [&a, &a, &b, &b] {
        let guard = client.semaphore("sized", 5).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    let told: Vec<_> = events("sized").into_iter().filter(|told| told.what.contains(WARNING)).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((&*told[0].level, &*told[0].fields["limit"], &*told[0].fields["size"]), ("WARN", "5", "2"));
}
