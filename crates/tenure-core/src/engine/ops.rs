//! Operations on counts in flight, numbered so that a store can distinguish a repeat from a new one.
//!
//! A store remembers the outcomes of a client's operations, starting with the oldest unsettled one. A future that is
//! not polled keeps its operation unsettled for as long as it exists, and the store would have to remember everything
//! that follows. So a client numbers its operations in several series, each with its own id: when too many operations
//! have followed the oldest unsettled one, the next goes to another series. A series is reused once it is settled, so
//! there is at most one more of them than operations abandoned at the same time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::backend::{Chance, ClientId, Error, Name, OpId, Result, Time};
use crate::engine::core::Core;

/// How long an operation may be repeated: stores remember it for ten minutes, and a later repeat might be applied
/// twice.
pub(crate) const REPEATABLE: Duration = Duration::from_secs(9 * 60);

/// How many operations may follow an unsettled one in its series; or twice the number in flight, if that is more.
const SPAN: u64 = 32;

/// The operations of one client.
#[derive(Debug)]
pub(crate) struct Ops(Mutex<Table>);

#[derive(Debug)]
struct Table {
    series: Vec<Series>,
    current: usize,
}

#[derive(Debug)]
struct Series {
    id: ClientId,
    next: u64,
    unsettled: BTreeSet<u64>,
}

impl Series {
    fn new(id: ClientId) -> Self {
        Self { id, next: 1, unsettled: BTreeSet::new() }
    }

    fn settled(&self) -> u64 {
        self.unsettled.first().copied().unwrap_or(self.next)
    }

    fn has_room(&self) -> bool {
        self.next - self.settled() < SPAN.max(2 * self.unsettled.len() as u64)
    }

    fn begin(&mut self) -> u64 {
        let n = self.next;
        self.next += 1;
        self.unsettled.insert(n);
        n
    }
}

impl Ops {
    /// Creates the table. The first series uses the id of the client.
    pub(crate) fn new(client: ClientId) -> Self {
        Self(Mutex::new(Table { series: vec![Series::new(client)], current: 0 }))
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.0.lock().unwrap().series.iter().map(|s| s.unsettled.len()).sum()
    }
}

impl Table {
    fn current(&mut self, chance: &Chance) -> usize {
        if !self.series[self.current].has_room() {
            self.current = self.series.iter().position(Series::has_room).unwrap_or_else(|| {
                self.series.push(Series::new(ClientId::drawn(chance)));
                self.series.len() - 1
            });
        }
        self.current
    }
}

/// An operation on a count in flight. As long as it exists the store remembers its outcome.
pub(crate) struct Op {
    core: Arc<Core>,
    series: usize,
    n: u64,
    begun: Time,
}

