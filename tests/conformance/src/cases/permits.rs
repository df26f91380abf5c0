//! The semaphore with recorded permits: sizes, ids, leases, and the order of service.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Instant;

use tenure::{Client, ClientId, Error, Family, HoldId, Semaphore};
use tokio::sync::Barrier;

use super::Case;
use crate::harness::{
    A_WHILE, FAR, Harness, RENEWED, SHORT, done, ok, repeat_if_unanswered, take, until, within,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "permits"; &[Family::Permit];
        acquire_many_is_all_or_nothing,
        never_grants_more_than_the_limit,
        a_larger_size_lets_waiters_in,
        after_shrinking_none_are_granted_until_enough_are_released,
        the_first_size_is_kept,
        a_missing_size_is_set_again,
        permits_of_dead_holders_are_returned,
        a_permit_can_be_released_by_id,
        a_permit_renewed_by_id_outlives_its_lease,
        an_unknown_id_changes_nothing,
        a_try_passes_a_waiter_that_wants_more,
        impossible_numbers_are_refused,
        more_than_the_size_is_refused,
        shrinking_refuses_waiters_that_want_more,
        a_lock_on_its_name_is_refused_by_name_of_the_kind,
        waiters_that_fit_are_admitted_together,
        force_release_takes_all_permits,
        a_timed_out_wait_leaves_nothing,
        one_that_nobody_uses_is_not_listed,
    ]
}

fn of(client: &Client, limit: u32) -> Semaphore {
    client.semaphore("x", limit)
}

async fn assert_available(semaphore: &Semaphore, n: i64) {
    assert_eq!(ok(semaphore.available().await), n);
}

async fn wait_for_waiter(look: &Client) {
    until("they wait", || async { !ok(look.semaphore("x", 1).waiters().await).is_empty() }).await;
}

async fn acquire_many_is_all_or_nothing(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client(), 5), of(&harness.client(), 5));
    let three = ok(a.acquire_many(3).await);
    assert_available(&b, 2).await;
    assert!(ok(b.try_acquire_many(3).await).is_none());
    assert_available(&b, 2).await;
    let two = ok(b.try_acquire_many(2).await).expect("two are free");
    assert!(ok(b.try_acquire().await).is_none());
    let b2 = b.clone();
    let waiting = tokio::spawn(async move { ok(b2.acquire_many(4).await) });
    wait_for_waiter(&harness.observer()).await;
    ok(three.release().await);
    tokio::time::sleep(A_WHILE).await;
    assert!(!waiting.is_finished(), "only three are free");
    assert_available(&b, 3).await;
    ok(two.release().await);
    let four = done("four are free", waiting).await;
    assert_available(&a, 1).await;
    let holder = ok(a.holder().await).expect("one");
    assert_eq!((holder.id, holder.holds), (four.id().to_string(), 4));
    ok(four.release().await);
    assert_available(&a, 5).await;
}

async fn never_grants_more_than_the_limit(harness: Arc<Harness>) {
    const LIMIT: i64 = 4;
    let times = if harness.is_chaotic() { 5 } else { 25 };
    let clients = [harness.client(), harness.client(), harness.client()];
    let (inside, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let tasks: Vec<_> = (0..9)
        .map(|i| {
            let (semaphore, n) = (of(&clients[i % 3], LIMIT as u32), i as u32 % 3 + 1);
            let (inside, most) = (inside.clone(), most.clone());
            tokio::spawn(async move {
                for _ in 0..times {
                    let held = ok(semaphore.acquire_many(n).await);
                    let now = inside.fetch_add(i64::from(n), SeqCst) + i64::from(n);
                    assert!(now <= LIMIT, "{now} of {LIMIT} are inside");
                    most.fetch_max(now, SeqCst);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(i64::from(n), SeqCst);
                    ok(held.release().await);
                }
            })
        })
        .collect();
    for task in tasks {
        done("all get in", task).await;
    }
    assert!(most.load(SeqCst) > 1, "they never met");
    assert_available(&of(&clients[0], LIMIT as u32), LIMIT).await;
}

async fn a_larger_size_lets_waiters_in(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client(), 3), of(&harness.client(), 5));
    let two = ok(a.acquire_many(2).await);
    let b2 = b.clone();
    let waiting = tokio::spawn(async move { ok(b2.acquire_many(3).await) });
    wait_for_waiter(&harness.observer()).await;
    ok(a.resize(4).await);
    tokio::time::sleep(A_WHILE).await;
    assert!(!waiting.is_finished(), "only two are free");
    ok(a.resize(5).await);
    let three = done("the waiter gets in", waiting).await;
    assert_available(&b, 0).await;
    ok(two.release().await);
    ok(three.release().await);
    assert_available(&a, 5).await;
}

