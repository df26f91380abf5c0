//! Random histories: given the same calls, the store and the memory store give the same answers.

use std::sync::Arc;
use std::time::Duration;

use tenure::backend::{Attempt, Backend, CountOp, Counter, Renewal};
use tenure::backend::{Claim, Kind, OpId};
use tenure::{ClientId, Family, HoldId, Memory, Name};

use super::Case;
use crate::harness::{Harness, ok};

pub(super) fn cases() -> Vec<Case> {
    let one = |word: &str, needs: &'static [Family], kind: fn(u64) -> Kind| {
        Case::new(format!("oracle::{word}"), needs, move |harness| holds(harness, kind)).calm()
    };
    vec![
        one("lock", &[Family::Lock], |_| Kind::Lock),
        one("fair", &[Family::Fair], |_| Kind::FairLock),
        one("read_write", &[Family::ReadWrite], |n| match n % 3 {
            0 => Kind::Write,
            _ => Kind::Read { under_write: None },
        }),
        one("permits", &[Family::Permit], |n| Kind::Permit { n: n as u32 % 3 + 1, limit: 4 }),
        Case::new("oracle::counts", &[Family::Count, Family::Latch], counts).calm(),
    ]
}

/// A small random generator with a fixed seed: the histories are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// The part of an answer that does not depend on the clock, or on which of several holders the store names.
fn plain(attempt: Attempt) -> String {
    match attempt {
        Attempt::Granted { .. } => "granted".into(),
        Attempt::Busy { .. } => "busy".into(),
        Attempt::Gone => "gone".into(),
        other => format!("{other:?}"),
    }
}

async fn holds(harness: Arc<Harness>, kind: fn(u64) -> Kind) {
    let (store, memory) = (harness.bare_backend(), Memory::new());
    let queues = harness.has_sessions();
    let client = ClientId::new();
    let name = ok(Name::new("x"));
    let mut dice = Dice(42);
    // The ids in use; one whose release was sent is replaced by a new one.
    let mut ids: Vec<u64> = (0..8).collect();
    let mut next = 8;
    for step in 0..600 {
        let at = dice.below(8) as usize;
        let n = ids[at];
        let claim = Arc::new(Claim {
            lease: Duration::from_secs(600),
            stamp: Duration::from_secs(600),
            brief: false,
            wait: (dice.below(3) > 0).then_some(Duration::MAX),
            ..Claim::of(HoldId { client, n }, name.clone(), kind(n))
        });
        // Where every kind is queued, a lock is a fair lock, and nobody overtakes a waiter for permits.
        let claim = match claim.kind {
            Kind::Permit { .. } if queues => Arc::new(Claim { wait: None, ..(*claim).clone() }),
            _ => claim,
        };
        let fair = match claim.kind {
            Kind::Lock if queues => Arc::new(Claim { kind: Kind::FairLock, ..(*claim).clone() }),
            _ => claim.clone(),
        };
        let told = match dice.below(10) {
            0..5 => {
                let mut a = ok(store.try_acquire(&claim).await);
                // A quorum does not ask its nodes again before its retry delay is over.
                if let Attempt::Busy { retry_after: Some(pause), .. } = a
                    && store.info().scheme == "redlock"
                {
                    tokio::time::sleep(pause).await;
                    a = ok(store.try_acquire(&claim).await);
                }
                let b = ok(memory.try_acquire(&fair).await);
                (plain(a), plain(b), "acquire")
            }
            5..9 => {
                ids[at] = next;
                next += 1;
                let (a, b) = (store.release(&claim, 0).await, memory.release(&fair, 0).await);
                (format!("{:?}", ok(a)), format!("{:?}", ok(b)), "release")
            }
            _ => {
                let claims = [Arc::new(Claim { wait: Some(Duration::MAX), ..(*claim).clone() })];
                let (a, b) = (ok(store.renew(&claims).await), ok(memory.renew(&claims).await));
                let plain = |r: Renewal| match r {
                    Renewal::Held { .. } => "held".to_owned(),
                    other => format!("{other:?}"),
                };
                (plain(a[0]), plain(b[0]), "renew")
            }
        };
        assert_eq!(told.0, told.1, "step {step}: {} {:?} as {:?}", told.2, claim.id, claim.kind);
    }
    for n in 0..next {
        let claim = Claim::of(HoldId { client, n }, name.clone(), kind(n));
        ok(store.release(&claim, 0).await);
    }
}

async fn counts(harness: Arc<Harness>) {
    let (store, memory) = (harness.bare_backend(), Memory::new());
    let client = ClientId::new();
    let mut dice = Dice(7);
    for (word, counter) in [("s", Counter::Semaphore), ("l", Counter::Latch)] {
        let name = ok(Name::new(word));
        let mut past: Vec<(CountOp, OpId)> = Vec::new();
        for n in 1..400_u64 {
            let op = match dice.below(9) {
                0 => CountOp::Init(dice.below(5) + 1),
                1 => CountOp::Drain,
                2 if counter == Counter::Semaphore => CountOp::Undo(n.saturating_sub(dice.below(4) + 1)),
                3 => CountOp::Delete,
                4 => CountOp::Get,
                5 => CountOp::Add(2),
                6 => CountOp::Add(-1),
                _ if counter == Counter::Semaphore => CountOp::TakeIfAtLeast(dice.below(3) + 1),
                _ => CountOp::Add(-1),
            };
            let id = OpId { client, n, settled: n.saturating_sub(8) };
            past.push((op, id));
            // One call in four repeats a recent one.
            let again = past.len() > 4 && dice.below(4) == 0;
            let (op, id) = if again { past[past.len() - 1 - dice.below(4) as usize] } else { (op, id) };
            let a = ok(store.count(&name, counter, op, id).await);
            let b = ok(memory.count(&name, counter, op, id).await);
            assert_eq!(
                (a.applied, a.before, a.after),
                (b.applied, b.before, b.after),
                "{word} {op:?} {id:?}"
            );
        }
    }
}
