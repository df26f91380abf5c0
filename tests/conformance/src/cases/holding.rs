//! Guards: re-entry, leases, loss, and closing the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::backend::Renewal;
use tenure::backend::{Claim, Kind};
use tenure::testing::Fate;
use tenure::{ClientId, Durability, Error, Family, HoldId, LostReason, Name, Owner};

use super::Case;
use crate::harness::{
    A_WHILE, FAR, Harness, RENEWED, SHORT, done, ok, repeat_if_unanswered, take, until, within,
};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Family] = &[Family::Lock];
    let mut all = cases!["holding"; NEEDS;
        an_owner_can_reenter,
        an_inner_guard_dropped_keeps_the_outer,
        a_reentry_keeps_the_fence_and_never_shortens,
        a_reentry_with_a_longer_lease_extends,
        an_inner_release_extends_and_never_shortens,
        one_unleased_guard_keeps_the_hold_renewed,
        two_clients_with_one_owner_exclude_each_other,
        branches_of_one_scope_reenter_and_others_do_not,
        a_stranger_can_neither_release_nor_renew,
        the_holder_is_shown,
        a_forced_release_is_reported_and_the_fence_grows,
        fences_grow_over_expiry_force_and_reopening,
        max_hold_ends_a_hold,
        max_hold_ends_a_forgotten_guard,
        an_inner_max_hold_ends_with_its_guard,
        a_fixed_lease_is_not_renewed,
        a_release_after_the_lease_reports_lost_and_keeps_the_next,
        close_releases_all_and_notifies_guards_and_waiters,
        invalid_options_are_named,
    ];
    all.extend(cases!["holding"; NEEDS; unsupported_replicas_are_refused].into_iter().map(Case::calm));
    all
}

async fn an_owner_can_reenter(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let lock = client.lock("x").owner(&Owner::new());
    let outer = ok(lock.acquire().await);
    let inner = ok(lock.try_acquire().await).expect("its owner is inside");
    assert_eq!((outer.reentry_count(), inner.reentry_count()), (2, 2));
    assert_eq!(outer.fence(), inner.fence());
    let seen = ok(other.lock("x").holder().await).expect("held").holds;
    assert_eq!(seen, if harness.has_sessions() { 1 } else { 2 }, "a session does not tell how often");
    assert!(ok(client.lock("x").try_acquire().await).is_none(), "another owner is a stranger");
    ok(inner.release().await);
    assert_eq!(outer.reentry_count(), 1);
    assert!(ok(other.lock("x").try_acquire().await).is_none());
    ok(outer.release().await);
    ok(ok(other.lock("x").try_acquire().await).expect("free").release().await);
}

async fn an_inner_guard_dropped_keeps_the_outer(harness: Arc<Harness>) {
    let client = harness.client();
    let lock = client.lock("x").owner(&Owner::new());
    let outer = ok(lock.acquire().await);
    for _ in 0..10 {
        drop(ok(lock.acquire().await));
    }
    assert_eq!(outer.reentry_count(), 1);
    assert!(outer.is_held());
    assert!(ok(harness.observer().lock("x").is_locked().await));
    ok(outer.release().await);
    assert!(!ok(harness.observer().lock("x").is_locked().await));
}

async fn a_reentry_keeps_the_fence_and_never_shortens(harness: Arc<Harness>) {
    let client = harness.client();
    let lock = client.lock("x").owner(&Owner::new());
    let outer = ok(lock.clone().lease(FAR).acquire().await);
    let inner = ok(lock.lease(SHORT).acquire().await);
    assert_eq!(outer.fence(), inner.fence());
    // Capped by the session timeout, where there are sessions.
    assert!(outer.remaining() > SHORT * 2, "cut to {:?}", outer.remaining());
    // The store still holds it after the short lease.
    let (start, look) = (Instant::now(), harness.observer());
    while start.elapsed() < SHORT * 3 / 2 {
        assert!(ok(look.lock("x").try_acquire().await).is_none(), "taken after {:?}", start.elapsed());
        tokio::time::sleep(A_WHILE).await;
    }
    assert!(outer.is_held() && inner.is_held());
    ok(inner.release().await);
    ok(outer.release().await);
}

