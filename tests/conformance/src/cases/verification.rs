//! A store that may have lost what it granted: all holds are verified at once, not at their next renewal.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tenure::backend::Released;
use tenure::backend::{Claim, Kind};
use tenure::testing::{Call, Fate, Faults};
use tenure::{Client, Family, Guard, HoldId, LostReason};

use super::Case;
use crate::harness::{A_WHILE, FAR, Harness, RENEWED, done, ok, until, within};

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases![
        "verification"; &[Family::Lock];
        missing_holds_are_reported_lost_at_once,
        verification_does_not_extend_a_lease,
        a_reentry_during_verification_is_repeated,
        a_failed_verification_is_repeated,
        a_grant_in_flight_is_verified,
        other_clients_are_not_affected,
    ];
    all.extend(cases!["verification"; &[Family::Fair]; a_missing_queue_position_is_taken_again]);
    all.into_iter().map(Case::calm).collect()
}

/// Raises a suspicion. The next regular renewal of all holds is too far away to be mistaken for the verification.
fn raise(client: &Client) {
    client.backend().info().suspicion.raise();
}

/// Removes a hold or queue position from the store without notifying its client.
async fn remove_from_store(harness: &Harness, id: HoldId, name: &str, kind: Kind) {
    let claim = Claim::of(id, ok(tenure::Name::new(name)), kind);
    assert_eq!(ok(harness.bare_backend().release(&claim, 0).await), Released::Freed);
}

