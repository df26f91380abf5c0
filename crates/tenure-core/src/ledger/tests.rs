//! The rules, tested by example and with random histories.

mod counts;
mod damaged;
mod histories;
mod readers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::backend::{CountOp, CountReply, OpId};

thread_local! {
    /// How many holders and waiters were examined.
    pub(super) static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

const LEASE: Duration = Duration::from_secs(10);
const STAMP: Duration = Duration::from_secs(3);

fn client(n: u8) -> ClientId {
    format!("00000000-0000-4000-8000-0000000000{n:02x}").parse().unwrap()
}

fn id(n: u64) -> HoldId {
    HoldId { client: client((n % 3) as u8), n }
}

fn name() -> Name {
    Name::new("x").unwrap()
}

fn claim(n: u64, kind: Kind) -> Claim {
    Claim {
        holds: 1,
        lease: LEASE,
        wait: Some(Duration::MAX),
        stamp: STAMP,
        brief: false,
        ..Claim::of(id(n), name(), kind)
    }
}

fn at(ms: u64) -> Now {
    Now { clock: 0, tick: ms * 1000, wall: 1_000_000 + ms }
}

fn process() -> Arc<Process> {
    Process::current().clone()
}

impl Ledger {
    fn tries(&mut self, n: u64, kind: Kind, now: Now) -> Outcome {
        self.attempt(&claim(n, kind), &process(), now).unwrap()
    }
}

fn granted(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Granted(_))
}

#[test]
fn a_repeat_finds_the_first_grant_with_its_fence() {
    let mut ledger = Ledger::default();
    let first = ledger.tries(1, Kind::Lock, at(0));
    assert_eq!(ledger.tries(1, Kind::Lock, at(5)), first);
    assert_eq!(ledger.holders.len(), 1);
}

#[test]
fn a_late_release_of_an_old_hold_leaves_the_new_one() {
    let mut ledger = Ledger::default();
    ledger.tries(1, Kind::Lock, at(0));
    assert_eq!(ledger.release(&claim(1, Kind::Lock), 0, at(1)), Released::Freed);
    assert!(granted(ledger.tries(2, Kind::Lock, at(2))));
    assert_eq!(ledger.release(&claim(1, Kind::Lock), 0, at(3)), Released::Gone);
    assert_eq!(ledger.renew(&[claim(1, Kind::Lock)], at(3)), [Found::Gone]);
    assert_eq!(ledger.holders.first().unwrap().id, id(2));
}

#[test]
fn the_size_of_an_idle_semaphore_ends() {
    const DAY: u64 = 86_400_000;
    let permit = |limit| Kind::Permit { n: 1, limit };
    let mut ledger = Ledger::default();
    ledger.tries(1, permit(2), at(0));
    ledger.release(&claim(1, permit(2)), 0, at(1));
    assert!(ledger.clone().snapshot(&name(), at(DAY)).is_some());
    assert!(ledger.clone().snapshot(&name(), at(DAY + 1)).is_none(), "nobody used it for a day");
    // Whoever uses it in time finds it, and the day begins again.
    ledger.tries(2, permit(9), at(DAY));
    assert_eq!(ledger.size, Some(2));
    ledger.renew(&[Claim { lease: Duration::from_secs(200_000), ..claim(2, permit(9)) }], at(DAY + 1));
    ledger.prune(at(2 * DAY + 10));
    assert_eq!(ledger.size, Some(2), "it is held");
    ledger.release(&claim(2, permit(9)), 0, at(2 * DAY + 10));
    ledger.prune(at(3 * DAY));
    assert_eq!(ledger.size, Some(2), "the day begins with the release");
    ledger.tries(3, permit(9), at(3 * DAY + 10));
    assert_eq!(ledger.size, Some(9), "the limit of the next claim applies");
    // What was set explicitly stays.
    ledger.release(&claim(3, permit(9)), 0, at(3 * DAY + 11));
    let id = OpId { client: client(1), n: 1, settled: 1 };
    ledger.count(&name(), Counter::Size, CountOp::Set(4), id, at(3 * DAY + 12)).unwrap();
    ledger.prune(at(9 * DAY));
    assert_eq!(ledger.size, Some(4));
}

