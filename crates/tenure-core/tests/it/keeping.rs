//! What is held is kept, and given back, whatever else happens: short leases beside long ones, releases that fail, wakers
//! that panic. On a clock that stands until it is moved.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tenure_core::backend::Liveness;
use tenure_core::{Clock, Owner};
use testbed::{done, until, within};

use crate::listener::{at_renewals_of, at_the_end_of, listen};
use crate::puppet::{Act, Call, Puppet};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_short_lease_is_not_renewed_together_with_a_long_one() {
    let clock = Clock::manual();
    let store = Puppet::like(&clock, |mut info| {
        info.liveness = Liveness::Session;
        info
    });
    let batches = Arc::new(Mutex::new(Vec::new()));
    let seen = batches.clone();
    store.tell(move |call| {
        if let Call::Renew(claims) = call {
            seen.lock().unwrap().push(claims.iter().map(|c| c.lease).collect::<Vec<_>>());
        }
        Act::Pass
    });
    let client = store.client(|settings| settings.lease = 3 * SECOND);
    let _long = client.lock("long").acquire().await.unwrap();
    clock.advance(SECOND - SECOND / 20);
    let _short = client.lock("short").lease(SECOND / 5).acquire().await.unwrap();
    // Both are due at one look; a batch has as long as its shortest lease allows.
    clock.advance(SECOND / 10);
    until("both are renewed", || async {
        let batches = batches.lock().unwrap();
        [SECOND / 5, 3 * SECOND].iter().all(|lease| batches.iter().flatten().any(|seen| seen == lease))
    })
    .await;
    for leases in &*batches.lock().unwrap() {
        assert!(leases.iter().max() < leases.iter().min().map(|d| *d * 2).as_ref(), "together: {leases:?}");
    }
}

#[tokio::test]
async fn a_release_is_repeated_for_as_long_as_the_store_may_keep_the_hold() {
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let (client, other) = (store.client(|_| {}), store.client(|_| {}));
    let me = Owner::new();
    let outer = client.lock("x").owner(&me).lease(SECOND).acquire().await.unwrap();
    let inner = client.lock("x").owner(&me).lease(3600 * SECOND).acquire().await.unwrap();
    let failed = Arc::new(AtomicUsize::new(0));
    let count = failed.clone();
    store.tell(move |call| {
        let fails = matches!(call, Call::Release);
        count.fetch_add(usize::from(fails), SeqCst);
        if fails { Act::Fail } else { Act::Pass }
    });
    drop((inner, outer));
    for times in [2, 4] {
        let from = failed.load(SeqCst);
        until("it is repeated", || async { failed.load(SeqCst) >= from + times }).await;
        clock.advance(3 * SECOND);
    }
    store.tell(|_| Act::Pass);
    until("it is free", || async { other.lock("x").try_acquire().await.unwrap().is_some() }).await;
}

/// A waker that is code of others, and bad at that.
struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        panic!("a waker that panics, as this test wants it to");
    }
}

#[tokio::test]
async fn a_waker_that_panics_ends_neither_renewal_nor_waiting() {
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|_| {});
    let kept = client.lock("kept").acquire().await.unwrap();
    let ends = client.lock("ends").lease(20 * SECOND).acquire().await.unwrap();
    store.tell(|call| match call {
        Call::Acquire(claim) if claim.name.as_str() == "left" => Act::Hang,
        _ => Act::Pass,
    });
    // One that is left alone in its first attempt, one that waits, and one that wants to know of a loss.
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let waker = Waker::from(panics.clone());
    let cx = &mut Context::from_waker(&waker);
    let (left, waits) = (client.lock("left"), client.lock("kept"));
    let (mut left, mut waits) = (Box::pin(left.acquire()), Box::pin(waits.acquire()));
    let mut lost = Box::pin(ends.lost());
    assert!(left.as_mut().poll(cx).is_pending());
    assert!(waits.as_mut().poll(cx).is_pending());
    assert!(lost.as_mut().poll(cx).is_pending());
    until("the second waits", || async { client.lock("kept").waiters().await.unwrap().len() == 1 }).await;
    for _ in 0..6 {
        clock.advance(11 * SECOND);
        until("it is renewed all the same", || async { kept.remaining() > 20 * SECOND }).await;
    }
    until("two were woken", || async { panics.0.load(SeqCst) >= 2 }).await;
    kept.release().await.unwrap();
    until("all were woken", || async { panics.0.load(SeqCst) >= 3 }).await;
    within("what was granted is there", waits).await.unwrap().release().await.unwrap();
    within("the loss is told", lost).await;
    let next = tokio::spawn({
        let lock = client.lock("kept");
        async move { lock.acquire().await.unwrap() }
    });
    done("others get in", next).await.release().await.unwrap();
    drop(left);
    store.tell(|_| Act::Pass);
    within("the client closes", client.close()).await.unwrap();
}

