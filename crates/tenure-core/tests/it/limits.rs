//! The time that a caller names is kept, whatever the store does; and what one waiter asks for is no other's trouble.
//! Stores here hang for ever, and every other limit lies far away: what ends at all ends by the time that was named.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure_core::{Clock, Durability, Error, Guard, Owner, Result};
use testbed::{FAR, done, until, within};

use crate::puppet::{Act, Call, Puppet};

const SHORT: Duration = Duration::from_millis(50);

fn far(settings: &mut tenure_core::Settings) {
    (settings.call_timeout, settings.outage, settings.poll) = (FAR, FAR, Some(FAR));
}

#[tokio::test]
async fn a_wait_ends_although_the_store_hangs() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    store.tell(|_| Act::Hang);
    let got = within("the wait ends", client.lock("x").try_acquire_for(SHORT)).await;
    assert!(matches!(got, Err(Error::Unknown { .. })), "{got:?}");
    let seats = client.counting_semaphore("seats");
    let got = within("the wait ends", seats.try_acquire_for(1, SHORT)).await;
    assert!(matches!(got, Err(Error::Unknown { .. })), "{got:?}");
    let got = within("the wait ends", client.latch("ready").try_wait_for(SHORT)).await;
    assert!(matches!(got, Err(Error::Unknown { .. })), "{got:?}");
}

#[tokio::test]
async fn a_wait_ends_although_the_store_is_down() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    store.tell(|_| Act::Fail);
    let got = within("the wait ends", client.lock("x").try_acquire_for(SHORT)).await;
    assert!(matches!(got, Err(Error::Unavailable { .. })), "{got:?}");
    let both = tenure_core::multi([client.lock("x"), client.lock("y")]);
    let got = within("the wait ends", both.try_acquire_for(SHORT)).await;
    assert!(matches!(got, Err(Error::Unavailable { .. })), "{got:?}");
}

#[tokio::test]
async fn a_wait_ends_although_a_release_of_its_own_client_hangs() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    drop(client.lock("x").acquire().await.unwrap());
    within("it is free", client.lock("x").acquire()).await.unwrap().release().await.unwrap();
    let guard = client.lock("x").acquire().await.unwrap();
    store.tell(|call| if matches!(call, Call::Release) { Act::Hang } else { Act::Pass });
    drop(guard);
    let got = within("the wait ends", client.lock("x").try_acquire_for(SHORT)).await.unwrap();
    assert!(got.is_none(), "it is still held in the store");
}

#[tokio::test]
async fn a_try_ends_within_one_call_although_a_release_of_its_own_client_hangs() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(|settings| {
        far(settings);
        (settings.lease, settings.call_timeout) = (FAR, SHORT);
    });
    let guard = client.lock("x").acquire().await.unwrap();
    store.tell(|call| if matches!(call, Call::Release) { Act::Hang } else { Act::Pass });
    drop(guard);
    let got = within("the call ends", client.lock("x").try_acquire()).await;
    assert!(got.unwrap().is_none(), "it is still held in the store");
    store.tell(|_| Act::Pass);
    until("it is free", || async { !client.lock("x").is_locked().await.unwrap() }).await;
}

#[tokio::test]
async fn a_wait_ends_although_another_task_of_its_owner_is_entering() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(|settings| {
        far(settings);
        (settings.lease, settings.call_timeout) = (FAR, SHORT);
    });
    let lock = client.lock("x").owner(&Owner::new());
    let (sent, first) = (std::sync::Arc::new(tokio::sync::Notify::new()), lock.clone());
    let tell = sent.clone();
    store.tell(move |_| {
        tell.notify_one();
        Act::Hang
    });
    let entering = tokio::spawn(async move { first.acquire().await.map(drop) });
    within("the first is entering", sent.notified()).await;
    let got = within("the wait ends", lock.try_acquire_for(SHORT)).await;
    assert!(matches!(got, Err(Error::Unavailable { .. })), "{got:?}");
    let got = within("the call ends", lock.try_acquire()).await;
    assert!(matches!(got, Err(Error::Unavailable { .. })), "{got:?}");
    entering.abort();
}

/// What a waiter is told whose time is over while the store is down, or `None` if it was not down for long enough: a
/// fifth of the time of a call.
async fn told_while_down(act: Act) -> Option<Result<Option<Guard>>> {
    const CALL: Duration = Duration::from_millis(500);
    let store = Puppet::new(&Clock::boot());
    let client = store.client(|settings| (settings.call_timeout, settings.outage) = (CALL, FAR));
    let other = store.client(|_| {});
    let held = other.lock("x").acquire().await.unwrap();
    let end = Instant::now() + 2 * CALL;
    let waits = tokio::spawn({
        let lock = client.lock("x");
        async move { lock.try_acquire_for(2 * CALL).await }
    });
    let is_in_line = async || !other.lock("x").waiters().await.unwrap().is_empty();
    until("it waits", || async { waits.is_finished() || is_in_line().await }).await;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    store.tell(move |call| {
        if !matches!(call, Call::Acquire(_)) {
            return Act::Pass;
        }
        seen.lock().unwrap().push(Instant::now());
        act
    });
    held.release().await.unwrap();
    let told = done("its time is over", waits).await;
    // When there is a second call, the gate knows that the first has failed. One that hangs has no second.
    let since = calls.lock().unwrap().get(usize::from(act == Act::Fail)).copied();
    since.filter(|since| *since + CALL / 5 <= end).map(|_| told)
}

