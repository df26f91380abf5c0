//! A release that meets a waiter of the same client passes the hold on: to whom, with what, and when not. The time for
//! which that is done is set so long here that only a rule ends it, and the calls to the store are counted.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::backend::{Attempt, Backend};
use tenure_core::{Claim, Client, Clock, Guard, HoldId, Kind, Lock, Name, Owner, Settings};
use testbed::{FAR, done, until, within};
use tokio::task::JoinHandle;

use crate::puppet::{Act, Call, Puppet};

/// A store that counts what it is asked.
struct Fixture {
    store: Arc<Puppet>,
    client: Client,
    clock: Clock,
    acquires: Arc<AtomicUsize>,
    releases: Arc<AtomicUsize>,
}

impl Fixture {
    fn new(bound: Duration) -> Self {
        Self::with(bound, |_| {})
    }

    fn with(bound: Duration, change: impl FnOnce(&mut Settings)) -> Self {
        let clock = Clock::manual();
        let store = Puppet::new(&clock);
        let (acquires, releases) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (asked, left) = (acquires.clone(), releases.clone());
        store.tell(move |call| {
            match call {
                Call::Acquire(_) => asked.fetch_add(1, SeqCst),
                Call::Release => left.fetch_add(1, SeqCst),
                _ => 0,
            };
            Act::Pass
        });
        let client = store.client(|settings| {
            settings.local_handover = Some(bound);
            settings.poll = Some(FAR);
            change(settings);
        });
        Self { store, client, clock, acquires, releases }
    }

    fn counts(&self) -> (usize, usize) {
        (self.acquires.load(SeqCst), self.releases.load(SeqCst))
    }

    /// Returns a guard that was granted at the gate, so that it may be passed on.
    async fn relayed(&self) -> Guard {
        self.relayed_as(self.client.lock("x")).await
    }

    async fn relayed_as(&self, lock: Lock) -> Guard {
        let first = self.client.lock("x").acquire().await.unwrap();
        let waiter = waits(lock);
        self.placed().await;
        first.release().await.unwrap();
        done("it is granted", waiter).await
    }

    /// Waits until somebody waits in the store.
    async fn placed(&self) {
        until("somebody waits", || async { !self.client.lock("x").waiters().await.unwrap().is_empty() })
            .await;
    }
}

/// Waits for a lock, in a task of its own.
fn waits(lock: Lock) -> JoinHandle<Guard> {
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}

/// Lets spawned tasks go until they wait: the runtime of a test has one thread.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_release_passes_the_hold_on_in_order_and_asks_nobody() {
    let it = Fixture::new(FAR);
    let mut guard = it.relayed().await;
    let id = guard.recorded_id();
    let waiters: Vec<_> = (0..5).map(|_| waits(it.client.lock("x"))).collect();
    settle().await;
    let before = it.counts();
    let mut fence = guard.fence().unwrap();
    for waiter in waiters {
        guard.release().await.unwrap();
        guard = done("it is passed on", waiter).await;
        assert_eq!(guard.recorded_id(), id, "the same id on the wire");
        let next = guard.fence().unwrap();
        assert_eq!(next.0, fence.0 + 1, "the next fence");
        fence = next;
        assert!(guard.is_held());
    }
    // A place that the gate had taken for one of them may be given up.
    assert_eq!(it.counts().0, before.0, "nobody was asked");
    let before = it.counts();
    guard.release().await.unwrap();
    assert!(it.counts().1 > before.1, "nobody waits: the release is real");
    let next = it.client.lock("x").acquire().await.unwrap();
    assert!(next.fence().unwrap() > fence, "what was given out was stored");
    assert_ne!(next.recorded_id(), id);
}

#[tokio::test]
async fn a_guard_that_is_dropped_passes_the_hold_on() {
    let it = Fixture::new(FAR);
    let guard = it.relayed().await;
    let (id, waiter) = (guard.recorded_id(), waits(it.client.lock("x")));
    settle().await;
    let before = it.counts();
    drop(guard);
    assert_eq!(done("it is passed on", waiter).await.recorded_id(), id);
    assert_eq!(it.counts().0, before.0);
}

#[tokio::test]
async fn a_view_of_the_guard_before_does_not_hold() {
    let it = Fixture::new(FAR);
    let guard = it.relayed().await;
    let (view, waiter) = (guard.held(), waits(it.client.lock("x")));
    settle().await;
    guard.release().await.unwrap();
    let next = done("it is passed on", waiter).await;
    assert!(!view.is_held() && next.is_held());
    assert!(view.fence() < next.fence());
}