#[tokio::test]
async fn a_waker_that_panics_does_not_break_the_gate_for_those_behind() {
    let client = Puppet::new(&Clock::boot()).client(|settings| settings.poll = Some(3600 * SECOND));
    let lock = client.lock("x").fair();
    let held = lock.acquire().await.unwrap();
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    let mut first = Box::pin(lock.acquire());
    assert!(first.as_mut().poll(&mut Context::from_waker(&Waker::from(panics.clone()))).is_pending());
    let second = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    until("both wait", || async { lock.waiters().await.unwrap().len() == 2 }).await;
    held.release().await.unwrap();
    until("the first is woken", || async { panics.0.load(SeqCst) >= 1 }).await;
    within("it has its grant", first).await.unwrap().release().await.unwrap();
    done("the second gets in", second).await.unwrap().release().await.unwrap();
}

/// Lets the store panic the first time that `when` says so, while the keeper renews. What is held stays held.
async fn renewed_after_a_panic(when: fn(&Call<'_>) -> bool) {
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|_| {});
    let guards = [client.lock("x").acquire().await.unwrap(), client.lock("y").acquire().await.unwrap()];
    let (panics, renewals) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (panicked, renewed) = (panics.clone(), renewals.clone());
    store.tell(move |call| {
        if when(call) && panicked.swap(1, SeqCst) == 0 {
            return Act::Panic;
        }
        if let Call::Renew(claims) = call {
            renewed.fetch_add(claims.len(), SeqCst);
        }
        Act::Pass
    });
    clock.advance(11 * SECOND);
    until("the store panics", || async { panics.load(SeqCst) == 1 }).await;
    assert_eq!(renewals.load(SeqCst), 0);
    // Its next try is a second after the panic was caught, which may be later than it was seen here.
    for _ in 0..15 {
        clock.advance(SECOND);
        let tried = until("both are renewed", || async { renewals.load(SeqCst) == 2 });
        if tokio::time::timeout(SECOND, tried).await.is_ok() {
            break;
        }
    }
    assert_eq!(renewals.load(SeqCst), 2, "both are renewed at the next try");
    let renewed = || guards.iter().all(|guard| guard.remaining() > 20 * SECOND);
    until("the guards know it", || async { renewed() }).await;
    // And at the one after that.
    clock.advance(11 * SECOND);
    until("they are renewed again", || async { renewals.load(SeqCst) == 4 && renewed() }).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_renewal_in_which_the_store_panics_is_sent_again() {
    renewed_after_a_panic(|call| matches!(call, Call::Renew(_))).await;
}

#[tokio::test]
async fn a_panic_in_the_loop_of_the_keeper_ends_no_renewal() {
    renewed_after_a_panic(|call| matches!(call, Call::Shard)).await;
}

/// Holds `n` names, a number that no other test renews at once, and makes what listens to spans do `harm` when it is told
/// of their renewal. They are renewed all the same.
async fn renewed_beside_a_subscriber_that(n: usize, harm: impl Fn() + Send + 'static) {
    listen();
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|_| {});
    let mut guards = Vec::new();
    for i in 0..n {
        guards.push(client.lock(format!("beside/{n}/{i}")).acquire().await.unwrap());
    }
    let harmed = Arc::new(AtomicUsize::new(0));
    let times = harmed.clone();
    at_renewals_of(n, move || {
        times.fetch_add(1, SeqCst);
        harm();
    });
    for round in 1..=3 {
        clock.advance(11 * SECOND);
        let renewed = || guards.iter().all(|guard| guard.remaining() > 20 * SECOND);
        until("all are renewed", || async { renewed() }).await;
        if round == 1 {
            until("the subscriber is told", || async { harmed.load(SeqCst) > 0 }).await;
        }
    }
}

#[tokio::test]
async fn a_subscriber_that_panics_ends_no_renewal() {
    renewed_beside_a_subscriber_that(37, || panic!("a subscriber that panics, as this test wants it to"))
        .await;
}

