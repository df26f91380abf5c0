//! Guards on a failing network: renewals and replies that are late, lost or repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::backend::{Claim, Kind};
use tenure::testing::{Call, Fate};
use tenure::{Client, Error, Family, LostReason, Owner};

use super::Case;
use crate::harness::{
    A_WHILE, FAR, Harness, RENEWED, SHORT, done, ok, poll_once, repeat_if_unanswered, until, within,
};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Family] = &[Family::Lock];
    cases!["renewal"; NEEDS;
        one_serves_two_guards_and_none_follows_the_release,
        two_failures_keep_the_guard,
        permanent_failure_loses_the_guard_within_its_validity,
        a_late_reply_frees_the_name,
        a_missing_hold_is_reported_at_once,
    ]
    .into_iter()
    .chain(cases!["replies"; NEEDS;
        a_grant_with_a_lost_reply_keeps_its_fence,
        a_release_with_a_lost_reply_succeeds,
        a_grant_after_its_lease_does_not_count,
        close_names_what_it_could_not_release,
        close_waits_for_calls_in_flight,
        an_inner_release_that_arrives_last_succeeds,
        a_wait_times_out_on_a_slow_store,
        a_dropped_release_continues,
        a_failed_reentry_changes_nothing,
        waiters_send_nothing,
    ])
    .map(Case::calm)
    .collect()
}