#[tokio::test]
async fn a_deadline_that_passes_while_the_store_is_down_is_not_called_busy() {
    for act in [Act::Fail, Act::Hang] {
        let told = async {
            loop {
                if let Some(told) = told_while_down(act).await {
                    break told;
                }
            }
        };
        let told = within("it is down for long enough", told).await;
        assert!(told.as_ref().is_err_and(|error| error.is_unknown() == (act == Act::Hang)), "{told:?}");
    }
}

#[tokio::test]
async fn a_future_that_was_left_alone_has_its_time_anew() {
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|settings| settings.call_timeout = SHORT);
    store.tell(|_| Act::Hang);
    let lock = client.lock("x");
    let mut left = Box::pin(lock.try_acquire());
    let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
    assert!(left.as_mut().poll(cx).is_pending());
    // The keeper asks whether anybody polls it, and then takes it back.
    let released = std::sync::Arc::new(tokio::sync::Notify::new());
    let tell = released.clone();
    store.tell(move |call| {
        if matches!(call, Call::Release) {
            tell.notify_one();
        }
        Act::Pass
    });
    let undone = async {
        loop {
            clock.advance(Duration::from_secs(1));
            if tokio::time::timeout(Duration::from_millis(5), released.notified()).await.is_ok() {
                return;
            }
        }
    };
    within("it is taken back", undone).await;
    tokio::time::sleep(SHORT * 2).await;
    assert!(
        within("it begins anew", left).await.unwrap().is_some(),
        "its time had run out while nobody polled it"
    );
}

/// A store that has no copies to wait for.
fn without_copies() -> std::sync::Arc<Puppet> {
    let store = Puppet::like(&Clock::boot(), |mut info| {
        info.durable = true;
        info
    });
    store.tell(|call| match call {
        Call::Acquire(claim) if claim.durability != Durability::Master => Act::Fail,
        _ => Act::Pass,
    });
    store
}

#[tokio::test]
async fn copies_that_do_not_exist_keep_no_other_waiter_out() {
    let store = without_copies();
    let client = store.client(far);
    for kind in ["lock", "fair"] {
        let lock = if kind == "fair" { client.lock(kind).fair() } else { client.lock(kind) };
        let held = lock.acquire().await.unwrap();
        // Waits at the front: the store never grants what it asks for.
        store.tell(|_| Act::Pass);
        let durable = tokio::spawn({
            let lock = lock.clone().durability(Durability::Replicas(3));
            async move { lock.acquire().await.map(drop) }
        });
        until("the first waits", || async { lock.waiters().await.unwrap().len() == 1 }).await;
        // Its first attempt must be busy: granted by that, it would never come to the gate.
        let tried = Arc::new(AtomicUsize::new(0));
        let attempts = tried.clone();
        store.tell(move |call| {
            let plain = matches!(call, Call::Acquire(claim) if claim.durability == Durability::Master);
            attempts.fetch_add(usize::from(plain), SeqCst);
            Act::Pass
        });
        let plain = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        until("both wait", || async { tried.load(SeqCst) >= 1 }).await;
        store.tell(|call| match call {
            Call::Acquire(claim) if claim.durability != Durability::Master => Act::Fail,
            _ => Act::Pass,
        });
        held.release().await.unwrap();
        if kind == "lock" {
            drop(done("the other gets in", plain).await);
            durable.abort();
        } else {
            // Its place in the store's queue is ahead: it goes when it gives up.
            durable.abort();
            drop(done("the other gets in", plain).await);
        }
    }
}

#[tokio::test]
async fn a_store_that_fails_for_one_is_borne_by_that_one() {
    let store = without_copies();
    let client = store.client(|settings| {
        far(settings);
        settings.outage = Duration::from_millis(300);
    });
    let held = client.lock("x").acquire().await.unwrap();
    store.tell(|_| Act::Pass);
    let durable = tokio::spawn({
        let lock = client.lock("x").durability(Durability::Replicas(3));
        async move { lock.acquire().await.map(drop) }
    });
    until("the first waits", || async { !client.lock("x").waiters().await.unwrap().is_empty() }).await;
    let plain = tokio::spawn({
        let lock = client.lock("x");
        async move { lock.acquire().await.map(drop) }
    });
    store.tell(|call| match call {
        Call::Acquire(claim) if claim.durability != Durability::Master => Act::Fail,
        _ => Act::Pass,
    });
    held.release().await.unwrap();
    assert!(done("the first gives up", durable).await.unwrap_err().is_transient());
    done("the other gets in", plain).await.unwrap();
}