#[tokio::test]
async fn a_subscriber_that_blocks_ends_no_renewal() {
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    renewed_beside_a_subscriber_that(41, move || _ = blocked.recv()).await;
    drop(free);
}

#[tokio::test]
async fn a_subscriber_that_panics_keeps_nothing_held() {
    listen();
    let store = Puppet::new(&Clock::manual());
    let (client, other) = (store.client(|_| {}), store.client(|_| {}));
    for name in ["ends/dropped", "ends/released"] {
        at_the_end_of(name, || panic!("a subscriber that panics, as this test wants it to"));
        let guard = client.lock(name).acquire().await.unwrap();
        match name {
            "ends/dropped" => drop(guard),
            _ => guard.release().await.unwrap(),
        }
        // The clock stands: it is not free because its lease is over.
        until("it is free", || async { other.lock(name).holders().await.unwrap().is_empty() }).await;
    }
}

#[tokio::test]
async fn whatever_a_subscriber_panics_at_nothing_stays_held() {
    listen();
    for when in ["new_span", "enter", "exit", "event", "try_close", "always"] {
        let name = format!("panics/{when}");
        for end in ["dropped", "released", "lost", "closed", "abandoned"] {
            let clock = Clock::manual();
            let store = Puppet::new(&clock);
            let (client, other) = (store.client(|_| {}), store.client(|_| {}));
            let lock = client.lock(&name);
            let guard = lock.acquire().await.unwrap();
            match end {
                "dropped" => drop(guard),
                "released" => guard.release().await.unwrap(),
                "lost" => {
                    store.tell(|call| if matches!(call, Call::Renew(_)) { Act::Fail } else { Act::Pass });
                    clock.advance(31 * SECOND);
                    within("it is lost", guard.lost()).await;
                }
                "closed" => client.close().await.unwrap(),
                _ => {
                    store.tell(|call| if matches!(call, Call::Acquire(_)) { Act::Hang } else { Act::Pass });
                    let elsewhere = store.client(|_| {}).lock(&name);
                    let tries = tokio::time::timeout(Duration::from_millis(1), elsewhere.acquire());
                    assert!(tries.await.is_err());
                    drop(guard);
                }
            }
            store.tell(|_| Act::Pass);
            let free = || async { other.lock(&name).holders().await.unwrap().is_empty() };
            until(&format!("{when}, {end}: it is free"), free).await;
        }
    }
}

#[tokio::test]
async fn a_client_that_closes_waits_for_a_guard_that_is_being_dropped() {
    listen();
    let store = Puppet::new(&Clock::manual());
    let client = store.client(|_| {});
    let guard = client.lock("ends/closed").acquire().await.unwrap();
    let (reached, mut at_its_end) = tokio::sync::mpsc::unbounded_channel();
    let (closed, told) = std::sync::mpsc::channel::<()>();
    at_the_end_of("ends/closed", move || {
        reached.send(()).unwrap();
        _ = told.recv();
    });
    let dropping = std::thread::spawn(move || drop(guard));
    within("it is being dropped", at_its_end.recv()).await.unwrap();
    within("the client closes", client.close()).await.unwrap();
    let held = store.client(|_| {}).lock("ends/closed").holders().await.unwrap();
    drop(closed);
    dropping.join().unwrap();
    assert!(held.is_empty(), "the client closed before it was released");
}

#[tokio::test]
async fn a_multi_lock_has_no_member_that_is_over() {
    let clock = Clock::manual();
    let store = Puppet::new(&clock);
    let client = store.client(|_| {});
    let (tick, slow) = (clock.clone(), Arc::new(AtomicUsize::new(0)));
    let count = slow.clone();
    store.tell(move |call| {
        if let Call::Acquire(claim) = call
            && claim.name.as_str() == "slow"
        {
            count.fetch_add(1, SeqCst);
            tick.advance(SECOND);
        }
        Act::Pass
    });
    let both = tenure_core::multi([client.lock("short").lease(SECOND / 2), client.lock("slow")]);
    let got = both.try_acquire().await;
    assert!(got.is_err_and(|error| error.is_transient()), "the first was over before the second was there");
    // Whoever waits begins with the slow one.
    let all = within("both are held", both.acquire()).await.unwrap();
    assert!(all.is_held() && all.guards().iter().all(|guard| guard.is_held()));
    assert_eq!(slow.load(SeqCst), 3);
    all.release().await.unwrap();
}