#[test]
fn a_reentry_writes_its_count_only_where_it_is_held() {
    let mut ledger = Ledger::default();
    let twice = Claim { holds: 2, ..claim(1, Kind::Lock) };
    assert_eq!(ledger.attempt(&twice, &process(), at(0)).unwrap(), Outcome::Gone);
    assert!(ledger.is_idle(), "a late re-entry creates nothing");
    ledger.tries(1, Kind::Lock, at(0));
    assert!(granted(ledger.attempt(&twice, &process(), at(1)).unwrap()));
    assert_eq!(ledger.holders.first().unwrap().holds, 2);
    ledger.release(&claim(1, Kind::Lock), 1, at(2));
    assert_eq!(ledger.holders.first().unwrap().holds, 1);
    assert_eq!(ledger.release(&claim(1, Kind::Lock), 0, at(2)), Released::Freed);
    assert_eq!(ledger.release(&claim(1, Kind::Lock), 1, at(3)), Released::Gone);
    assert!(ledger.holders.is_empty());
}

#[test]
fn a_shorter_lease_does_not_shorten() {
    let mut ledger = Ledger::default();
    ledger.tries(1, Kind::Lock, at(0));
    let short = Claim { holds: 2, lease: Duration::from_secs(1), ..claim(1, Kind::Lock) };
    ledger.attempt(&short, &process(), at(500)).unwrap();
    ledger.renew([&short], at(600));
    assert!(!granted(ledger.tries(2, Kind::Lock, at(9_999))));
    assert!(granted(ledger.tries(2, Kind::Lock, at(10_000))));
}

#[test]
fn without_a_lease_a_renewal_only_proves() {
    let mut ledger = Ledger::default();
    ledger.tries(1, Kind::Lock, at(0));
    let before = Ledger { effects: Effects::default(), ..ledger.clone() };
    ledger.effects = Effects::default();
    let proof = |n| Claim { lease: Duration::ZERO, ..claim(n, Kind::Lock) };
    assert_eq!(ledger.renew([&proof(1), &proof(2)], at(4_000)), [Found::Held, Found::Gone]);
    assert_eq!(ledger, before, "nothing was written");
    assert_eq!(ledger.renew([&proof(1)], at(10_000)), [Found::Gone], "it ended when it should");
}

#[test]
fn a_fence_survives_a_wall_clock_that_steps_back() {
    let mut ledger = Ledger::above(5_000_000);
    let Outcome::Granted(first) = ledger.tries(1, Kind::Lock, at(0)) else { panic!("busy") };
    ledger.release(&claim(1, Kind::Lock), 0, at(1));
    let back = Now { wall: 7, ..at(2) };
    let Outcome::Granted(second) = ledger.tries(2, Kind::Lock, back) else { panic!("busy") };
    assert!(first.0 > 5_000_000 && second > first);
}

#[test]
fn the_dead_head_of_a_fair_queue_is_skipped_after_its_stamp() {
    let mut ledger = Ledger::default();
    ledger.tries(1, Kind::FairLock, at(0));
    for n in 2..100 {
        assert!(!granted(ledger.tries(n, Kind::FairLock, at(n))));
    }
    assert_eq!(ledger.renew(&[claim(99, Kind::FairLock)], at(2_000)), [Found::Queued]);
    ledger.release(&claim(1, Kind::FairLock), 0, at(2_500));
    match ledger.tries(99, Kind::FairLock, at(2_600)) {
        Outcome::Busy { retry_after, behind, .. } => {
            assert_eq!(behind, Some(id(2)));
            assert!(retry_after.is_some_and(|d| d <= STAMP), "{retry_after:?}");
        }
        other => panic!("{other:?}"),
    }
    // Ninety-seven dead waiters are removed at once, not one after another.
    assert!(granted(ledger.tries(99, Kind::FairLock, at(3_500))));
}