/// Whether a guard like this passes its hold on to a waiter like this.
async fn passes(it: &Fixture, guard: Guard, next: Lock) -> bool {
    let (id, waiter) = (guard.recorded_id(), waits(next));
    settle().await;
    guard.release().await.unwrap();
    let next = done("it is granted", waiter).await;
    let passed = next.recorded_id() == id;
    next.release().await.unwrap();
    // Of what was not passed on nothing is left, nor of the claims of those who were served.
    until("nothing is left", || async {
        it.clock.advance(Duration::from_millis(1));
        let seen = it.client.show("x").await.unwrap();
        seen.is_none_or(|seen| seen.holders.is_empty() && seen.waiters.is_empty())
    })
    .await;
    passed
}

#[tokio::test]
async fn a_waiter_gets_what_it_asked_for_or_the_release_is_real() {
    let it = Fixture::new(Duration::from_secs(2));
    let lock = || it.client.lock("x");
    assert!(passes(&it, it.relayed().await, lock()).await);
    assert!(passes(&it, it.relayed().await, lock().max_hold(FAR)).await);
    assert!(
        passes(&it, it.relayed().await, lock().lease(Duration::from_secs(30))).await,
        "it is the default"
    );
    assert!(!passes(&it, it.relayed().await, lock().lease(Duration::from_secs(31))).await);
    assert!(!passes(&it, it.relayed().await, lock().lease(Duration::from_secs(20))).await);
    assert!(!passes(&it, it.relayed().await, lock().owner(&Owner::new())).await);
    assert!(!passes(&it, it.relayed().await, lock().note("nightly")).await);
    assert!(!passes(&it, it.relayed().await, lock().at_least(Duration::from_millis(10))).await);
    assert!(!passes(&it, it.relayed().await, lock().fair()).await);
}

#[tokio::test]
async fn what_somebody_else_may_name_or_enter_is_not_passed_on() {
    let it = Fixture::new(FAR);
    let lock = || it.client.lock("x");
    let guard = it.relayed().await;
    let _ = guard.id();
    assert!(!passes(&it, guard, lock()).await, "its id was given out");
    let guard = it.relayed_as(lock().owner(&Owner::new())).await;
    assert!(!passes(&it, guard, lock()).await, "its owner may enter it again");
    let guard = it.relayed_as(lock().note("nightly")).await;
    assert!(!passes(&it, guard, lock()).await, "the store shows a note");
    let guard = it.client.lock("x").acquire().await.unwrap();
    assert!(!passes(&it, guard, lock()).await, "it was not granted to one who waited");
}

#[tokio::test]
async fn a_hold_with_a_minimum_is_not_passed_on() {
    let it = Fixture::new(FAR);
    let guard = it.relayed().await;
    guard.keep_at_least(Duration::from_secs(10)).unwrap();
    let waiter = waits(it.client.lock("x"));
    settle().await;
    guard.release().await.unwrap();
    settle().await;
    assert!(!waiter.is_finished(), "it is kept");
    until("its minimum is over", || async {
        it.clock.advance(Duration::from_secs(1));
        waiter.is_finished()
    })
    .await;
}

#[tokio::test]
async fn it_is_off_where_that_is_set() {
    let it = Fixture::with(FAR, |settings| settings.local_handover = None);
    assert!(!passes(&it, it.relayed().await, it.client.lock("x")).await);
}

#[tokio::test]
async fn holds_are_passed_on_for_as_long_as_is_set_from_the_grant_on() {
    let it = Fixture::new(Duration::from_secs(2));
    let lock = || it.client.lock("x");
    let guard = it.relayed().await;
    it.clock.advance(Duration::from_millis(1900));
    assert!(passes(&it, guard, lock()).await);
    let guard = it.relayed().await;
    it.clock.advance(Duration::from_millis(2000));
    assert!(!passes(&it, guard, lock()).await);
    // Also if it was passed on meanwhile, which proves nothing.
    let (guard, waiter) = (it.relayed().await, waits(lock()));
    settle().await;
    it.clock.advance(Duration::from_millis(1000));
    guard.release().await.unwrap();
    let guard = done("it is passed on", waiter).await;
    it.clock.advance(Duration::from_millis(1000));
    assert!(!passes(&it, guard, lock()).await);
}

#[tokio::test]
async fn validity_counts_from_the_grant_and_not_from_the_hand_over() {
    let it = Fixture::new(Duration::from_secs(2));
    let (guard, waiter) = (it.relayed().await, waits(it.client.lock("x")));
    settle().await;
    it.clock.advance(Duration::from_secs(1));
    let left = guard.remaining();
    guard.release().await.unwrap();
    let next = done("it is passed on", waiter).await;
    assert_eq!(next.remaining(), left);
}

