//! What an acquire reserves so that its hold may be passed on within its client: fences that nobody else gets, whatever
//! becomes of the client, of the server's clock, or of the last grants.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::backend::{Attempt, Backend};
use tenure_core::{Claim, Client, Kind};
use tenure_redis::Fences;
use testbed::{done, within};

use crate::harness::{Harness, claim, open, settings};

const RESERVE: u32 = 5000;

/// The first and the last fence of a grant that asks to reserve.
async fn draw(backend: &dyn Backend, reserve: u32) -> (u64, u64) {
    let claim = Claim { reserve, ..claim("x", Kind::Lock) };
    let Attempt::Granted { fence, spare, .. } = backend.try_acquire(&claim).await.unwrap() else {
        panic!("it is free")
    };
    backend.release(&claim, 0).await.unwrap();
    let first = fence.unwrap().0;
    (first, first + u64::from(spare))
}

fn micros(harness: &Harness) -> u64 {
    let time = harness.cmd(&["TIME"]);
    let part = |at: usize| time.items()[at].text().parse::<u64>().unwrap();
    part(0) * 1_000_000 + part(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_do_not_overlap_and_stay_near_the_clock() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let (mut last, mut reserved) = (0, 0);
    for n in 0..500 {
        let (first, end) = draw(&*backend, if n % 5 == 4 { 0 } else { RESERVE }).await;
        assert!(first > last, "{first} after {last}");
        (last, reserved) = (end, reserved + (end - first));
        assert_eq!(harness.cmd(&["GET", "tenure_fence:{x}"]).text(), last.to_string(), "it is stored");
    }
    assert!(reserved > 0);
    let now = micros(&harness);
    assert!(last <= now + u64::from(RESERVE) + 500, "{} ahead of the clock", last - now);
    assert!(harness.number(&["PTTL", "tenure_fence:{x}"]) > 80_000_000, "it ends as ever");
}

/// A clock that went back, or a last fence that is larger than a clock ever says, is what `draw` was written for.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_begin_after_the_last_fence_whatever_the_clock_says() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let now = micros(&harness);
    // Far ahead, as after a step back; beyond what a double holds.
    for last in [now + 3_600_000_000, 9_007_199_254_740_993, 9_000_000_000_000_000_001] {
        harness.cmd(&["SET", "tenure_fence:{x}", &last.to_string()]);
        assert_eq!(draw(&*backend, RESERVE).await, (last + 1, last + 1));
        assert_eq!(harness.cmd(&["GET", "tenure_fence:{x}"]).text(), (last + 1).to_string());
    }
    // So far ahead that a range of this size ends after it: by a minute.
    let ahead = micros(&harness) + 60_000_000;
    harness.cmd(&["SET", "tenure_fence:{x}", &ahead.to_string()]);
    let (first, end) = draw(&*backend, 120_000_000).await;
    assert_eq!(first, ahead + 1);
    assert!(end > first + 50_000_000 && end < micros(&harness) + 120_000_000, "{first} to {end}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_attempt_finds_its_fence_and_reserves_nothing() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let claim = Claim { reserve: RESERVE, ..claim("x", Kind::Lock) };
    let attempt = async || match backend.try_acquire(&claim).await.unwrap() {
        Attempt::Granted { fence, spare, .. } => (fence.unwrap().0, spare),
        other => panic!("{other:?}"),
    };
    let (first, spare) = attempt().await;
    assert_eq!((attempt().await, spare), ((first, 0), RESERVE));
    assert_eq!(harness.cmd(&["GET", "tenure_fence:{x}"]).text(), (first + u64::from(spare)).to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn redissons_counter_and_an_election_reserve_nothing() {
    let harness = Harness::start();
    let mut options = harness.options();
    options.fences = Fences::Redisson;
    let shared = open(options).await;
    assert_eq!(draw(&*shared, RESERVE).await, (1, 1));
    assert_eq!(draw(&*shared, RESERVE).await, (2, 2));
    let claim = Claim { reserve: 0, ..claim("cron", Kind::Leader) };
    let answer = harness.backend().await.try_acquire(&claim).await.unwrap();
    assert!(matches!(answer, Attempt::Granted { spare: 0, .. }), "{answer:?}");
}

/// Two processes, each with tasks that take turns: fences grow over all of them, some turns are passed on, and neither
/// process waits for longer than a hold is passed on for a few times.
#[tokio::test(flavor = "multi_thread")]
async fn fences_grow_over_what_is_passed_on_in_two_clients() {
    let harness = Harness::start();
    let clients = [Client::with(harness.backend().await, settings()), harness.client().await];
    let (stop, last) =
        (Arc::new(AtomicBool::new(false)), Arc::new(std::sync::Mutex::new((0, BTreeSet::new(), 0))));
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (lock, stop, last) = (clients[n % 2].lock("x"), stop.clone(), last.clone());
            tokio::spawn(async move {
                while !stop.load(SeqCst) {
                    let guard = lock.acquire().await.unwrap();
                    let fence = guard.fence().unwrap().0;
                    {
                        let mut last = last.lock().unwrap();
                        assert!(fence > last.0, "{fence} after {}", last.0);
                        (last.0, last.2) = (fence, last.2 + 1);
                        last.1.insert(guard.recorded_id());
                    }
                    tokio::task::yield_now().await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let both = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let last = last.lock().unwrap();
            let ids: BTreeSet<_> = last.1.iter().map(|id| id.client).collect();
            if ids.len() == 2 && last.1.len() > 20 && last.2 > 2 * last.1.len() {
                return;
            }
        }
    };
    within("both have had turns that were passed on", both).await;
    stop.store(true, SeqCst);
    for task in tasks {
        done("all end", task).await;
    }
    assert!(!harness.exists("x"));
}
