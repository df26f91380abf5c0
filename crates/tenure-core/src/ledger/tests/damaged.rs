//! Data that no store has written.

use super::*;

/// H24. The next fence would be the first again, and an old holder would pass for a new one.
#[test]
fn numbers_that_cannot_grow_are_refused() {
    let damaged = |error: Error| assert!(error.to_string().contains("damaged"), "{error}");
    let mut ledger = Ledger::above(u64::MAX);
    damaged(ledger.attempt(&claim(1, Kind::Lock), &process(), at(0)).unwrap_err());
    let op = OpId { client: client(1), n: 1, settled: 1 };
    damaged(ledger.count(&name(), Counter::Latch, CountOp::Init(3), op, at(0)).unwrap_err());
    assert!(ledger.holders.is_empty() && ledger.count.is_none());

    let mut ledger = Ledger::default();
    for n in [1, 2] {
        ledger.tries(n, Kind::Lock, at(0));
    }
    let first_in_line = ledger.waiters.first().unwrap().clone();
    ledger.waiters.push(Waiter { id: id(3), since: u64::MAX, ..first_in_line });
    damaged(ledger.attempt(&claim(4, Kind::Lock), &process(), at(0)).unwrap_err());
    // What is held can be given up.
    assert_eq!(ledger.release(&claim(1, Kind::Lock), 0, at(1)), Released::Freed);
}
