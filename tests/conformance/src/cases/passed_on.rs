//! A lock that is passed on among the tasks of a client: no two are inside, fences grow, and others get in.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::backend::{Attempt, Claim, Kind};
use tenure::{Client, ClientId, Family, HoldId, Name};

use super::Case;
use crate::harness::{Harness, done, ok, repeat_if_unanswered, take, within};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Family] = &[Family::Lock];
    cases!["passed_on"; NEEDS;
        two_clients_pass_it_on_among_their_tasks,
        another_client_gets_its_turns,
        what_is_passed_on_can_be_taken_away,
    ]
}

/// Whether the store lets a client pass a hold on.
async fn reserves(harness: &Harness) -> bool {
    let id = HoldId { client: ClientId::new(), n: 1 };
    let claim = Claim { reserve: 1000, ..Claim::of(id, ok(Name::new("reserves")), Kind::Lock) };
    let backend = harness.bare_backend();
    let answer = ok(backend.try_acquire(&claim).await);
    ok(backend.release(&claim, 0).await);
    matches!(answer, Attempt::Granted { spare: 1.., .. })
}

fn client(harness: &Harness, bound: Duration) -> Client {
    let mut settings = harness.settings();
    settings.local_handover = Some(bound);
    harness.client_with(settings)
}

async fn two_clients_pass_it_on_among_their_tasks(harness: Arc<Harness>) {
    let clients = [client(&harness, Duration::from_millis(20)), client(&harness, Duration::from_millis(20))];
    let (inside, last) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new((None, HashSet::new(), 0))));
    let times = if harness.is_chaotic() { 6 } else { 40 };
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (lock, inside, last) = (clients[n % 2].lock("x"), inside.clone(), last.clone());
            tokio::spawn(async move {
                for _ in 0..times {
                    let guard = take(&lock).await;
                    assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are inside");
                    {
                        let mut last = last.lock().unwrap();
                        let fence = guard.fence();
                        assert!(fence.is_none() || fence > last.0, "{fence:?} after {:?}", last.0);
                        last.0 = fence;
                        last.1.insert(guard.recorded_id());
                        last.2 += 1;
                    }
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two are inside");
                    ok(guard.release().await);
                }
            })
        })
        .collect();
    for task in tasks {
        done("all get in", task).await;
    }
    let passed = {
        let last = last.lock().unwrap();
        last.2 - last.1.len()
    };
    if !reserves(&harness).await {
        assert_eq!(passed, 0, "the store reserves nothing");
    } else if !harness.is_chaotic() {
        assert!(passed > 0, "some turns are passed on");
    }
    assert!(!ok(harness.observer().lock("x").is_locked().await), "nothing is left");
}

async fn another_client_gets_its_turns(harness: Arc<Harness>) {
    let (busy, other) = (client(&harness, Duration::from_millis(5)), harness.client());
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, stop) = (busy.lock("x"), stop.clone());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let guard = take(&lock).await;
                    tokio::task::yield_now().await;
                    ok(guard.release().await);
                }
            })
        })
        .collect();
    let lock = other.lock("x");
    for _ in 0..5 {
        let turn = within("another client gets in", take(&lock)).await;
        ok(turn.release().await);
    }
    stop.store(true, SeqCst);
    for task in tasks {
        done("all end", task).await;
    }
}

async fn what_is_passed_on_can_be_taken_away(harness: Arc<Harness>) {
    let busy = client(&harness, Duration::from_millis(50));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, stop) = (busy.lock("x"), stop.clone());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let guard = take(&lock).await;
                    tokio::task::yield_now().await;
                    // Whoever has it when it was taken away learns it here.
                    let released = guard.release().await;
                    assert!(released.as_ref().err().is_none_or(tenure::Error::is_lost), "{released:?}");
                }
            })
        })
        .collect();
    let look = harness.client();
    for _ in 0..3 {
        let lock = look.lock("x");
        repeat_if_unanswered(|| lock.force_release()).await;
        // The name comes to others, and what they get is theirs.
        let guard = within("it is free", take(&lock)).await;
        assert!(guard.is_held());
        ok(guard.release().await);
    }
    stop.store(true, SeqCst);
    for task in tasks {
        done("all end", task).await;
    }
    assert!(!ok(look.lock("x").is_locked().await), "nothing is left");
}