impl Op {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        let mut table = core.ops.0.lock().unwrap();
        let series = table.current(core.chance());
        let n = table.series[series].begin();
        Self { core: core.clone(), series, n, begun: core.clock.now() }
    }

    /// Creates an operation that refers to this one, which a store finds only in the same series.
    pub(crate) fn about(&self) -> Self {
        let core = self.core.clone();
        let n = core.ops.0.lock().unwrap().series[self.series].begin();
        let begun = core.clock.now();
        Self { core, series: self.series, n, begun }
    }

    pub(crate) fn number(&self) -> u64 {
        self.n
    }

    fn id(&self) -> OpId {
        let table = self.core.ops.0.lock().unwrap();
        let series = &table.series[self.series];
        let settled = series.unsettled.first().copied().unwrap_or(self.n);
        OpId { client: series.id, n: self.n, settled }
    }

    /// Returns its id, to send or repeat it, as long as stores remember it.
    ///
    /// # Errors
    /// `Unknown` if it is too old.
    pub(crate) fn repeatable(&self, name: &Name) -> Result<OpId> {
        let age = self.core.clock.now().since(self.begun);
        if age < REPEATABLE {
            return Ok(self.id());
        }
        let reason = format!("it was begun {age:?} ago, and might count twice if it were repeated");
        Err(Error::unknown(self.core.backend.info().scheme, format!("count {name}"), reason))
    }

    /// Marks its outcome as no longer needed.
    pub(crate) fn settle(&self) {
        self.core.ops.0.lock().unwrap().series[self.series].unsettled.remove(&self.n);
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{CountOp, Counter};
    use crate::ledger::{Ledger, LedgerStore};
    use crate::{Backend, Client, Memory};

    async fn peek(store: &Memory, name: &Name) -> Ledger {
        store.store().peek(name).await.unwrap().expect("it is there").0
    }

    /// Returns what a store has to remember after `n` operations while `parked` others stay unsettled: outcomes, and
    /// bytes.
    async fn remembered(n: usize, parked: usize) -> (usize, usize) {
        let (store, name) = (Arc::new(Memory::new()), Name::new("seats").unwrap());
        let client = Client::with(store.clone(), crate::engine::Settings::default());
        let core = client.engine.core.clone();
        let mut left_alone = Vec::new();
        for i in 0..n {
            if i % (n / parked) == 0 {
                let op = Op::new(&core);
                store.count(&name, Counter::Semaphore, CountOp::Add(1), op.id()).await.unwrap();
                left_alone.push(op);
            }
            client.counting_semaphore("seats").release(1).await.unwrap();
        }
        assert_eq!(core.ops.in_flight(), parked);
        let ledger = peek(&store, &name).await;
        let all = i64::try_from(n + parked).unwrap();
        assert_eq!(ledger.count.as_ref().unwrap().value, all, "each counted once");
        for op in &left_alone {
            store.count(&name, Counter::Semaphore, CountOp::Add(1), op.id()).await.unwrap();
        }
        let again = peek(&store, &name).await;
        assert_eq!(again.count.unwrap().value, all, "what is left alone is known again");
        let outcomes = ledger.ops.iter().map(crate::ledger::Ops::outcomes).sum();
        (outcomes, serde_json::to_string(&ledger).unwrap().len())
    }

    #[tokio::test]
    async fn a_change_that_is_left_alone_does_not_make_a_store_remember_all_that_follow() {
        let (few, many) = (remembered(500, 1).await, remembered(2000, 1).await);
        println!("outcomes and bytes after 500: {few:?}, after 2000: {many:?}");
        assert_eq!(few.0, many.0);
        // A little more, because the numbers in it have more digits.
        assert!(many.1 < few.1 * 5 / 4);
        let (some, more) = (remembered(2000, 5).await, remembered(2000, 20).await);
        println!("with 5 left alone: {some:?}, with 20: {more:?}");
        assert!(more.0 <= some.0 * 4 && more.1 <= some.1 * 4, "linear in what is in flight");
    }

    #[tokio::test]
    async fn series_are_used_again() {
        let client = Client::new(Memory::new());
        let core = client.engine.core.clone();
        for _ in 0..20 {
            let slow = Op::new(&core);
            for _ in 0..5 * SPAN {
                drop(Op::new(&core));
            }
            drop(slow);
        }
        assert!(core.ops.0.lock().unwrap().series.len() <= 2);
        let many: Vec<_> = (0..10 * SPAN).map(|_| Op::new(&core)).collect();
        let series = core.ops.0.lock().unwrap().series.len();
        assert!(series <= 2, "those that are only many at once have room in one series: {series}");
        drop(many);
    }

    #[tokio::test]
    async fn an_operation_that_stores_have_forgotten_is_not_repeated() {
        let clock = crate::backend::Clock::manual();
        let client = Client::new(Memory::with_clock(clock.clone()));
        let (op, name) = (Op::new(&client.engine.core), Name::new("seats").unwrap());
        assert!(op.repeatable(&name).is_ok());
        clock.advance(REPEATABLE);
        assert!(op.repeatable(&name).unwrap_err().is_unknown());
    }
}
