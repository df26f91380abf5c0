//! Ledgers as a store keeps them, in JSON, and every request to one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Claim, CountOp, Counter, HoldId, Kind, Name, OpId, Process};
use tenure_core::ledger::{self, Now};

use super::work::client;
use crate::Target;

pub(super) struct Ledger;

impl Target for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn tokens(&self) -> &'static [&'static str] {
        TOKENS
    }

    /// A ledger, a copy of it, its JSON, and a snapshot.
    fn most_memory(&self, length: usize) -> usize {
        (1 << 20) + 400 * length
    }

    fn read(&mut self, input: &[u8]) {
        let Ok(ledger) = serde_json::from_slice::<ledger::Ledger>(input) else { return };
        let again = serde_json::to_vec(&ledger).expect("what was read can be written");
        assert_eq!(serde_json::from_slice::<ledger::Ledger>(&again).expect("and read again"), ledger);
        for now in [0, 1_000_000, u64::MAX].map(|tick| Now { clock: 1, tick, wall: tick }) {
            requests(ledger.clone(), now);
        }
    }
}

fn requests(mut ledger: ledger::Ledger, now: Now) {
    let name = Name::new("orders/42").expect("a name");
    ledger.snapshot(&name, now);
    let kinds = [
        Kind::Lock,
        Kind::FairLock,
        Kind::Leader,
        Kind::Read { under_write: None },
        Kind::Write,
        Kind::Permit { n: 2, limit: 3 },
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        let id = HoldId { client: client(), n: n as u64 + 1 };
        let mut claim = Claim { wait: Some(Duration::MAX), ..Claim::of(id, name.clone(), kind) };
        for lease in [Duration::from_secs(30), Duration::MAX] {
            claim.lease = lease;
            let _ = ledger.attempt(&claim, Process::current(), now);
            ledger.renew([&claim], now);
        }
        ledger.each_admitted(|_| true);
        ledger.release(&claim, 0, now);
    }
    let ops = [
        CountOp::Init(3),
        CountOp::Add(i64::MAX),
        CountOp::Add(i64::MIN),
        CountOp::Set(u64::MAX),
        CountOp::TakeIfAtLeast(u64::MAX),
        CountOp::Undo(1),
        CountOp::Drain,
        CountOp::Delete,
    ];
    for (n, op) in ops.into_iter().enumerate() {
        for counter in [Counter::Latch, Counter::Semaphore, Counter::Size] {
            let _ = ledger.count(&name, counter, op, OpId { client: client(), n: n as u64, settled: 0 }, now);
        }
    }
    ledger.watch(client(), now);
    ledger.forget_waiters(&HashSet::from([client()]));
    ledger.prune(now);
    let _ = (ledger.family(), ledger.is_idle());
}

/// Ledgers in all their states, for the corpus.
pub(crate) fn ledgers() -> Vec<(&'static str, ledger::Ledger)> {
    let now = Now { clock: 1, tick: 1_000_000, wall: 1_700_000_000_000_000 };
    let name = Name::new("orders/42").expect("a name");
    let of = |kinds: &[Kind]| {
        let mut ledger = ledger::Ledger::above(41);
        for (n, kind) in kinds.iter().copied().enumerate() {
            let id = HoldId { client: client(), n: n as u64 + 1 };
            let wait = Some(Duration::from_secs(60));
            let claim = Claim { wait, note: Some("a note".into()), ..Claim::of(id, name.clone(), kind) };
            let process = Arc::new(Process { host: "host".to_owned(), pid: 7 });
            let _ = ledger.attempt(&claim, &process, now);
        }
        ledger.watch(client(), now);
        ledger
    };
    let read = Kind::Read { under_write: None };
    let permits = |n| Kind::Permit { n, limit: 3 };
    let mut counted = ledger::Ledger::default();
    for (n, op) in [(1, CountOp::Init(3)), (2, CountOp::Add(-1))] {
        let _ = counted.count(&name, Counter::Latch, op, OpId { client: client(), n, settled: 1 }, now);
    }
    vec![
        ("locks", of(&[Kind::Lock, Kind::Lock])),
        ("fair", of(&[Kind::FairLock, Kind::FairLock, Kind::FairLock])),
        ("leader", of(&[Kind::Leader, Kind::Leader])),
        ("readers", of(&[read, read, Kind::Write, read])),
        ("permits", of(&[permits(2), permits(1), permits(3)])),
        ("latch", counted),
        ("idle", ledger::Ledger::above(41)),
    ]
}

pub(super) const TOKENS: &[&str] = &[
    "\"fence\":",
    "18446744073709551615",
    "\"holders\":[",
    "\"waiters\":[",
    "\"size\":",
    "\"idle\":",
    "\"count\":",
    "\"ops\":[",
    "\"watchers\":[",
    "\"expiry\":",
    "\"clock\":",
    "\"at\":",
    "\"others\":[[",
    "\"secs\":18446744073709551615",
    "\"nanos\":999999999",
    "\"nanos\":4294967295",
    "null",
    "{}",
    "[]",
    "\"kind\":\"Lock\"",
    "{\"Permit\":{\"n\":4294967295,\"limit\":1}}",
    "{\"Read\":{\"under_write\":null}}",
    "\"holds\":4294967295",
    "-9223372036854775808",
];