#[test]
fn a_writer_that_waits_stops_new_readers() {
    let read = Kind::Read { under_write: None };
    let mut ledger = Ledger::default();
    assert!(granted(ledger.tries(1, read, at(0))));
    assert!(!granted(ledger.tries(2, Kind::Write, at(1))));
    assert!(!granted(ledger.tries(3, read, at(2))), "behind the writer");
    assert!(!granted(ledger.attempt(&Claim { wait: None, ..claim(4, read) }, &process(), at(3)).unwrap()));
    ledger.effects = Effects::default();
    ledger.release(&claim(1, read), 0, at(4));
    assert_eq!(ledger.effects.admit, [id(2).client], "only the writer is woken");
    assert!(granted(ledger.tries(2, Kind::Write, at(5))));
    ledger.effects = Effects::default();
    ledger.release(&claim(2, Kind::Write), 0, at(6));
    assert_eq!(ledger.effects.admit, [id(3).client]);
}

#[test]
fn a_read_under_ones_own_write_keeps_its_fence() {
    let mut ledger = Ledger::default();
    let Outcome::Granted(write) = ledger.tries(1, Kind::Write, at(0)) else { panic!("busy") };
    ledger.tries(2, Kind::Write, at(1));
    let under = Kind::Read { under_write: Some(id(1)) };
    assert_eq!(ledger.tries(3, under, at(2)), Outcome::Granted(write));
    ledger.release(&claim(1, Kind::Write), 0, at(3));
    assert!(!granted(ledger.tries(2, Kind::Write, at(4))), "the read stays");
    ledger.release(&claim(3, under), 0, at(5));
    assert!(matches!(ledger.tries(2, Kind::Write, at(6)), Outcome::Granted(next) if next > write));
}

#[test]
fn a_stored_size_wins_and_a_smaller_one_takes_nothing_away() {
    let permit = |n| Kind::Permit { n, limit: 3 };
    let mut ledger = Ledger::default();
    assert!(granted(ledger.tries(1, permit(2), at(0))));
    assert!(!granted(ledger.tries(2, permit(2), at(1))));
    assert!(granted(ledger.tries(3, permit(1), at(2))), "a smaller one may pass");
    assert!(!granted(ledger.tries(4, Kind::Permit { n: 1, limit: 100 }, at(3))), "the stored size wins");
    count(&mut ledger, Counter::Size, CountOp::Set(1), 50);
    ledger.release(&claim(3, permit(1)), 0, at(4));
    assert!(!granted(ledger.tries(4, permit(1), at(5))));
    ledger.release(&claim(1, permit(2)), 0, at(6));
    assert!(granted(ledger.tries(4, permit(1), at(7))));
}