async fn a_reentry_with_a_longer_lease_extends(harness: Arc<Harness>) {
    let (client, look) = (harness.client(), harness.observer());
    let lock = client.lock("x").owner(&Owner::new());
    let left = || async { ok(look.lock("x").holder().await).expect("held").left };
    let outer = ok(lock.clone().lease(FAR / 4).acquire().await);
    let inner = ok(lock.lease(FAR / 2).acquire().await);
    // By the store's own clock; where there are sessions, a hold has no end of its own.
    if let Some(left) = left().await.filter(|_| !harness.has_sessions()) {
        assert!(left > FAR / 4, "it has {left:?} left");
        assert!(outer.remaining() > FAR / 4 && inner.remaining() > FAR / 4);
    }
    ok(inner.release().await);
    assert!(outer.is_held());
    ok(outer.release().await);
}

async fn an_inner_release_extends_and_never_shortens(harness: Arc<Harness>) {
    let (backend, look) = (harness.bare_backend(), harness.observer());
    let id = HoldId { client: ClientId::new(), n: 1 };
    let claim = |lease, holds| Claim { lease, holds, ..Claim::of(id, ok(Name::new("x")), Kind::Lock) };
    let left = || async { ok(look.lock("x").holder().await).expect("held").left };
    for holds in 1..=3 {
        ok(backend.try_acquire(&claim(FAR / 4, holds)).await);
    }
    // The releases carry leases of their own, so that the store's clock need not move. Where there are sessions, a hold
    // has no end of its own.
    for (lease, holds) in [(FAR / 2, 2), (SHORT, 1)] {
        ok(backend.release(&claim(lease, holds), holds).await);
        if let Some(left) = left().await.filter(|_| !harness.has_sessions()) {
            assert!(left > FAR / 4, "after a release with {lease:?} it has {left:?} left");
        }
    }
    ok(backend.release(&claim(FAR / 4, 1), 0).await);
    assert!(!ok(look.lock("x").is_locked().await));
}

