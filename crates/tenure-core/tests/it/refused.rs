//! Nobody listens at the address of the store. Who did not ask to wait is told at once; who waits, and what shall take
//! effect, is tried again. Every limit lies far away: what ends at all ends because of the refusal.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::backend::CountOp;
use tenure_core::{Client, Clock, Error, Owner, Result, Settings};
use testbed::{FAR, io_cause, until, within};

use crate::puppet::{Act, Call, Puppet};

fn far(settings: &mut Settings) {
    (settings.lease, settings.call_timeout, settings.outage, settings.poll) = (FAR, FAR, FAR, Some(FAR));
}

fn is_refused<T>(told: Result<T>) {
    let Err(error) = told else { panic!("it was answered") };
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(io_cause(&error), io::ErrorKind::ConnectionRefused, "{error}");
}

/// Refuses the next calls that `which` selects. Counts them.
fn refuse(
    store: &Arc<Puppet>,
    times: usize,
    mut which: impl FnMut(&Call<'_>) -> bool + Send + 'static,
) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    store.tell(move |call| match which(call) {
        true if counted.fetch_add(1, SeqCst) < times => Act::Refuse,
        _ => Act::Pass,
    });
    calls
}

#[tokio::test]
async fn who_did_not_ask_to_wait_is_told_at_once() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    let me = Owner::new();
    let (mine, written) = (client.lock("mine").owner(&me), client.rwlock("written"));
    let held = [mine.acquire().await.unwrap(), written.write().owner(&me).acquire().await.unwrap()];
    let calls = refuse(&store, usize::MAX, |_| true);
    let (rwlock, permits, seats) =
        (client.rwlock("rw"), client.semaphore("permits", 2), client.counting_semaphore("seats"));
    let mut told = 0;
    // Sent once, and not again.
    macro_rules! at_once {
        ($($call:expr),* $(,)?) => {$(
            is_refused(within(stringify!($call), $call).await);
            told += 1;
            assert_eq!(calls.load(SeqCst), told, "{}", stringify!($call));
        )*};
    }
    at_once!(
        client.lock("x").try_acquire(),
        client.lock("x").fair().try_acquire(),
        client.lock("x").owner(&me).try_acquire(),
        rwlock.read().try_acquire(),
        rwlock.write().try_acquire(),
        permits.try_acquire_many(2),
        tenure_core::multi([client.lock("x"), client.lock("y")]).try_acquire(),
        client.election("leader").try_campaign(),
        // Permits that are only counted.
        seats.try_acquire(1),
        // A hold that its owner enters again, or reads under.
        mine.try_acquire(),
        written.read().owner(&me).try_acquire(),
        // What only looks.
        client.lock("x").is_locked(),
        client.lock("x").holder(),
        client.lock("x").waiters(),
        permits.available(),
        seats.available(),
        client.latch("latch").count(),
        client.show("x"),
        client.list("", 10),
        client.diagnose(),
    );
    store.tell(|_| Act::Pass);
    for guard in held {
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
}

/// What `call` is told if its first requests are refused, but not the later ones.
async fn after_refusals<T>(
    store: &Arc<Puppet>,
    name: &'static str,
    call: impl Future<Output = Result<T>>,
) -> T {
    let calls = refuse(store, 3, move |call| match call {
        Call::Acquire(claim) => claim.name.as_str() == name,
        _ => true,
    });
    let got = within("it is tried again", call).await.unwrap();
    assert!(calls.load(SeqCst) > 3);
    got
}

#[tokio::test]
async fn who_waits_is_tried_again() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    let seats = client.counting_semaphore("seats");
    assert!(seats.try_set(2).await.unwrap());
    drop(after_refusals(&store, "a", client.lock("a").acquire()).await);
    assert!(after_refusals(&store, "b", client.lock("b").try_acquire_for(FAR)).await.is_some());
    after_refusals(&store, "", seats.acquire(1)).await;
    assert!(after_refusals(&store, "", seats.try_acquire_for(1, FAR)).await);
    after_refusals(&store, "", client.latch("open").wait()).await;
    let mut observer = client.election("leader").observe().unwrap();
    assert_eq!(after_refusals(&store, "", observer.next()).await, None);
    // The one that is waited for, and one that is only tried.
    let both = || tenure_core::multi([client.lock("first"), client.lock("second")]);
    for name in ["first", "second"] {
        assert!(after_refusals(&store, name, both().try_acquire_for(FAR)).await.is_some(), "{name}");
        drop(after_refusals(&store, name, both().acquire()).await);
    }
}

#[tokio::test]
async fn what_shall_take_effect_is_tried_again() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    let (seats, latch) = (client.counting_semaphore("seats"), client.latch("latch"));
    assert!(after_refusals(&store, "", seats.try_set(2)).await);
    after_refusals(&store, "", seats.release(3)).await;
    after_refusals(&store, "", seats.add(-1)).await;
    assert_eq!(after_refusals(&store, "", seats.drain()).await, 4);
    assert!(after_refusals(&store, "", seats.delete()).await);
    assert!(after_refusals(&store, "", latch.try_set_count(1)).await);
    after_refusals(&store, "", latch.count_down()).await;
    after_refusals(&store, "", client.semaphore("permits", 2).resize(3)).await;
    let held = client.lock("x").acquire().await.unwrap();
    assert!(after_refusals(&store, "", client.lock("x").release_by(held.id())).await);
    let held = client.lock("y").acquire().await.unwrap();
    after_refusals(&store, "", held.release()).await;
}

/// A try whose first request was executed is told of the refusal that followed, and gives back what it may have taken.
#[tokio::test]
async fn a_take_that_may_have_been_executed_is_undone() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    let seats = client.counting_semaphore("seats");
    seats.try_set(2).await.unwrap();
    let mut takes = 0;
    store.tell(move |call| match call {
        Call::Count(CountOp::TakeIfAtLeast(_)) => {
            takes += 1;
            if takes == 1 { Act::Lose } else { Act::Refuse }
        }
        _ => Act::Pass,
    });
    is_refused(within("the try ends", seats.try_acquire(1)).await);
    until("it is given back", || async { seats.available().await.unwrap() == 2 }).await;
}

/// An error that says "not executed" would make the caller do it again.
#[tokio::test]
async fn a_change_that_may_have_been_executed_is_not_said_to_be_not() {
    let store = Puppet::new(&Clock::boot());
    let client: Client = store.client(|settings| settings.call_timeout = Duration::from_millis(50));
    let seats = client.counting_semaphore("seats");
    let mut changes = 0;
    store.tell(move |_| {
        changes += 1;
        if changes == 1 { Act::Lose } else { Act::Refuse }
    });
    let told = within("it gives up", seats.release(1)).await;
    assert!(told.as_ref().is_err_and(Error::is_unknown), "{told:?}");
    store.tell(|_| Act::Pass);
    assert_eq!(seats.available().await.unwrap(), 1);
}
