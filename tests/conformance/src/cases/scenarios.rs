//! Interleavings that break a naive lock, step by step: see `docs/scenarios.md`.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::backend::{Backend, Claim, Kind};
use tenure::testing::{Call, Fate, Faults};
use tenure::{Client, Family, Owner};

use super::Case;
use crate::harness::{A_WHILE, Harness, SHORT, done, ok, poll_once, poll_times, take, until, within};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Family] = &[Family::Lock, Family::ReadWrite];
    let all = cases!["scenario"; NEEDS;
        s1a_drop_then_acquire_again_by_the_same_owner,
        s1b_an_acquire_cancelled_in_flight_then_another,
        s1c_a_release_repeated_late,
        s1d_old_guards_do_not_count_for_a_new_hold,
        s1e_a_late_reentry_creates_nothing,
        s2_a_release_does_not_overtake_the_acquire_it_undoes,
        s3_an_id_is_dead_once_its_release_was_sent,
        l2b_two_tasks_of_one_owner_with_a_stranger_between,
        l2b_also_if_the_reentry_fails_at_first,
        l2f_a_head_cancelled_after_the_wake_up,
        l1_an_uncollected_grant_is_passed_on_and_requested_again,
    ];
    all.into_iter().map(Case::calm).collect()
}

async fn is_holder(harness: &Harness, id: tenure::HoldId) -> bool {
    ok(harness.observer().lock("x").holder().await).and_then(|h| h.hold_id()) == Some(id)
}

async fn s1a_drop_then_acquire_again_by_the_same_owner(harness: Arc<Harness>) {
    let client = harness.faulty_client(|call| match call {
        Call::Release(_) => Fate { delay: SHORT / 2, ..Fate::default() },
        _ => Fate::default(),
    });
    let lock = client.lock("x").owner(&Owner::new());
    drop(ok(lock.acquire().await));
    let again = ok(lock.acquire().await);
    tokio::time::sleep(SHORT).await;
    assert!(is_holder(&harness, again.id()).await, "the old release took the new hold");
    ok(again.release().await);
}

async fn s1b_an_acquire_cancelled_in_flight_then_another(harness: Arc<Harness>) {
    let client = harness.faulty_client(|call| match call {
        Call::TryAcquire(_) => Fate { delay: A_WHILE * 2, ..Fate::default() },
        _ => Fate::default(),
    });
    let lock = client.lock("x").owner(&Owner::new());
    let mut first = Box::pin(lock.acquire());
    assert!(poll_once(first.as_mut()).is_pending());
    drop(first);
    let second = ok(lock.acquire().await);
    tokio::time::sleep(SHORT).await;
    assert!(is_holder(&harness, second.id()).await, "the undo of the first took the second");
    ok(second.release().await);
}

async fn s1c_a_release_repeated_late(harness: Arc<Harness>) {
    let client = harness.faulty_client(|call| match call {
        Call::Release(_) => Fate { again: Some(A_WHILE * 2), ..Fate::default() },
        _ => Fate::default(),
    });
    let lock = client.lock("x").owner(&Owner::new());
    ok(ok(lock.acquire().await).release().await);
    let again = ok(lock.acquire().await);
    tokio::time::sleep(SHORT).await;
    assert!(is_holder(&harness, again.id()).await);
    ok(again.release().await);
}

async fn s1d_old_guards_do_not_count_for_a_new_hold(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let lock = client.lock("x").owner(&Owner::new());
    let short = lock.clone().lease(SHORT);
    let old = [take(&short).await, take(&short).await];
    let between = ok(within("the lease ends", other.lock("x").acquire()).await);
    ok(between.release().await);
    let new = ok(lock.acquire().await);
    assert_eq!(new.reentry_count(), 1);
    for guard in old {
        assert!(guard.release().await.expect_err("lost").is_lost());
    }
    assert!(is_holder(&harness, new.id()).await);
    ok(new.release().await);
    ok(ok(other.lock("x").try_acquire().await).expect("nobody holds it").release().await);
}

async fn s1e_a_late_reentry_creates_nothing(harness: Arc<Harness>) {
    let client = harness.client();
    let guard = ok(client.lock("x").acquire().await);
    let late = Claim { holds: 2, ..Claim::of(guard.id(), guard.name().clone(), Kind::Lock) };
    ok(guard.release().await);
    let backend = harness.bare_backend();
    assert_eq!(ok(backend.try_acquire(&late).await), tenure::backend::Attempt::Gone);
    assert!(!ok(client.lock("x").is_locked().await));
}

async fn s2_a_release_does_not_overtake_the_acquire_it_undoes(harness: Arc<Harness>) {
    let client = harness.faulty_client(|call| match call {
        Call::TryAcquire(_) => Fate { delay: SHORT / 2, ..Fate::default() },
        _ => Fate::default(),
    });
    let lock = client.lock("x");
    let mut acquire = Box::pin(lock.acquire());
    assert!(poll_once(acquire.as_mut()).is_pending());
    drop(acquire);
    ok(client.close().await);
    // By then the attempt has reached the store, whether or not it was undone.
    tokio::time::sleep(SHORT).await;
    assert!(!ok(harness.observer().lock("x").is_locked().await), "held by nobody");
}

