//! Operations on counts that arrive late, in a store that keeps what a change calls worth writing.

use super::*;

/// A ledger in a store.
struct Stored(Ledger);

impl Stored {
    /// Changes the count and returns whether that was applied. What is not to be written is lost.
    fn count(&mut self, by: u8, op: CountOp, n: u64) -> bool {
        let mut ledger = self.0.clone();
        let id = OpId { client: client(by), n, settled: n };
        let reply = ledger.count(&name(), Counter::Semaphore, op, id, at(0)).unwrap();
        if std::mem::take(&mut ledger.effects).dirty {
            self.0 = ledger;
        }
        reply.applied
    }

    fn value(&self) -> i64 {
        self.0.count.as_ref().unwrap().value
    }
}

/// Whoever sent it has been told that it got nothing, so nobody would give back what the copy takes.
#[test]
fn a_late_copy_of_a_refused_take_takes_nothing() {
    let mut stored = Stored(Ledger::default());
    stored.count(1, CountOp::Set(0), 1);
    assert!(!stored.count(2, CountOp::TakeIfAtLeast(1), 1));
    stored.count(1, CountOp::Add(1), 2);
    assert!(!stored.count(2, CountOp::TakeIfAtLeast(1), 1), "the copy finds the answer");
    // Its client has gone on, and was refused again.
    assert!(!stored.count(2, CountOp::TakeIfAtLeast(9), 2));
    assert!(!stored.count(2, CountOp::TakeIfAtLeast(1), 1), "the copy is of an operation that is settled");
    assert_eq!(stored.value(), 1);
    // The same for one that is undone before it arrives.
    assert!(!stored.count(2, CountOp::Undo(3), 4));
    assert!(!stored.count(2, CountOp::TakeIfAtLeast(1), 3));
    assert_eq!(stored.value(), 1);
}