async fn after_shrinking_none_are_granted_until_enough_are_released(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client(), 5), of(&harness.client(), 5));
    let (three, two) = (ok(a.acquire_many(3).await), ok(b.acquire_many(2).await));
    ok(b.resize(2).await);
    assert_available(&a, -3).await;
    assert!(three.is_held() && two.is_held(), "what is in use stays in use");
    ok(three.release().await);
    assert_available(&a, 0).await;
    assert!(ok(a.try_acquire().await).is_none(), "the two in use are all there are");
    ok(two.release().await);
    assert_available(&a, 2).await;
    let all = ok(a.try_acquire_many(2).await).expect("two are free");
    assert!(ok(b.try_acquire().await).is_none());
    ok(all.release().await);
}

async fn the_first_size_is_kept(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client(), 2), of(&harness.client(), 10));
    let one = ok(a.acquire().await);
    assert_available(&b, 1).await;
    let two = ok(b.try_acquire().await).expect("one is free");
    assert!(ok(b.try_acquire().await).is_none(), "the size is two, whatever is given later");
    ok(one.release().await);
    ok(two.release().await);
    assert_available(&b, 2).await;
}

async fn a_missing_size_is_set_again(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client(), 1), of(&harness.client(), 3));
    let one = ok(a.acquire().await);
    assert!(ok(a.forget_size().await));
    let two = ok(b.try_acquire_many(2).await).expect("the new size is three");
    assert_available(&a, 0).await;
    assert!(ok(b.try_acquire().await).is_none());
    ok(one.release().await);
    ok(two.release().await);
}

async fn permits_of_dead_holders_are_returned(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client(), 3), of(&harness.client(), 3));
    let alive = ok(b.acquire().await);
    let start = Instant::now();
    take(&a.permits(2).lease(SHORT)).await.detach();
    let next = ok(within("the dead one's permits", b.acquire_many(2)).await);
    assert!(start.elapsed() >= SHORT, "free after {:?}", start.elapsed());
    assert!(alive.is_held());
    ok(next.release().await);
    assert_available(&b, 2).await;
    ok(alive.release().await);
}

async fn a_permit_can_be_released_by_id(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client_with(harness.renewing_settings()), 2), of(&harness.client(), 2));
    let look = of(&harness.observer(), 2);
    let (one, two) = (ok(a.acquire().await), ok(a.acquire().await));
    assert!(ok(b.release_by(one.id()).await));
    assert_available(&look, 1).await;
    assert!(!ok(look.release_by(one.id()).await), "it is gone already");
    let next = ok(a.try_acquire().await).expect("one is free");
    if harness.is_chaotic() {
        // Where a reply is lost, a release cannot tell who freed the permit, unless the loss is known before.
        within("the loss is told", one.lost()).await;
    }
    let lost = one.release().await.expect_err("it is gone");
    assert!(lost.is_lost(), "{lost}");
    assert_available(&look, 0).await;
    assert!(two.is_held() && next.is_held());
    let id = two.detach();
    assert!(ok(b.release_by(id).await));
    ok(next.release().await);
    assert_available(&look, 2).await;
}

async fn a_permit_renewed_by_id_outlives_its_lease(harness: Arc<Harness>) {
    let (a, b, look) = (of(&harness.client(), 1), of(&harness.client(), 1), of(&harness.observer(), 1));
    let has_sessions = harness.has_sessions();
    let id = ok(a.permits(1).lease(RENEWED).acquire().await).detach();
    if has_sessions {
        let refused = b.renew_by(id, FAR).await;
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
        assert!(ok(b.release_by(id).await));
        return;
    }
    let start = Instant::now();
    assert!(ok(b.renew_by(id, FAR).await));
    assert!(ok(b.renew_by(id, SHORT).await));
    let left = ok(look.holder().await).expect("one").left.expect("a lease");
    assert!(left > FAR / 2, "shortened to {left:?}");
    while start.elapsed() < RENEWED + SHORT {
        assert!(ok(a.try_acquire().await).is_none(), "gone after {:?}", start.elapsed());
        tokio::time::sleep(A_WHILE).await;
    }
    assert!(ok(b.release_by(id).await));
    ok(ok(a.try_acquire().await).expect("free").release().await);
}