#[tokio::test]
async fn a_hold_is_passed_on_only_while_there_are_fences_left() {
    // One for each microsecond for which it is passed on. The release is real, too, where the gate looks at that moment.
    until("all of them are used", || async {
        let it = Fixture::new(Duration::from_micros(3));
        let mut guard = it.relayed().await;
        let id = guard.recorded_id();
        let mut passed = 0;
        loop {
            let waiter = waits(it.client.lock("x"));
            settle().await;
            guard.release().await.unwrap();
            guard = done("it is granted", waiter).await;
            if guard.recorded_id() != id {
                break;
            }
            passed += 1;
        }
        assert!(passed <= 3, "{passed} times");
        passed == 3
    })
    .await;
}

#[tokio::test]
async fn after_a_suspicion_nothing_is_passed_on() {
    let it = Fixture::new(FAR);
    let (guard, waiter) = (it.relayed().await, waits(it.client.lock("x")));
    settle().await;
    let id = guard.recorded_id();
    it.store.info().suspicion.raise();
    guard.release().await.unwrap();
    assert_ne!(done("it is granted", waiter).await.recorded_id(), id);
}

#[tokio::test]
async fn a_hold_is_not_passed_on_while_a_renewal_of_it_is_open() {
    let it = Fixture::new(FAR);
    let (guard, waiter) = (it.relayed().await, waits(it.client.lock("x")));
    settle().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let renewals = asked.clone();
    it.store.tell(move |call| match call {
        Call::Renew(_) => {
            renewals.fetch_add(1, SeqCst);
            Act::Hang
        }
        _ => Act::Pass,
    });
    it.clock.advance(Duration::from_secs(11));
    until("it is being renewed", || async { asked.load(SeqCst) > 0 }).await;
    let id = guard.recorded_id();
    guard.release().await.unwrap();
    assert_ne!(done("it is granted", waiter).await.recorded_id(), id);
}

#[tokio::test]
async fn a_renewal_that_finds_it_gone_loses_the_guard_that_has_it_now() {
    let it = Fixture::new(FAR);
    let (guard, waiter) = (it.relayed().await, waits(it.client.lock("x")));
    settle().await;
    let (id, name) = (guard.recorded_id(), guard.name().clone());
    guard.release().await.unwrap();
    let next = done("it is passed on", waiter).await;
    it.store.release(&Claim::of(id, name, Kind::Lock), 0).await.unwrap();
    assert!(next.is_held(), "it does not know yet");
    it.clock.advance(Duration::from_secs(11));
    within("it is told", next.lost()).await;
}