async fn s3_an_id_is_dead_once_its_release_was_sent(harness: Arc<Harness>) {
    // Records each release that is sent, and each attempt with an id that was released before.
    #[derive(Default)]
    struct Seen {
        released: HashSet<tenure::HoldId>,
        revived: Vec<tenure::HoldId>,
    }
    let seen = Arc::new(Mutex::new(Seen::default()));
    let notes = seen.clone();
    let chaos: Arc<dyn Backend> = Arc::new(Faults::chaos(harness.bare_backend(), 7));
    let client = Client::with(
        Arc::new(Faults::new(chaos, move |call| {
            let mut seen = notes.lock().unwrap();
            match call {
                Call::Release(claim) => drop(seen.released.insert(claim.id)),
                Call::TryAcquire(claim) if seen.released.contains(&claim.id) => seen.revived.push(claim.id),
                _ => {}
            }
            Fate::default()
        })),
        // Behind a faulty network something may be left in the store for one lease.
        harness.renewing_settings(),
    );
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let lock = client.lock("x");
            tokio::spawn(async move {
                for i in 0..12 {
                    let _ = poll_times(lock.acquire(), (n + i) % 5).await;
                }
            })
        })
        .collect();
    for task in tasks {
        done("all are done", task).await;
    }
    let _ = client.close().await;
    let seen = seen.lock().unwrap();
    assert!(!seen.released.is_empty());
    // All releases here are last ones, which write nothing back: without an owner there are no inner ones.
    assert!(seen.revived.is_empty(), "tried after their release: {:?}", seen.revived);
}

async fn l2b_two_tasks_of_one_owner_with_a_stranger_between(harness: Arc<Harness>) {
    two_tasks_and_a_stranger(&harness, &harness.client()).await;
}

async fn two_tasks_and_a_stranger(harness: &Harness, client: &Client) {
    for _ in 0..20 {
        if stranger_is_kept_out(harness, client).await {
            return;
        }
    }
    panic!("a stranger is in before the first each time");
}

/// Returns false if the stranger came so late that it found the name free: it was not between the two then.
async fn stranger_is_kept_out(harness: &Harness, client: &Client) -> bool {
    let me = Owner::new();
    let mine = client.lock("x").owner(&me);
    let held = ok(harness.client().lock("x").acquire().await);
    let first = tokio::spawn({
        let lock = mine.clone();
        async move { ok(lock.acquire().await) }
    });
    let look = harness.observer();
    until("the first waits", || async { !ok(look.lock("x").waiters().await).is_empty() }).await;
    let stranger = tokio::spawn({
        let lock = client.lock("x");
        async move { ok(lock.acquire().await) }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let second = tokio::spawn(async move { ok(mine.acquire().await) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    ok(held.release().await);
    until("one is in", || async { first.is_finished() || stranger.is_finished() }).await;
    let is_behind = first.is_finished();
    if is_behind {
        // The second enters before the first releases: the stranger must not come between them.
        let first = done("the first", first).await;
        let second = done("the second, of the same owner", second).await;
        assert!(!stranger.is_finished());
        ok(second.release().await);
        ok(first.release().await);
        ok(done("the stranger", stranger).await.release().await);
    } else {
        ok(done("the stranger", stranger).await.release().await);
        let (first, second) = (done("the first", first).await, done("the second", second).await);
        ok(second.release().await);
        ok(first.release().await);
    }
    is_behind
}

async fn l2b_also_if_the_reentry_fails_at_first(harness: Arc<Harness>) {
    let refusals = AtomicUsize::new(0);
    let mut settings = harness.settings();
    settings.call_timeout = Duration::from_secs(5);
    let client = harness.faulty_client_with(settings, move |call| match call {
        Call::TryAcquire(claim) if claim.holds > 1 => {
            Fate { refused: refusals.fetch_add(1, SeqCst) < 12, ..Fate::default() }
        }
        _ => Fate::default(),
    });
    two_tasks_and_a_stranger(&harness, &client).await;
}

async fn l2f_a_head_cancelled_after_the_wake_up(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    for round in 0..10 {
        let held = ok(other.lock("x").acquire().await);
        let lock = client.lock("x");
        let mut head = Box::pin(lock.acquire());
        assert!(poll_once(head.as_mut()).is_pending());
        let next = tokio::spawn({
            let lock = client.lock("x");
            async move { ok(lock.acquire().await) }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
        ok(held.release().await);
        if round % 2 == 0 {
            // Once with the grant in its mailbox, once with the grant in flight.
            until("it is granted", || async { ok(other.lock("x").is_locked().await) }).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(head);
        ok(done("the next", next).await.release().await);
    }
}

async fn l1_an_uncollected_grant_is_passed_on_and_requested_again(harness: Arc<Harness>) {
    let (client, other) = (harness.client_with(harness.renewing_settings()), harness.client());
    let held = ok(other.lock("x").acquire().await);
    let lock = client.lock("x");
    let mut asleep = Box::pin(lock.acquire());
    // On stores with queues, an attempt that does not wait is briefly queued, too.
    let mut seen = if harness.has_sessions() { 10 } else { 1 };
    while futures_util::poll!(asleep.as_mut()).is_pending() && seen > 0 {
        seen -= usize::from(!ok(other.lock("x").waiters().await).is_empty());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ok(held.release().await);
    until("it is granted", || async { ok(other.lock("x").is_locked().await) }).await;
    until("and passed on", || async { !ok(other.lock("x").is_locked().await) }).await;
    // If polled later, it is served again.
    let guard = ok(within("served after all", asleep).await);
    assert!(is_holder(&harness, guard.id()).await);
    ok(guard.release().await);
}