async fn an_unknown_id_changes_nothing(harness: Arc<Harness>) {
    let (a, look) = (of(&harness.client(), 2), of(&harness.observer(), 2));
    let held = ok(a.acquire().await);
    let strange =
        [HoldId { client: ClientId::new(), n: held.id().n }, HoldId { n: held.id().n + 1000, ..held.id() }];
    for id in strange {
        assert!(!ok(look.release_by(id).await));
        assert!(harness.has_sessions() || !ok(look.renew_by(id, FAR * 10).await));
    }
    assert_available(&look, 1).await;
    let holder = ok(look.holder().await).expect("one");
    assert_eq!(holder.id, held.id().to_string());
    assert!(harness.remaining_lease(&holder) <= Some(FAR));
    ok(held.release().await);
    assert!(
        harness.has_sessions() || !ok(look.renew_by(strange[0], FAR * 10).await),
        "a renewal makes nothing"
    );
    assert_available(&look, 2).await;
}

async fn a_try_passes_a_waiter_that_wants_more(harness: Arc<Harness>) {
    let a = of(&harness.client(), 5);
    let two = ok(a.acquire_many(2).await);
    let a2 = a.clone();
    let waiting = tokio::spawn(async move { ok(a2.acquire_many(5).await) });
    wait_for_waiter(&harness.observer()).await;
    if harness.has_sessions() {
        until("where there is a queue nobody passes it", || async {
            match ok(a.try_acquire().await) {
                Some(one) => ok(one.release().await),
                None => return true,
            }
            false
        })
        .await;
    } else {
        ok(ok(a.try_acquire().await).expect("three are free").release().await);
    }
    assert!(!waiting.is_finished());
    ok(two.release().await);
    ok(done("all five are free", waiting).await.release().await);
}

async fn impossible_numbers_are_refused(harness: Arc<Harness>) {
    let a = of(&harness.client(), 3);
    for (semaphore, n, says) in
        [(&a, 0, "at least one"), (&a, 4, "4 permits"), (&of(&harness.client(), 0), 1, "no permits")]
    {
        for refused in [semaphore.acquire_many(n).await.map(Some), semaphore.try_acquire_many(n).await] {
            let Err(Error::Config(reason)) = refused else { panic!("{refused:?}") };
            assert!(reason.contains(says), "{reason}");
        }
    }
    assert_available(&a, 3).await;
}

/// Asserts that `n` permits were refused because the semaphore has `size`.
fn refused<T: std::fmt::Debug>(answer: tenure::Result<T>, n: u32, size: u32) {
    let Err(Error::Config(reason)) = answer else { panic!("{answer:?}") };
    assert!(reason.contains(&format!("{n} permits")) && reason.contains(&format!("has {size}")), "{reason}");
}

async fn more_than_the_size_is_refused(harness: Arc<Harness>) {
    let (a, b, look) = (of(&harness.client(), 2), of(&harness.client(), 10), of(&harness.observer(), 2));
    let one = ok(a.acquire().await);
    refused(b.try_acquire_many(5).await, 5, 2);
    refused(within("it does not wait", b.acquire_many(5)).await, 5, 2);
    refused(within("it does not wait", b.permits(3).try_acquire_for(FAR)).await, 3, 2);
    assert!(ok(look.waiters().await).is_empty());
    assert_available(&look, 1).await;
    // Requests that could wait do not queue behind it.
    let b2 = b.clone();
    let waiting = tokio::spawn(async move { ok(b2.acquire_many(2).await) });
    wait_for_waiter(&harness.observer()).await;
    refused(within("it does not wait", b.acquire_many(5)).await, 5, 2);
    ok(one.release().await);
    let two = done("two are free", waiting).await;
    refused(b.try_acquire_many(5).await, 5, 2);
    ok(two.release().await);
    assert_available(&look, 2).await;
    ok(a.resize(5).await);
    ok(ok(b.try_acquire_many(5).await).expect("five are free").release().await);
}

/// Also one that nobody holds: its size is stored.
async fn a_lock_on_its_name_is_refused_by_name_of_the_kind(harness: Arc<Harness>) {
    let client = harness.client();
    ok(ok(of(&client, 2).acquire().await).release().await);
    let answer = client.lock("x").try_acquire().await;
    let Err(Error::Config(reason)) = answer else { panic!("{answer:?}") };
    assert!(reason.contains("x is in use as a semaphore and cannot be a lock too"), "{reason}");
}