/// A client with faults injected by `plan`, whose lease is renewed while a case watches.
fn renewing_client(harness: &Harness, plan: impl Fn(Call<'_>) -> Fate + Send + Sync + 'static) -> Client {
    harness.faulty_client_with(harness.renewing_settings(), plan)
}

async fn one_serves_two_guards_and_none_follows_the_release(harness: Arc<Harness>) {
    let renewed = Arc::new(AtomicUsize::new(0));
    let client = renewing_client(&harness, {
        let renewed = renewed.clone();
        move |call| {
            if let Call::Renew(claims) = call {
                renewed.fetch_add(claims.len(), SeqCst);
            }
            Fate::default()
        }
    });
    let lock = client.lock("x").owner(&Owner::new());
    let start = Instant::now();
    let (outer, inner) = (ok(lock.acquire().await), ok(lock.acquire().await));
    assert!(ok(client.lock("x").try_acquire().await).is_none());
    until("three renewals", || async { renewed.load(SeqCst) >= 3 }).await;
    let periods = start.elapsed().as_secs_f64() / (RENEWED.as_secs_f64() / 3.0);
    assert!(periods > 2.5, "two guards are renewed twice: 3 in {periods:.1} periods");
    ok(inner.release().await);
    ok(outer.release().await);
    // One in flight may still arrive. A whole interval without any shows that there are no more.
    tokio::time::sleep(A_WHILE).await;
    let then = renewed.load(SeqCst);
    tokio::time::sleep(RENEWED / 3 + SHORT).await;
    assert_eq!(renewed.load(SeqCst), then, "renewed after the release");
}

async fn two_failures_keep_the_guard(harness: Arc<Harness>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let client = renewing_client(&harness, {
        let calls = calls.clone();
        move |call| match call {
            Call::Renew(_) => Fate { refused: calls.fetch_add(1, SeqCst) < 2, ..Fate::default() },
            _ => Fate::default(),
        }
    });
    let guard = ok(client.lock("x").acquire().await);
    until("a renewal after two that failed", || async { calls.load(SeqCst) >= 4 }).await;
    assert!(guard.is_held());
    ok(guard.release().await);
}

async fn permanent_failure_loses_the_guard_within_its_validity(harness: Arc<Harness>) {
    let client = renewing_client(&harness, |call| Fate {
        request_lost: matches!(call, Call::Renew(_)),
        ..Fate::default()
    });
    let guard = ok(client.lock("x").acquire().await);
    let (other, held) = (harness.client(), guard.held());
    let taken = tokio::spawn(async move {
        let next = ok(other.lock("x").acquire().await);
        (next, held.is_held())
    });
    let lost = within("told", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
    let (next, both) = done("the next", taken).await;
    assert!(!both, "it still counted as held when another had it");
    ok(next.release().await);
}

async fn a_late_reply_frees_the_name(harness: Arc<Harness>) {
    // The renewal is executed late, and its reply arrives after the guard gave up: the store has a fresh lease that
    // nobody holds.
    let mut settings = harness.settings();
    settings.lease = SHORT * 3;
    let client = harness.faulty_client_with(settings, |call| match call {
        Call::Renew(_) => Fate { delay: SHORT, late: SHORT * 3, ..Fate::default() },
        _ => Fate::default(),
    });
    let guard = ok(client.lock("x").acquire().await);
    within("told", guard.lost()).await;
    let other = harness.client();
    let next = ok(within("freed", other.lock("x").acquire()).await);
    tokio::time::sleep(SHORT * 2).await;
    assert!(!guard.is_held(), "a late answer does not revive it");
    ok(next.release().await);
}

async fn a_missing_hold_is_reported_at_once(harness: Arc<Harness>) {
    let client = harness.client_with(harness.renewing_settings());
    let guard = ok(client.lock("x").acquire().await);
    let backend = harness.bare_backend();
    ok(backend.release(&Claim::of(guard.id(), guard.name().clone(), Kind::Lock), 0).await);
    let lost = within("the next renewal", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
}

async fn a_grant_with_a_lost_reply_keeps_its_fence(harness: Arc<Harness>) {
    let first = AtomicBool::new(true);
    let client = harness.faulty_client(move |call| match call {
        Call::TryAcquire(_) => Fate { reply_lost: first.swap(false, SeqCst), ..Fate::default() },
        _ => Fate::default(),
    });
    let guard = ok(client.lock("x").acquire().await);
    let holder = ok(harness.observer().lock("x").holder().await).expect("held");
    assert_eq!((holder.hold_id(), holder.fence), (Some(guard.id()), guard.fence()));
    ok(guard.release().await);
    assert!(!ok(harness.observer().lock("x").is_locked().await));
}

async fn a_release_with_a_lost_reply_succeeds(harness: Arc<Harness>) {
    let first = AtomicBool::new(true);
    let client = harness.faulty_client(move |call| match call {
        Call::Release(_) => Fate { reply_lost: first.swap(false, SeqCst), ..Fate::default() },
        _ => Fate::default(),
    });
    let guard = ok(client.lock("x").acquire().await);
    ok(guard.release().await);
}

async fn a_grant_after_its_lease_does_not_count(harness: Arc<Harness>) {
    // With sessions the lease starts with the guard, so a late reply does not shorten it.
    if harness.has_sessions() {
        return;
    }
    let lease = SHORT / 2;
    let client = harness.faulty_client(move |call| match call {
        Call::TryAcquire(_) => Fate { late: lease * 2, ..Fate::default() },
        _ => Fate::default(),
    });
    let tried = client.lock("x").lease(lease).try_acquire().await;
    assert!(matches!(tried, Err(Error::Unavailable { .. })), "{tried:?}");
    until("nothing stays", || async { !ok(harness.observer().lock("x").is_locked().await) }).await;
}

async fn close_names_what_it_could_not_release(harness: Arc<Harness>) {
    let mut settings = harness.settings();
    settings.close_timeout = Duration::from_millis(300);
    let client = harness.faulty_client_with(settings, |call| Fate {
        request_lost: matches!(call, Call::Release(_)),
        ..Fate::default()
    });
    let guard = ok(client.lock("stuck").acquire().await);
    let error = within("close", client.close()).await.expect_err("it cannot release").to_string();
    assert!(error.contains("stuck"), "{error}");
    let stuck = Claim::of(guard.id(), guard.name().clone(), Kind::Lock);
    ok(harness.bare_backend().release(&stuck, 0).await);
}

async fn close_waits_for_calls_in_flight(harness: Arc<Harness>) {
    // The third attempt, which the gate makes when it is woken, is slow.
    let (attempts, sent) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let counted = sent.clone();
    let client = harness.faulty_client(move |call| {
        counted.fetch_add(1, SeqCst);
        match call {
            Call::TryAcquire(_) if attempts.fetch_add(1, SeqCst) == 2 => {
                Fate { delay: A_WHILE * 2, ..Fate::default() }
            }
            _ => Fate::default(),
        }
    });
    let other = harness.client();
    let held = ok(other.lock("x").acquire().await);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.lock("x").acquire().await }
    });
    until("it waits", || async { !ok(other.lock("x").waiters().await).is_empty() }).await;
    let before = sent.load(SeqCst);
    ok(held.release().await);
    // An attempt already in flight, as a quorum's may be, can get the lock before the slow one is sent.
    until("the late attempt is sent", || async { sent.load(SeqCst) > before || waiting.is_finished() }).await;
    ok(client.close().await);
    // `close` reported everything as released: the process may end here, so nothing may be sent later.
    let then = sent.load(SeqCst);
    tokio::time::sleep(A_WHILE * 4).await;
    assert_eq!(sent.load(SeqCst), then, "something was sent after close");
    assert!(!ok(other.lock("x").is_locked().await));
    drop(waiting);
}