#[tokio::test]
async fn what_was_passed_on_is_renewed() {
    let it = Fixture::new(FAR);
    let (guard, waiter) = (it.relayed().await, waits(it.client.lock("x")));
    settle().await;
    guard.release().await.unwrap();
    let next = done("it is passed on", waiter).await;
    for _ in 0..6 {
        it.clock.advance(Duration::from_secs(11));
        until("it is renewed", || async { next.remaining() > Duration::from_secs(25) }).await;
    }
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_fixed_lease_that_is_passed_on_ends_with_the_grant() {
    let it = Fixture::new(FAR);
    let lease = Duration::from_secs(10);
    let (guard, waiter) =
        (it.relayed_as(it.client.lock("x").lease(lease)).await, waits(it.client.lock("x").lease(lease)));
    settle().await;
    let id = guard.recorded_id();
    it.clock.advance(Duration::from_secs(3));
    guard.release().await.unwrap();
    let next = done("it is passed on", waiter).await;
    assert_eq!(next.recorded_id(), id);
    it.clock.advance(Duration::from_secs(7));
    assert!(next.release().await.unwrap_err().is_lost());
}

#[tokio::test]
async fn who_is_no_longer_there_is_passed_over() {
    let it = Fixture::new(FAR);
    let guard = it.relayed().await;
    let id = guard.recorded_id();
    let (gone, waiter) = (waits(it.client.lock("x")), waits(it.client.lock("x")));
    settle().await;
    gone.abort();
    settle().await;
    guard.release().await.unwrap();
    assert_eq!(done("it is passed on", waiter).await.recorded_id(), id);
}

#[tokio::test]
async fn what_a_waiter_does_not_collect_goes_to_the_next() {
    let it = Fixture::new(FAR);
    let guard = it.relayed().await;
    let id = guard.recorded_id();
    // Polled once, and then never again.
    let lock = it.client.lock("x");
    let mut asleep = Box::pin(lock.acquire());
    assert!(futures_util::poll!(&mut asleep).is_pending());
    let waiter = waits(it.client.lock("x"));
    settle().await;
    guard.release().await.unwrap();
    settle().await;
    assert!(!waiter.is_finished());
    it.clock.advance(Duration::from_secs(11));
    let next = done("it goes to the next", waiter).await;
    let _ = (id, next.recorded_id());
    assert!(next.is_held());
    next.release().await.unwrap();
    within("it starts again", asleep).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_client_that_closes_passes_nothing_on() {
    let it = Fixture::new(FAR);
    let (guard, lock) = (it.relayed().await, it.client.lock("x"));
    let waiter = tokio::spawn(async move { lock.acquire().await.map(drop) });
    settle().await;
    it.client.close().await.unwrap();
    drop(guard);
    assert!(done("it is told", waiter).await.is_err());
    let look = Client::with(it.store.clone(), Settings::default());
    assert!(!look.lock("x").is_locked().await.unwrap());
}

#[tokio::test]
async fn another_client_gets_its_turn() {
    let it = Fixture::new(Duration::from_millis(5));
    let other = it.store.client(|settings| settings.poll = Some(Duration::from_millis(20)));
    let stop = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, stop, clock) = (it.client.lock("x"), stop.clone(), it.clock.clone());
            tokio::spawn(async move {
                while stop.load(SeqCst) == 0 {
                    let guard = lock.acquire().await.unwrap();
                    tokio::task::yield_now().await;
                    clock.advance(Duration::from_millis(1));
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..20 {
        within("the other client gets in", other.lock("x").acquire()).await.unwrap().release().await.unwrap();
    }
    stop.store(1, SeqCst);
    for task in tasks {
        done("all end", task).await;
    }
}

#[tokio::test]
async fn fences_grow_over_all_that_was_passed_on_and_over_other_clients() {
    let it = Fixture::new(Duration::from_millis(5));
    let other = it.store.client(|_| {});
    let seen = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let lock = if n % 2 == 0 { it.client.lock("x") } else { other.lock("x") };
            let (seen, clock) = (seen.clone(), it.clock.clone());
            tokio::spawn(async move {
                for _ in 0..50 {
                    let guard = lock.acquire().await.unwrap();
                    seen.lock().unwrap().push((guard.fence().unwrap(), guard.recorded_id()));
                    clock.advance(Duration::from_micros(700));
                    tokio::task::yield_now().await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        done("all end", task).await;
    }
    let seen = seen.lock().unwrap();
    assert!(seen.windows(2).all(|two| two[0].0 < two[1].0), "{seen:?}");
    let ids: std::collections::HashSet<HoldId> = seen.iter().map(|(_, id)| *id).collect();
    assert!(ids.len() < seen.len(), "some were passed on");
    assert!(ids.len() > 2, "not all of them were");
}

/// What an acquire reserves does not run away from the clock.
#[tokio::test]
async fn reserved_fences_stay_near_the_clock() {
    let store = Puppet::new(&Clock::manual());
    let name = Name::new("x").unwrap();
    let client = tenure_core::ClientId::new();
    let (mut first, mut last) = (None, 0);
    for n in 1..=1000 {
        let id = HoldId { client, n };
        let claim = Claim { reserve: 5000, ..Claim::of(id, name.clone(), Kind::Lock) };
        let Attempt::Granted { fence: Some(fence), spare, .. } = store.try_acquire(&claim).await.unwrap()
        else {
            panic!("it is free")
        };
        assert!(fence.0 > last && spare <= 5000);
        last = fence.0 + u64::from(spare);
        first.get_or_insert(fence.0);
        store.release(&claim, 0).await.unwrap();
    }
    let by_the_clock = tenure_core::backend::wall_micros();
    assert!(last <= by_the_clock + 5000 + 1000, "{} beyond the clock", last - by_the_clock);
}

/// Whoever looks can tell that a hold may be in other hands than those it was granted to.
#[tokio::test]
async fn a_hold_that_is_passed_on_is_shown_as_such() {
    let it = Fixture::new(FAR);
    let shown = async || it.client.show("x").await.unwrap().unwrap().is_passed_on();
    let first = it.client.lock("x").acquire().await.unwrap();
    assert!(!shown().await, "nobody waited for it");
    first.release().await.unwrap();
    let guard = it.relayed().await;
    assert!(shown().await);
    guard.release().await.unwrap();
    let off = it.store.client(|settings| settings.local_handover = None);
    let _guard = off.lock("x").acquire().await.unwrap();
    assert!(!shown().await);
}

/// Who comes while others of the client wait does not ask the store for itself.
#[tokio::test]
async fn one_more_waiter_costs_the_store_nothing() {
    let it = Fixture::with(FAR, |settings| settings.local_handover = None);
    let other = it.store.client(|_| {});
    let held = other.lock("x").acquire().await.unwrap();
    let first = waits(it.client.lock("x"));
    it.placed().await;
    it.store.tell(|call| if matches!(call, Call::Acquire(_)) { Act::Hang } else { Act::Pass });
    let more: Vec<_> = (0..50).map(|_| waits(it.client.lock("x"))).collect();
    settle().await;
    it.store.tell(|_| Act::Pass);
    held.release().await.unwrap();
    for waiter in std::iter::once(first).chain(more) {
        drop(done("all get in", waiter).await);
    }
}