async fn shrinking_refuses_waiters_that_want_more(harness: Arc<Harness>) {
    let (a, b, c) = (of(&harness.client(), 5), of(&harness.client(), 5), of(&harness.client(), 5));
    let look = of(&harness.observer(), 5);
    let all = ok(a.acquire_many(5).await);
    let (b2, c2) = (b.clone(), c.clone());
    let many = tokio::spawn(async move { b2.acquire_many(4).await });
    wait_for_waiter(&harness.observer()).await;
    let few = tokio::spawn(async move { ok(c2.acquire_many(2).await) });
    until("both wait", || async { ok(look.waiters().await).len() == 2 }).await;
    ok(a.resize(2).await);
    refused(done("it is told", many).await, 4, 2);
    assert!(!few.is_finished() && all.is_held());
    until("it has left", || async { ok(look.waiters().await).len() == 1 }).await;
    ok(all.release().await);
    let two = done("who can be met is let in", few).await;
    assert_available(&look, 0).await;
    ok(two.release().await);
    assert_available(&look, 2).await;
}

async fn waiters_that_fit_are_admitted_together(harness: Arc<Harness>) {
    let (clients, n) = ([harness.client(), harness.client()], 20);
    let all = ok(of(&clients[0], n as u32).acquire_many(n as u32).await);
    let together = Arc::new(Barrier::new(n));
    let tasks: Vec<_> = (0..n)
        .map(|i| {
            let (semaphore, together) = (of(&clients[i % 2], n as u32), together.clone());
            tokio::spawn(async move {
                let held = ok(semaphore.acquire().await);
                together.wait().await;
                assert!(held.is_held());
                ok(held.release().await);
            })
        })
        .collect();
    wait_for_waiter(&harness.observer()).await;
    ok(all.release().await);
    for task in tasks {
        done("all are inside at once", task).await;
    }
}

async fn force_release_takes_all_permits(harness: Arc<Harness>) {
    let (a, look) = (of(&harness.client_with(harness.renewing_settings()), 3), of(&harness.observer(), 3));
    let (one, two) = (ok(a.acquire().await), ok(a.acquire_many(2).await));
    assert!(ok(look.force_release().await));
    assert_available(&look, 3).await;
    assert!(!ok(look.force_release().await), "nobody holds any");
    let all = ok(a.try_acquire_many(3).await).expect("all are free");
    for guard in [&one, &two] {
        within("the loss is told", guard.lost()).await;
        assert!(!guard.is_held());
    }
    assert!(all.is_held());
    assert_available(&look, 0).await;
    ok(all.release().await);
}

async fn a_timed_out_wait_leaves_nothing(harness: Arc<Harness>) {
    let (a, look) = (of(&harness.client(), 2), of(&harness.observer(), 2));
    let one = ok(a.acquire().await);
    assert!(repeat_if_unanswered(|| async { a.permits(2).try_acquire_for(A_WHILE).await }).await.is_none());
    until("it does not wait any more", || async { ok(look.waiters().await).is_empty() }).await;
    assert_available(&look, 1).await;
    ok(one.release().await);
    tokio::time::sleep(A_WHILE).await;
    assert_available(&look, 2).await;
}

/// Its size is known, and that is all that is left of it.
async fn one_that_nobody_uses_is_not_listed(harness: Arc<Harness>) {
    let (client, look) = (harness.client(), harness.observer());
    let names = async |all: bool, limit| {
        let found = if all { look.list_all("", limit).await } else { look.list("", limit).await };
        ok(found).into_iter().map(|seen| (seen.name.to_string(), seen.is_idle())).collect::<Vec<_>>()
    };
    for name in ["a", "b"] {
        ok(ok(client.semaphore(name, 2).acquire().await).release().await);
    }
    let permit = ok(client.semaphore("c", 2).acquire().await);
    let (in_use, idle) = (|name: &str| (name.to_owned(), false), |name: &str| (name.to_owned(), true));
    assert_eq!(names(false, 1).await, [in_use("c")], "idle ones take no place in a list");
    assert_eq!(names(true, 10).await, [idle("a"), idle("b"), in_use("c")]);
    let seen = ok(look.show("a").await).expect("the store knows its size");
    assert_eq!((seen.is_idle(), seen.family, seen.size), (true, Family::Permit, Some(2)));
    ok(permit.release().await);
    assert!(names(false, 10).await.is_empty());
    // A number that nobody uses is state.
    assert!(ok(client.counting_semaphore("d").try_set(0).await));
    assert_eq!(names(false, 10).await, [in_use("d")]);
    // Nothing is left of one whose size is forgotten.
    ok(client.semaphore("a", 2).forget_size().await);
    assert_eq!(names(true, 10).await, [idle("b"), idle("c"), in_use("d")]);
}
