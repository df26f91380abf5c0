//! Futures that are not polled any more while their first attempt is in flight: what the store grants them is returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure::backend::CountOp;
use tenure::testing::{Call, Fate};
use tenure::{Client, Family};

use super::Case;
use crate::harness::{Harness, RENEWED, ok, poll_once, until, within};
use crate::mutex::{ADAPTERS, Make};

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (word, needs, make) in ADAPTERS {
        let name = format!("{word}::an_unpolled_first_attempt_blocks_nobody");
        all.push(Case::new(name, needs, move |harness| blocks_nobody(harness, *make)));
    }
    all.extend(cases!["multi"; &[Family::Lock]; an_unpolled_acquire_of_some_members_blocks_nobody]);
    all.extend(cases!["replies"; &[Family::Lock]; a_late_grant_to_a_polled_acquire_counts]);
    all.extend(cases!["fair"; &[Family::Fair]; an_uncollected_queue_position_is_given_up]);
    all.extend(cases!["counting"; &[Family::Count]; uncollected_permits_are_returned]);
    all.into_iter().map(Case::calm).collect()
}

/// A client behind a slow network, so that no reply arrives in the first poll, and the number of calls that `counts`
/// matched. Uncollected grants are returned after a third of their lease.
fn slow_client(
    harness: &Harness,
    counts: impl Fn(Call<'_>) -> bool + Send + Sync + 'static,
) -> (Client, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let client = harness.faulty_client_with(harness.renewing_settings(), move |call| {
        counted.fetch_add(usize::from(counts(call)), SeqCst);
        Fate::default()
    });
    (client, seen)
}

async fn blocks_nobody(harness: Arc<Harness>, make: Make) {
    let (client, given_back) = slow_client(&harness, |call| matches!(call, Call::Release(_)));
    let (other, look) = (harness.client(), harness.observer());
    let mutex = make(&client, "x");
    let mut left = Box::pin(mutex.acquire());
    assert!(poll_once(left.as_mut()).is_pending());
    let granted = || async { given_back.load(SeqCst) > 0 || ok(look.lock("x").is_locked().await) };
    until("it is granted", granted).await;
    let next = ok(within("the next one gets in", make(&other, "x").acquire()).await);
    assert!(poll_once(left.as_mut()).is_pending(), "two are inside");
    let fence = next.fence();
    ok(next.release().await);
    let held = ok(within("begun anew", left).await);
    assert!(held.is_held());
    assert!(held.fence() > fence || fence.is_none());
    ok(held.release().await);
}

async fn an_unpolled_acquire_of_some_members_blocks_nobody(harness: Arc<Harness>) {
    let (client, sent) =
        slow_client(&harness, |call| matches!(call, Call::TryAcquire(claim) if claim.name.as_str() == "y"));
    let (other, look) = (harness.client(), harness.observer());
    let both = tenure::multi([client.lock("x"), client.lock("y")]);
    let mut left = Box::pin(both.acquire());
    while sent.load(SeqCst) == 0 {
        assert!(poll_once(left.as_mut()).is_pending());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // One has its guard, the other is granted but not collected; unless both were released before this check.
    let (x, y) = (look.lock("x"), look.lock("y"));
    until("it is granted", || async { ok(y.is_locked().await) || !ok(x.is_locked().await) }).await;
    for name in ["x", "y"] {
        ok(ok(within("the next one gets in", other.lock(name).acquire()).await).release().await);
    }
    let all = ok(within("begun anew", left).await);
    assert!(all.is_held());
    ok(all.release().await);
}

async fn a_late_grant_to_a_polled_acquire_counts(harness: Arc<Harness>) {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let client = harness.faulty_client_with(harness.renewing_settings(), move |call| match call {
        Call::TryAcquire(_) => {
            counted.fetch_add(1, SeqCst);
            Fate { late: RENEWED / 2, ..Fate::default() }
        }
        _ => Fate::default(),
    });
    // A third of the lease is over long before the reply arrives.
    let guard = ok(client.lock("x").acquire().await);
    assert!(guard.is_held());
    assert_eq!(attempts.load(SeqCst), 1);
    ok(guard.release().await);
}

async fn an_uncollected_queue_position_is_given_up(harness: Arc<Harness>) {
    let (client, _) = slow_client(&harness, |_| false);
    let (other, look) = (harness.client(), harness.observer());
    let held = ok(other.lock("x").fair().acquire().await);
    let lock = client.lock("x").fair();
    let mut left = Box::pin(lock.acquire());
    assert!(poll_once(left.as_mut()).is_pending());
    until("it has a place", || async { !ok(look.lock("x").waiters().await).is_empty() }).await;
    ok(held.release().await);
    // Sooner than a queue position without renewal expires.
    let next = ok(within("the next one gets in", other.lock("x").fair().acquire()).await);
    assert!(poll_once(left.as_mut()).is_pending(), "two are inside");
    ok(next.release().await);
    ok(ok(within("begun anew", left).await).release().await);
}

async fn uncollected_permits_are_returned(harness: Arc<Harness>) {
    let (client, sent) =
        slow_client(&harness, |call| matches!(call, Call::Count(_, CountOp::TakeIfAtLeast(_))));
    let (seats, look) = (client.counting_semaphore("x"), harness.client().counting_semaphore("x"));
    assert!(ok(look.try_set(3).await));
    let mut left = Box::pin(seats.acquire(2));
    assert!(poll_once(left.as_mut()).is_pending());
    assert_eq!(sent.load(SeqCst), 1);
    until("they are taken", || async { ok(look.available().await) == 1 }).await;
    until("they come back", || async { ok(look.available().await) == 3 }).await;
    ok(within("begun anew", left).await);
    assert_eq!(ok(look.available().await), 1);
    ok(seats.release(2).await);
}