#[tokio::test]
async fn closing_ends_what_waits_for_a_latch_or_a_leader() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(far);
    let latch = client.latch("ready");
    latch.try_set_count(1).await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    store.tell({
        let calls = calls.clone();
        move |_| {
            calls.fetch_add(1, SeqCst);
            Act::Pass
        }
    });
    let opens = tokio::spawn(async move { latch.wait().await });
    until("the latch was read", || async { calls.load(SeqCst) >= 1 }).await;
    let mut observer = client.election("cron").observe().unwrap();
    assert!(within("there is no leader", observer.next()).await.unwrap().is_none());
    let observes = tokio::spawn(async move { observer.next().await.map(drop) });
    // Closed before they sleep, they would end without being woken.
    tokio::time::sleep(Duration::from_millis(150)).await;
    client.close().await.unwrap();
    assert!(matches!(done("the latch", opens).await, Err(Error::Closed)));
    assert!(matches!(done("the observer", observes).await, Err(Error::Closed)));
}

/// A gate refreshes the places of all its waiters. If the store fails for one whose place has expired, it does not fail
/// for each of the others in turn before the first is tried again.
#[tokio::test]
async fn a_store_that_fails_while_places_are_taken_again_delays_no_other_waiter() {
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|settings| {
        (settings.call_timeout, settings.outage, settings.poll) = (FAR, FAR, Some(SHORT));
    });
    let lock = client.lock("x").fair();
    let held = lock.acquire().await.unwrap();
    let wait = || {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    };
    let waiting: Vec<_> = (0..20).map(|_| wait()).collect();
    until("all wait", || async { lock.waiters().await.unwrap().len() == 20 }).await;
    // After the first round of refreshes in which the places are gone, the store fails until the first is tried again.
    let (failing, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut first = None;
    let (state, count) = (failing.clone(), failed.clone());
    store.tell(move |call| {
        match call {
            Call::Acquire(claim) if state.load(SeqCst) == 0 => first = Some(claim.id),
            Call::Acquire(claim) if state.load(SeqCst) == 1 => {
                if first == Some(claim.id) {
                    state.store(2, SeqCst);
                    return Act::Pass;
                }
                count.fetch_add(1, SeqCst);
                return Act::Fail;
            }
            Call::Renew(claims) if claims.len() == 19 && state.load(SeqCst) == 0 && first.is_some() => {
                clock.advance(4 * SHORT);
                state.store(1, SeqCst);
            }
            _ => {}
        }
        Act::Pass
    });
    until("the first is tried again", || async { failing.load(SeqCst) == 2 }).await;
    let failed = failed.load(SeqCst);
    assert!((1..=2).contains(&failed), "{failed} others were tried before the first");
    held.release().await.unwrap();
    for waiter in waiting {
        done("it gets in", waiter).await.unwrap();
    }
}

/// A gate finds that the places of all its waiters have expired. The first is tried again before more than a few of the
/// others have taken theirs again: that may last longer than places do.
#[tokio::test]
async fn places_that_are_taken_again_delay_the_first_only_for_a_few() {
    const WAITERS: usize = 200;
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|settings| {
        (settings.call_timeout, settings.outage, settings.poll) = (FAR, FAR, Some(SHORT));
    });
    let lock = client.lock("x").fair();
    let held = lock.acquire().await.unwrap();
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await.map(drop) })
        })
        .collect();
    until("all wait", || async { lock.waiters().await.unwrap().len() == WAITERS }).await;
    // How many others are tried before the first is, once their places have expired.
    let (before, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, tried) = (before.clone(), all.clone());
    let (mut first, mut expired, mut again) = (None, false, false);
    store.tell(move |call| {
        match call {
            Call::Acquire(claim) if !expired => first = Some(claim.id),
            Call::Acquire(claim) => {
                again |= first == Some(claim.id);
                tried.fetch_add(1, SeqCst);
                counted.fetch_add(usize::from(!again), SeqCst);
            }
            Call::Renew(claims) if claims.len() == WAITERS - 1 && first.is_some() && !expired => {
                clock.advance(4 * SHORT);
                expired = true;
            }
            _ => {}
        }
        Act::Pass
    });
    until("all have taken their places again", || async { all.load(SeqCst) >= WAITERS }).await;
    let before = before.load(SeqCst);
    assert!((1..WAITERS / 2).contains(&before), "{before} others were tried before the first");
    held.release().await.unwrap();
    for waiter in waiting {
        done("it gets in", waiter).await.unwrap();
    }
}