async fn assert_reported_lost(guard: &Guard) {
    let lost = within("the loss is reported", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(!guard.is_held());
}

async fn missing_holds_are_reported_lost_at_once(harness: Arc<Harness>) {
    let client = harness.client();
    let renewed = ok(client.lock("a").acquire().await);
    let leased = ok(client.lock("b").lease(FAR).acquire().await);
    let kept = [ok(client.lock("c").acquire().await), ok(client.lock("d").lease(FAR).acquire().await)];
    remove_from_store(&harness, renewed.id(), "a", Kind::Lock).await;
    remove_from_store(&harness, leased.id(), "b", Kind::Lock).await;
    tokio::time::sleep(A_WHILE).await;
    // On stores that watch nodes the holder is notified even if no suspicion is raised.
    assert!(
        harness.has_sessions() || renewed.is_held() && leased.is_held(),
        "without a suspicion nobody asks"
    );
    raise(&client);
    assert_reported_lost(&renewed).await;
    assert_reported_lost(&leased).await;
    assert!(kept.iter().all(Guard::is_held));
    for guard in kept {
        ok(guard.release().await);
    }
}

async fn verification_does_not_extend_a_lease(harness: Arc<Harness>) {
    let proved = Arc::new(AtomicUsize::new(0));
    let counted = proved.clone();
    let client = harness.faulty_client(move |call| {
        if let Call::Renew(claims) = call {
            counted.fetch_add(claims.len(), SeqCst);
        }
        Fate::default()
    });
    let (look, has_sessions) = (harness.observer(), harness.has_sessions());
    let start = Instant::now();
    let guard = ok(client.lock("x").lease(RENEWED).acquire().await);
    // An upper bound: the lease began in the store before now.
    let end = start.elapsed() + RENEWED;
    tokio::time::sleep(A_WHILE).await;
    let left = guard.remaining();
    for times in 1..=2 {
        raise(&client);
        until("it is proved", || async { proved.load(SeqCst) >= times }).await;
    }
    tokio::time::sleep(A_WHILE).await;
    assert!(guard.is_held(), "a proof is not a loss");
    assert!(guard.remaining() < left, "longer than before: {:?} after {left:?}", guard.remaining());
    let asked = start.elapsed();
    let held = ok(look.lock("x").holder().await).expect("held").left;
    assert_eq!(held.is_none(), has_sessions);
    // `held` is as of the query, which was after `asked`, so the comparison is on the safe side.
    assert!(
        held.is_none_or(|held| asked + held <= end + A_WHILE),
        "the store has given it more time: {held:?}"
    );
    let lost = within("the end of its lease", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
    assert!(start.elapsed() >= RENEWED * 19 / 20, "cut short: {:?}", start.elapsed());
}

async fn a_reentry_during_verification_is_repeated(harness: Arc<Harness>) {
    // The suspicion is raised while the re-entry is in flight: its reply does not count any more.
    let entries = Arc::new(AtomicUsize::new(0));
    let counted = entries.clone();
    let backend = harness.bare_backend();
    let suspicion = backend.info().suspicion.clone();
    let plan = move |call: Call<'_>| match call {
        Call::TryAcquire(claim) if claim.holds > 1 => {
            if counted.fetch_add(1, SeqCst) == 0 {
                suspicion.raise();
            }
            Fate { late: A_WHILE, ..Fate::default() }
        }
        _ => Fate::default(),
    };
    let client = Client::with(Arc::new(Faults::new(backend, plan)), harness.settings());
    let lock = client.lock("x").owner(&tenure::Owner::new());
    let outer = ok(lock.acquire().await);
    let inner = ok(within("inside", lock.acquire()).await);
    assert_eq!((entries.load(SeqCst), inner.reentry_count()), (2, 2));
    ok(inner.release().await);
    ok(outer.release().await);
}

async fn a_failed_verification_is_repeated(harness: Arc<Harness>) {
    let fails = Arc::new(AtomicUsize::new(2));
    let left = fails.clone();
    let client = harness.faulty_client(move |call| {
        let renew = matches!(call, Call::Renew(_));
        let fails = renew && left.fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok();
        Fate { refused: fails, ..Fate::default() }
    });
    let guards = [ok(client.lock("a").acquire().await), ok(client.lock("b").lease(FAR).acquire().await)];
    for (guard, name) in guards.iter().zip(["a", "b"]) {
        remove_from_store(&harness, guard.id(), name, Kind::Lock).await;
    }
    raise(&client);
    for guard in &guards {
        assert_reported_lost(guard).await;
    }
    assert_eq!(fails.load(SeqCst), 0);
}

async fn a_grant_in_flight_is_verified(harness: Arc<Harness>) {
    let client = harness.faulty_client(|call| match call {
        Call::TryAcquire(_) => Fate { late: A_WHILE * 4, ..Fate::default() },
        _ => Fate::default(),
    });
    let look = harness.observer();
    // Once by a first attempt, once by the gate.
    for waits in [false, true] {
        // On stores with queues the head is shown as the holder before its client knows: nothing was granted yet.
        if waits && harness.has_sessions() {
            continue;
        }
        let before = if waits { Some(ok(look.lock("x").acquire().await)) } else { None };
        let acquire = tokio::spawn({
            let lock = client.lock("x");
            async move { ok(lock.acquire().await) }
        });
        if let Some(before) = before {
            until("it waits", || async { !ok(look.lock("x").waiters().await).is_empty() }).await;
            ok(before.release().await);
        }
        until("it is granted", || async { ok(look.lock("x").is_locked().await) }).await;
        let id = ok(look.lock("x").holder().await).expect("held").hold_id().expect("ours");
        remove_from_store(&harness, id, "x", Kind::Lock).await;
        raise(&client);
        let guard = done("the answer", acquire).await;
        if guard.id() == id {
            assert_reported_lost(&guard).await;
        } else {
            // It was verified before it was collected: a lost grant is not handed out, and the wait went on.
            assert!(waits && guard.is_held());
            ok(guard.release().await);
        }
    }
}

async fn other_clients_are_not_affected(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let (mine, theirs) = (ok(client.lock("a").acquire().await), ok(other.lock("b").acquire().await));
    for _ in 0..50 {
        raise(&client);
    }
    let mut waits = Vec::new();
    for _ in 0..4 {
        let lock = other.lock("a");
        waits.push(tokio::spawn(async move { ok(ok(lock.acquire().await).release().await) }));
    }
    raise(&other);
    tokio::time::sleep(A_WHILE).await;
    assert!(mine.is_held() && theirs.is_held());
    ok(mine.release().await);
    for task in waits {
        done("its turn", task).await;
    }
    ok(theirs.release().await);
}

async fn a_missing_queue_position_is_taken_again(harness: Arc<Harness>) {
    let (client, look) = (harness.client(), harness.observer());
    let held = ok(look.lock("x").fair().acquire().await);
    let waiters = || async { ok(look.lock("x").waiters().await) };
    let (mut waiting, served) = (Vec::new(), Arc::new(Mutex::new(Vec::new())));
    for n in 1..=3 {
        let (lock, served) = (client.lock("x").fair(), served.clone());
        waiting.push(tokio::spawn(async move {
            let guard = ok(lock.acquire().await);
            served.lock().unwrap().push(n);
            ok(guard.release().await);
        }));
        until("it waits", || async { waiters().await.len() == n }).await;
    }
    // The head of the gate makes attempts, those behind it only renew their stamps. Remove the latter, then all.
    for head in [1, 0] {
        for waiter in waiters().await.into_iter().skip(head) {
            remove_from_store(&harness, ok(waiter.id.parse()), "x", Kind::FairLock).await;
        }
        assert_eq!(waiters().await.len(), head);
        raise(&client);
        until("they queue anew", || async { waiters().await.len() == 3 }).await;
    }
    ok(held.release().await);
    for task in waiting {
        done("its turn", task).await;
    }
    assert_eq!(*served.lock().unwrap(), [1, 2, 3], "in the order of coming");
}