async fn an_inner_release_that_arrives_last_succeeds(harness: Arc<Harness>) {
    let releases = AtomicUsize::new(0);
    let client = harness.faulty_client(move |call| match call {
        Call::Release(_) if releases.fetch_add(1, SeqCst) == 0 => Fate { delay: A_WHILE, ..Fate::default() },
        _ => Fate::default(),
    });
    let lock = client.lock("x").owner(&Owner::new());
    let (a, b) = (ok(lock.acquire().await), ok(lock.acquire().await));
    let (a, b) = tokio::join!(a.release(), b.release());
    ok(a);
    ok(b);
}

async fn a_wait_times_out_on_a_slow_store(harness: Arc<Harness>) {
    let held = ok(harness.client().lock("x").acquire().await);
    let given_up = repeat_if_unanswered(|| async {
        // The first attempt is answered, those of the gate are not.
        let attempts = AtomicUsize::new(0);
        let mut settings = harness.settings();
        // The attempt that is never answered stays pending, and the end of this process would wait for it.
        settings.close_timeout = A_WHILE;
        let client = harness.faulty_client_with(settings, move |call| match call {
            Call::TryAcquire(_) if attempts.fetch_add(1, SeqCst) >= 1 => {
                Fate { delay: FAR, ..Fate::default() }
            }
            _ => Fate::default(),
        });
        client.lock("x").try_acquire_for(A_WHILE * 2).await
    });
    assert!(given_up.await.is_none());
    ok(held.release().await);
}

async fn a_dropped_release_continues(harness: Arc<Harness>) {
    let client = harness.faulty_client(|call| match call {
        Call::Release(_) => Fate { delay: A_WHILE, ..Fate::default() },
        _ => Fate::default(),
    });
    let guard = ok(client.lock("x").acquire().await);
    let mut release = Box::pin(guard.release());
    assert!(poll_once(release.as_mut()).is_pending());
    drop(release);
    ok(within("free", harness.client().lock("x").acquire()).await.map(drop));
}

async fn a_failed_reentry_changes_nothing(harness: Arc<Harness>) {
    let refuses = Arc::new(AtomicBool::new(true));
    let plan = refuses.clone();
    let mut settings = harness.settings();
    settings.call_timeout = Duration::from_secs(5);
    let client = harness.faulty_client_with(settings, move |call| match call {
        Call::TryAcquire(claim) if claim.holds > 1 => Fate { refused: plan.load(SeqCst), ..Fate::default() },
        _ => Fate::default(),
    });
    let lock = client.lock("x").owner(&Owner::new());
    let outer = ok(lock.acquire().await);
    let (fence, left) = (outer.fence(), outer.remaining());
    assert!(matches!(lock.try_acquire().await, Err(Error::Unavailable { .. })));
    assert_eq!((outer.reentry_count(), outer.fence()), (1, fence));
    assert!(outer.is_held() && outer.remaining() <= left);
    refuses.store(false, SeqCst);
    let inner = ok(lock.acquire().await);
    assert_eq!(inner.reentry_count(), 2);
    ok(inner.release().await);
    ok(outer.release().await);
}

async fn waiters_send_nothing(harness: Arc<Harness>) {
    const WAITERS: usize = 200;
    let is_quorum = harness.bare_backend().info().scheme == "redlock";
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let client = harness.faulty_client(move |call| {
        counted.fetch_add(usize::from(matches!(call, Call::TryAcquire(_))), SeqCst);
        Fate::default()
    });
    let held = ok(harness.client().lock("x").acquire().await);
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = client.lock("x");
            tokio::spawn(async move { ok(ok(lock.acquire().await).release().await) })
        })
        .collect();
    until("all have tried once", || async { attempts.load(SeqCst) > WAITERS }).await;
    let (start, tried) = (Instant::now(), attempts.load(SeqCst));
    tokio::time::sleep(A_WHILE * 3).await;
    let more = attempts.load(SeqCst) - tried;
    // At most one attempt of the gate. A quorum keeps polling, each 5 ms at most: see its `retry_delay`.
    let rounds = if is_quorum { start.elapsed().as_millis() as usize / 5 } else { 0 };
    assert!(more <= rounds + 1, "{more} attempts while nothing happens");
    let tried = attempts.load(SeqCst);
    ok(held.release().await);
    for task in waiting {
        done("its turn", task).await;
    }
    let each = (attempts.load(SeqCst) - tried) as f64 / WAITERS as f64;
    assert!(each < 4.0, "{each} attempts for each hand-over");
    ok(client.close().await);
}