fn refused(ledger: &mut Ledger, n: u64, kind: Kind, now: Now) -> String {
    match ledger.attempt(&claim(n, kind), &process(), now) {
        Err(Error::Config(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn more_permits_than_there_are_is_refused() {
    let mut ledger = Ledger::default();
    count(&mut ledger, Counter::Size, CountOp::Set(2), 1);
    let permits = |n| Kind::Permit { n, limit: 10 };
    let why = refused(&mut ledger, 1, permits(5), at(0));
    assert!(why.contains("5 permits") && why.contains("has 2"), "{why}");
    assert!(ledger.waiters.is_empty(), "it has no place");
    assert!(granted(ledger.tries(2, permits(2), at(1))));
    count(&mut ledger, Counter::Size, CountOp::Set(0), 2);
    refused(&mut ledger, 3, permits(1), at(2));
    assert!(granted(ledger.tries(2, permits(2), at(3))), "what is held stays held");
}

#[test]
fn a_smaller_size_wakes_who_cannot_be_met_any_more() {
    let permits = |n| Kind::Permit { n, limit: 5 };
    let mut ledger = Ledger::default();
    assert!(granted(ledger.tries(1, permits(5), at(0))));
    assert!(!granted(ledger.tries(2, permits(1), at(1))));
    assert!(!granted(ledger.tries(3, permits(4), at(2))));
    ledger.effects = Effects::default();
    count(&mut ledger, Counter::Size, CountOp::Set(2), 1);
    assert_eq!(ledger.effects.admit, [id(3).client]);
    refused(&mut ledger, 3, permits(4), at(3));
    assert_eq!(ledger.waiters.len(), 1, "its place is gone");
    ledger.effects = Effects::default();
    ledger.release(&claim(1, permits(5)), 0, at(4));
    assert_eq!(ledger.effects.admit, [id(2).client]);
}

#[test]
fn in_the_place_of_one_that_cannot_be_reached_the_next_is_asked() {
    let asked = |kinds: &[Kind], unreachable: &[u64]| {
        let mut ledger = Ledger::default();
        for (n, kind) in (1..).zip(kinds) {
            let of = Claim { id: HoldId { client: client(n), n: u64::from(n) }, ..claim(0, *kind) };
            ledger.queue(&of, &process(), at(0));
        }
        ledger.size = Some(2);
        let mut asked = Vec::new();
        ledger.each_admitted(|c| {
            let n = (1..9).find(|n| client(*n) == c).unwrap();
            asked.push(n);
            !unreachable.contains(&u64::from(n))
        });
        asked
    };
    let (one, read) = (Kind::Permit { n: 1, limit: 2 }, Kind::Read { under_write: None });
    assert_eq!(asked(&[Kind::Lock; 4], &[]), [1]);
    assert_eq!(asked(&[Kind::Lock; 4], &[1, 2]), [1, 2, 3]);
    assert_eq!(asked(&[Kind::Lock; 2], &[1, 2]), [1, 2]);
    assert_eq!(asked(&[one; 4], &[2]), [1, 2, 3]);
    assert_eq!(asked(&[Kind::Write, read, read], &[1]), [1, 2, 3]);
}

#[test]
fn a_clash_of_kinds_names_both() {
    let mut ledger = Ledger::default();
    ledger.tries(1, Kind::Write, at(0));
    let error = ledger.attempt(&claim(2, Kind::Lock), &process(), at(1)).unwrap_err().to_string();
    assert!(error.contains("read/write lock") && error.contains("cannot be a lock"), "{error}");
}

fn op(n: u64, settled: u64) -> OpId {
    OpId { client: client(0), n, settled }
}

fn count(ledger: &mut Ledger, of: Counter, what: CountOp, n: u64) -> CountReply {
    ledger.count(&name(), of, what, op(n, 0), at(100)).unwrap()
}

#[test]
fn an_operation_counts_once() {
    let mut ledger = Ledger::default();
    assert!(count(&mut ledger, Counter::Semaphore, CountOp::Init(5), 1).applied);
    assert!(
        count(&mut ledger, Counter::Semaphore, CountOp::Init(5), 1).applied,
        "the repeat says what the first did"
    );
    let take = CountOp::TakeIfAtLeast(2);
    assert_eq!(count(&mut ledger, Counter::Semaphore, take, 2).after, Some(3));
    assert_eq!(count(&mut ledger, Counter::Semaphore, take, 2).after, Some(3));
    assert_eq!(count(&mut ledger, Counter::Semaphore, CountOp::Undo(2), 3).after, Some(5));
    assert_eq!(count(&mut ledger, Counter::Semaphore, CountOp::Undo(2), 4).after, Some(5));
    // An undo that arrives before the operation that it undoes.
    assert_eq!(count(&mut ledger, Counter::Semaphore, CountOp::Undo(9), 5).after, Some(5));
    assert!(!count(&mut ledger, Counter::Semaphore, take, 9).applied);
    // Settled operations are forgotten, and a repeat does nothing.
    let settled = ledger.count(&name(), Counter::Semaphore, CountOp::Add(1), op(20, 20), at(100)).unwrap();
    assert_eq!(settled.after, Some(6));
    assert!(!count(&mut ledger, Counter::Semaphore, take, 2).applied);
    assert_eq!(count(&mut ledger, Counter::Semaphore, CountOp::Get, 21).after, Some(6));
}

#[test]
fn a_latch_set_anew_is_another_one() {
    let mut ledger = Ledger::default();
    let first = count(&mut ledger, Counter::Latch, CountOp::Init(1), 1);
    ledger.effects = Effects::default();
    assert_eq!(count(&mut ledger, Counter::Latch, CountOp::Add(-1), 2).after, None);
    assert!(ledger.effects.open);
    assert_eq!(count(&mut ledger, Counter::Latch, CountOp::Add(-1), 3).after, None, "below zero is nothing");
    let second = count(&mut ledger, Counter::Latch, CountOp::Init(1), 4);
    assert!(second.applied && second.born != first.born);
}

#[test]
fn it_is_written_and_read_as_json() {
    let mut ledger = Ledger::default();
    ledger.tries(1, Kind::Permit { n: 2, limit: 3 }, at(0));
    ledger.tries(2, Kind::Permit { n: 2, limit: 3 }, at(1));
    ledger.holders.update(id(1), |holder| holder.expiry.adopt(Now { clock: u128::MAX, ..at(0) }, LEASE));
    count(&mut ledger, Counter::Size, CountOp::Set(4), 1);
    ledger.watch(client(2), at(2));
    ledger.effects = Effects::default();
    let text = serde_json::to_string(&ledger).unwrap();
    assert_eq!(serde_json::from_str::<Ledger>(&text).unwrap(), ledger, "{text}");
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["holders"][0]["fence"], 1_000_000, "{text}");
    assert_eq!(value["waiters"].as_array().map(Vec::len), Some(1), "{text}");
}

/// A step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Try(u64),
    Release(u64),
    Renew(u64),
    Pass(u64),
    /// Some earlier command is repeated.
    Repeat(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u64..24).prop_map(Step::Try),
        3 => (1u64..24).prop_map(Step::Release),
        1 => (1u64..24).prop_map(Step::Renew),
        1 => (0u64..4_000).prop_map(Step::Pass),
        1 => (0usize..64).prop_map(Step::Repeat),
    ];
    proptest::collection::vec(step, 1..120)
}

fn kinds(family: u8) -> impl Fn(u64) -> Kind {
    move |n| match (family, n % 3) {
        (0, _) => Kind::Lock,
        (1, _) => Kind::FairLock,
        (2, 0) => Kind::Write,
        (2, _) => Kind::Read { under_write: None },
        (_, m) => Kind::Permit { n: m as u32 + 1, limit: 4 },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_history_breaks_the_rules(family in 0u8..4, steps in steps()) {
        let kind = kinds(family);
        let mut ledger = Ledger::default();
        let (mut now, mut past, mut highest) = (0u64, Vec::new(), 0);
        // Ids whose release was sent are never tried again; the n-th id in use stands in for its successors.
        let mut generation: BTreeMap<u64, u64> = BTreeMap::new();
        let mut fences: BTreeMap<HoldId, u64> = BTreeMap::new();
        let mut queue: Vec<HoldId> = Vec::new();
        for step in steps {
            now += 1;
            let fresh = |g: &BTreeMap<u64, u64>, n: u64| n + 24 * g.get(&n).copied().unwrap_or(0);
            let command = match step {
                Step::Pass(ms) => { now += ms; None }
                Step::Try(n) => Some(('t', n, fresh(&generation, n))),
                Step::Renew(n) => Some(('n', n, fresh(&generation, n))),
                Step::Release(n) => {
                    let id = fresh(&generation, n);
                    *generation.entry(n).or_default() += 1;
                    Some(('r', n, id))
                }
                // An attempt is repeated only while its id is alive: rule one.
                Step::Repeat(i) => past.get(i).copied().filter(|(verb, n, id)| *verb != 't' || fresh(&generation, *n) == *id),
            };
            let Some((verb, n, raw)) = command else { continue };
            past.push((verb, n, raw));
            ledger.prune(at(now));
            queue.retain(|id| ledger.waiters.iter().any(|w| w.id == *id));
            match verb {
                't' => match ledger.tries(raw, kind(n), at(now)) {
                    Outcome::Granted(fence) => {
                        if let Some(known) = fences.get(&id(raw)).filter(|_| ledger.holders.iter().any(|h| h.id == id(raw))) {
                            prop_assert!(*known <= fence.0);
                        }
                        if fences.insert(id(raw), fence.0) != Some(fence.0) {
                            prop_assert!(fence.0 > highest, "a fence went back");
                            highest = fence.0;
                            if family == 1 {
                                let ahead: Vec<_> = queue.iter().take_while(|q| **q != id(raw)).collect();
                                prop_assert!(ahead.is_empty(), "{:?} overtook {ahead:?}", id(raw));
                            }
                        }
                    }
                    Outcome::Busy { .. } => {
                        prop_assert!(ledger.waiters.iter().any(|w| w.id == id(raw)), "busy without a place");
                        if !queue.contains(&id(raw)) { queue.push(id(raw)); }
                    }
                    Outcome::Gone => prop_assert!(false, "a first attempt is never gone"),
                },
                'n' => { ledger.renew(&[claim(raw, kind(n))], at(now)); }
                _ => { ledger.release(&claim(raw, kind(n)), 0, at(now)); }
            }
            check(&ledger, family)?;
        }
        // Every remaining waiter is granted once all others have left: nobody waits forever.
        now += 60_000;
        for n in 1000..1004 {
            ledger.tries(n, kind(n), at(now));
        }
        while let Some(waiter) = ledger.waiters.first().cloned() {
            for holder in ledger.holders.clone().iter() {
                ledger.release(&Claim::of(holder.id, name(), holder.kind), 0, at(now));
            }
            let again = Claim { wait: Some(Duration::MAX), ..Claim::of(waiter.id, name(), waiter.kind) };
            prop_assert!(granted(ledger.attempt(&again, &process(), at(now)).unwrap()), "{waiter:?} waits for nobody");
        }
    }
}

fn check(ledger: &Ledger, family: u8) -> std::result::Result<(), TestCaseError> {
    let ids: BTreeSet<_> = ledger.holders.iter().map(|h| h.id).collect();
    prop_assert_eq!(ids.len(), ledger.holders.len(), "one hold twice");
    prop_assert!(ledger.holders.is_indexed_right() && ledger.waiters.is_indexed_right(), "{:?}", ledger);
    prop_assert!(ledger.waiters.iter().all(|w| !ids.contains(&w.id)), "holding and waiting");
    let writers = ledger.holders.iter().filter(|h| h.kind == Kind::Write).count();
    match family {
        0 | 1 => prop_assert!(ledger.holders.len() <= 1, "two inside"),
        2 => prop_assert!(writers == 0 || ledger.holders.len() == 1, "a writer is not alone"),
        _ => prop_assert!(ledger.inside().used <= 4, "too many permits"),
    }
    Ok(())
}

/// Returns how many holders and waiters are examined while `work` runs on an empty ledger.
fn looks(work: impl FnOnce(&mut Ledger)) -> u64 {
    LOOKED_AT.set(0);
    work(&mut Ledger::default());
    LOOKED_AT.get()
}

/// Asserts that four times as many cost about four times as much.
fn assert_linear(looks: impl Fn(u64) -> u64) {
    let (few, many) = (looks(100), looks(400));
    assert!(many <= 5 * few, "{few} looks for 100, {many} for 400");
    assert!(many <= 20 * 400, "{many} looks for 400");
}

const READ: Kind = Kind::Read { under_write: None };

#[test]
fn a_run_of_readers_costs_no_more_for_each_when_there_are_more() {
    assert_linear(|n| {
        looks(|ledger| {
            assert!(granted(ledger.tries(0, Kind::Write, at(0))));
            (1..=n).for_each(|i| assert!(!granted(ledger.tries(i, READ, at(i)))));
            // Each tries again while it waits, and each position is refreshed.
            (1..=n).for_each(|i| assert!(!granted(ledger.tries(i, READ, at(1000)))));
            (1..=n).for_each(|i| assert_eq!(ledger.renew([&claim(i, READ)], at(1000)), [Found::Queued]));
            ledger.release(&claim(0, Kind::Write), 0, at(1001));
            (1..=n).for_each(|i| assert!(granted(ledger.tries(i, READ, at(1002)))));
            assert!(!granted(ledger.tries(n + 1, Kind::Write, at(1003))));
            (1..=n).for_each(|i| assert_eq!(ledger.renew([&claim(i, READ)], at(1004)), [Found::Held]));
            (1..=n).for_each(|i| assert_eq!(ledger.release(&claim(i, READ), 0, at(1005)), Released::Freed));
            assert!(granted(ledger.tries(n + 1, Kind::Write, at(1006))));
        })
    });
}

#[test]
fn a_hand_over_costs_no_more_when_more_wait() {
    assert_linear(|n| {
        looks(|ledger| {
            (0..=n).for_each(|i| assert_eq!(granted(ledger.tries(i, Kind::FairLock, at(0))), i == 0));
            for i in 0..n {
                ledger.release(&claim(i, Kind::FairLock), 0, at(1));
                assert!(granted(ledger.tries(i + 1, Kind::FairLock, at(1))));
            }
        })
    });
}

#[test]
fn holders_that_end_one_after_the_other_cost_no_more_when_there_are_more() {
    assert_linear(|n| {
        looks(|ledger| {
            for i in 1..=n {
                let lease = LEASE + Duration::from_millis(i);
                let reader = Claim { lease, ..claim(i, READ) };
                assert!(granted(ledger.attempt(&reader, &process(), at(0)).unwrap()));
            }
            for i in 1..=n {
                let looks = Claim { wait: None, ..claim(n + 1, Kind::Write) };
                let now = at(10_000 + i);
                assert_eq!(granted(ledger.attempt(&looks, &process(), now).unwrap()), i == n);
            }
        })
    });
}

#[test]
fn readers_that_give_up_cost_no_more_when_there_are_more() {
    assert_linear(|n| {
        looks(|ledger| {
            assert!(granted(ledger.tries(0, Kind::Write, at(0))));
            (1..=n).for_each(|i| assert!(!granted(ledger.tries(i, READ, at(i)))));
            assert!(!granted(ledger.tries(n + 1, Kind::Write, at(n + 1))));
            // Each of them could get in, but gives up instead.
            ledger.release(&claim(0, Kind::Write), 0, at(1000));
            for i in 1..=n {
                ledger.effects = Effects::default();
                assert_eq!(ledger.release(&claim(i, READ), 0, at(1001)), Released::Freed);
            }
            assert_eq!(ledger.effects.admit, [id(n + 1).client], "the writer behind them is woken");
        })
    });
}

#[test]
fn a_clock_that_steps_back_or_is_another_one_shortens_nothing() {
    let mut ledger = Ledger::default();
    (1..=9).for_each(|i| assert!(granted(ledger.tries(i, READ, at(60_000 + i)))));
    let others = Now { clock: 7, ..at(5) };
    let back = at(50_000);
    for now in [others, back] {
        ledger.prune(now);
        assert_eq!(ledger.holders.len(), 9, "each has a full term on this clock");
        assert!(ledger.holders.is_indexed_right());
        ledger.prune(Now { tick: now.tick + 10_000_000 - 1, ..now });
        assert_eq!(ledger.holders.len(), 9);
    }
    ledger.prune(at(60_000));
    assert!(ledger.holders.is_empty(), "and no more than that");
}

#[test]
fn an_inner_release_extends_and_never_shortens() {
    let mut ledger = Ledger::default();
    ledger.tries(1, Kind::Lock, at(0));
    let inner = |lease| Claim { lease, ..claim(1, Kind::Lock) };
    assert_eq!(ledger.release(&inner(LEASE), 1, at(4_000)), Released::Freed);
    assert!(!granted(ledger.tries(2, Kind::Lock, at(13_999))), "a lease from the inner release");
    assert_eq!(ledger.release(&inner(Duration::from_secs(1)), 1, at(4_100)), Released::Freed);
    assert!(!granted(ledger.tries(2, Kind::Lock, at(13_999))), "nothing was taken away");
    assert!(granted(ledger.tries(2, Kind::Lock, at(14_000))));
}