async fn one_unleased_guard_keeps_the_hold_renewed(harness: Arc<Harness>) {
    let client = harness.client_with(harness.renewing_settings());
    let lock = client.lock("x").owner(&Owner::new());
    let outer = ok(lock.clone().lease(RENEWED).acquire().await);
    let inner = ok(lock.acquire().await);
    let start = Instant::now();
    while start.elapsed() < RENEWED * 4 / 3 {
        assert!(outer.is_held() && inner.is_held(), "lost after {:?}", start.elapsed());
        tokio::time::sleep(A_WHILE).await;
    }
    ok(inner.release().await);
    // From here on it is not renewed.
    let lost = within("the end of the lease", outer.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
}

async fn two_clients_with_one_owner_exclude_each_other(harness: Arc<Harness>) {
    let me = Owner::new();
    let (a, b) = (harness.client().lock("x").owner(&me), harness.client().lock("x").owner(&me));
    let held = ok(a.acquire().await);
    assert!(ok(b.try_acquire().await).is_none());
    ok(held.release().await);
    ok(ok(b.try_acquire().await).expect("free").release().await);
}

async fn branches_of_one_scope_reenter_and_others_do_not(harness: Arc<Harness>) {
    let client = harness.client();
    let lock = client.lock("x");
    let me = Owner::new();
    let both = me.scope(async { tokio::join!(lock.acquire(), lock.acquire()) });
    let (a, b) = within("both branches", both).await;
    let (a, b) = (ok(a), ok(b));
    assert_eq!(a.fence(), b.fence());
    ok(a.release().await);
    ok(b.release().await);
    let wait = A_WHILE * 2;
    let waits = || repeat_if_unanswered(|| lock.try_acquire_for(wait));
    let (a, b) = tokio::join!(waits(), waits());
    assert_eq!([a.is_some(), b.is_some()].iter().filter(|in_| **in_).count(), 1);
}

async fn a_stranger_can_neither_release_nor_renew(harness: Arc<Harness>) {
    let guard = ok(harness.client().lock("x").lease(FAR).acquire().await);
    let backend = harness.bare_backend();
    let id = HoldId { client: ClientId::new(), n: 1 };
    let stranger = Arc::new(Claim { lease: FAR * 3 / 2, ..Claim::of(id, ok(Name::new("x")), Kind::Lock) });
    assert_eq!(ok(backend.release(&stranger, 0).await), tenure::backend::Released::Gone);
    assert_eq!(ok(backend.renew(std::slice::from_ref(&stranger)).await), [Renewal::Gone]);
    let holder = ok(harness.observer().lock("x").holder().await).expect("still held");
    assert_eq!(holder.hold_id(), Some(guard.id()));
    assert!(harness.remaining_lease(&holder) <= Some(FAR), "its time is its own");
    ok(guard.release().await);
}

async fn the_holder_is_shown(harness: Arc<Harness>) {
    let look = harness.observer();
    assert!(ok(look.lock("x").holder().await).is_none());
    assert!(ok(look.show("x").await).is_none());
    let guard = ok(harness.client().lock("x").note("the night job").acquire().await);
    let holder = ok(look.lock("x").holder().await).expect("held");
    assert_eq!(holder.hold_id(), Some(guard.id()));
    assert_eq!(holder.note.as_deref(), Some("the night job"));
    assert_eq!(holder.pid, Some(std::process::id()));
    assert_eq!(holder.fence, guard.fence());
    assert_eq!(holder.holds, 1);
    assert!(holder.host.as_ref().is_some_and(|h| !h.is_empty()));
    assert!(holder.since.is_some());
    assert!(harness.remaining_lease(&holder) <= Some(FAR));
    assert_eq!(ok(look.list("x", 10).await).len(), 1);
    ok(guard.release().await);
    assert!(!ok(look.lock("x").is_locked().await));
    assert!(ok(look.list("x", 10).await).is_empty());
}

async fn a_forced_release_is_reported_and_the_fence_grows(harness: Arc<Harness>) {
    let (client, other) = (harness.client_with(harness.renewing_settings()), harness.client());
    let guard = ok(client.lock("x").acquire().await);
    assert!(ok(other.lock("x").force_release().await));
    assert!(!ok(other.lock("x").force_release().await), "nobody holds it any more");
    let next = ok(other.lock("x").try_acquire().await).expect("free");
    assert!(next.fence() > guard.fence() || next.fence().is_none());
    let lost = within("the next renewal", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(!guard.is_held());
    assert!(ok_err(guard.release().await).is_lost());
    assert!(next.is_held());
    ok(next.release().await);
}

fn ok_err(result: tenure::Result<()>) -> Error {
    result.expect_err("an error")
}

async fn fences_grow_over_expiry_force_and_reopening(harness: Arc<Harness>) {
    if !harness.bare_backend().info().fenced {
        return;
    }
    let mut last = None;
    for round in 0..4 {
        // Each round opens the store again.
        let client = harness.client();
        let lock = client.lock("x");
        let guard = match round {
            0 => take(&lock.clone().lease(SHORT)).await,
            _ => ok(within("free again", lock.acquire()).await),
        };
        assert!(guard.fence() > last, "{:?} after {last:?}", guard.fence());
        last = guard.fence();
        match round {
            0 => drop(guard.detach()),
            1 => {
                assert!(ok(lock.force_release().await));
                drop(guard);
            }
            _ => ok(guard.release().await),
        }
        ok(client.close().await);
    }
}

async fn max_hold_ends_a_hold(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let start = Instant::now();
    let guard = ok(client.lock("x").max_hold(SHORT).acquire().await);
    let worked = within("max_hold", guard.while_held(std::future::pending::<()>())).await;
    assert!(matches!(worked, Err(Error::Lost(lost)) if lost.reason == LostReason::MaxHold));
    assert!(start.elapsed() >= SHORT);
    // Released at once, not at the end of the lease.
    let next = within("the name is freed", other.lock("x").acquire()).await;
    ok(ok(next).release().await);
    assert!(ok_err(guard.release().await).is_lost());
}

async fn max_hold_ends_a_forgotten_guard(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    std::mem::forget(ok(client.lock("x").max_hold(SHORT).acquire().await));
    ok(ok(within("the name is freed", other.lock("x").acquire()).await).release().await);
}

async fn an_inner_max_hold_ends_with_its_guard(harness: Arc<Harness>) {
    let lock = harness.client().lock("x").owner(&Owner::new());
    let outer = ok(lock.acquire().await);
    // Long enough that it is not over before the inner guard is released.
    let inner = ok(lock.max_hold(RENEWED).acquire().await);
    ok(inner.release().await);
    let start = Instant::now();
    while start.elapsed() < RENEWED + SHORT {
        assert!(outer.is_held(), "lost after {:?}", start.elapsed());
        tokio::time::sleep(A_WHILE).await;
    }
    ok(outer.release().await);
}

async fn a_fixed_lease_is_not_renewed(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let start = Instant::now();
    let guard = take(&client.lock("x").lease(SHORT)).await;
    let next = ok(within("the lease ends", other.lock("x").acquire()).await);
    assert!(!guard.is_held(), "two believe that they hold it");
    // The guard gives up a little before the store does, and then releases the name.
    assert!(start.elapsed() >= SHORT * 9 / 10, "taken within the lease");
    assert_eq!(guard.remaining(), Duration::ZERO);
    ok(next.release().await);
}

async fn a_release_after_the_lease_reports_lost_and_keeps_the_next(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let guard = take(&client.lock("x").lease(SHORT)).await;
    let next = ok(within("the lease ends", other.lock("x").lease(FAR).acquire()).await);
    assert!(ok_err(guard.release().await).is_lost());
    let look = harness.observer().lock("x");
    // A quorum may show it a moment later: the attempt on a slow node is still in flight.
    until("it is shown", || async { ok(look.holder().await).is_some() }).await;
    let holder = ok(look.holder().await).expect("held");
    assert_eq!(holder.hold_id(), Some(next.id()));
    assert!(harness.remaining_lease(&holder).is_none_or(|left| left > FAR / 2), "its time is untouched");
    ok(next.release().await);
}

async fn close_releases_all_and_notifies_guards_and_waiters(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let guards = [ok(client.lock("x").acquire().await), ok(client.lock("y").acquire().await)];
    let foreign = ok(other.lock("z").acquire().await);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.lock("z").acquire().await }
    });
    let look = harness.observer();
    until("it waits", || async { !ok(look.lock("z").waiters().await).is_empty() }).await;
    ok(within("close", client.close()).await);
    assert_eq!(guards[0].lost().await.reason, LostReason::Closed);
    assert!(!ok(look.lock("x").is_locked().await) && !ok(look.lock("y").is_locked().await));
    let waited = done("the waiter", waiting).await;
    assert!(matches!(waited, Err(Error::Closed)), "{waited:?}");
    assert!(matches!(client.lock("x").acquire().await, Err(Error::Closed)));
    ok(client.close().await);
    ok(foreign.release().await);
}

async fn invalid_options_are_named(harness: Arc<Harness>) {
    let error =
        harness.client().lock("x").lease(Duration::from_millis(1)).acquire().await.expect_err("too short");
    assert!(error.to_string().contains("1ms"), "{error}");
}

async fn unsupported_replicas_are_refused(harness: Arc<Harness>) {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let client = harness.faulty_client(move |_| {
        counted.fetch_add(1, SeqCst);
        Fate::default()
    });
    let lock = client.lock("x").durability(Durability::Replicas(0));
    assert!(matches!(lock.acquire().await, Err(Error::Config(_))));
    if !client.backend().info().durable {
        let error = lock.durability(Durability::Replicas(2)).try_acquire().await.expect_err("no copies");
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("replicas:2"), "{error}");
    }
    assert_eq!(sent.load(SeqCst), 0, "nothing was sent");
    ok(ok(client.lock("x").durability(Durability::Master).acquire().await).release().await);
}
