//! Numbers: latches, counting semaphores, sizes of semaphores. Each operation is applied once per id.
//!
//! With each operation a client sends the number below which all of its operations have been answered. So only
//! operations that may be repeated are remembered: as many as the client has in flight.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Expiry, Ledger, Now};
use crate::backend::{ClientId, CountOp, CountReply, Counter, Family, Name, OpId, Result};

/// A number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// What it counts.
    pub of: Counter,
    /// The number.
    pub value: i64,
    /// Its identity, which differs from that of a later one with the same name.
    pub born: u64,
}

/// The operations of one client that may be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ops {
    client: ClientId,
    settled: u64,
    done: Vec<Done>,
    expiry: Expiry,
}

impl Ops {
    /// How many outcomes are remembered.
    #[cfg(test)]
    pub(crate) fn outcomes(&self) -> usize {
        self.done.len()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Done {
    n: u64,
    took: u64,
    reply: CountReply,
}

/// How long the operations of a client are remembered after its last one.
const REMEMBERED: Duration = Duration::from_secs(600);

impl Ledger {
    /// Reads or changes a number, once per `id`.
    ///
    /// # Errors
    /// `Config` if the name is in use as another kind, or if its data are damaged.
    pub fn count(&mut self, name: &Name, of: Counter, op: CountOp, id: OpId, now: Now) -> Result<CountReply> {
        self.prune(now);
        self.clash(
            name,
            match of {
                Counter::Latch => Family::Latch,
                Counter::Semaphore => Family::Count,
                Counter::Size => Family::Permit,
            },
        )?;
        if op == CountOp::Get {
            return Ok(self.reading(of));
        }
        self.check_numbers(name)?;
        let known = self.known(id, now);
        if id.n < self.ops[known].settled {
            // A repeat of an operation answered long ago: nobody waits for this reply.
            return Ok(CountReply { applied: false, ..self.reading(of) });
        }
        if let Some(done) = self.ops[known].done.iter().find(|d| d.n == id.n) {
            return Ok(done.reply);
        }
        let reply = match op {
            CountOp::Undo(n) => self.undo(of, known, n),
            _ => self.apply(of, op, now),
        };
        let took = match op {
            CountOp::TakeIfAtLeast(n) if reply.applied => n,
            _ => 0,
        };
        self.ops[known].done.push(Done { n: id.n, took, reply });
        self.effects.dirty = true;
        if reply.before != reply.after {
            // Waiters for a latch are only woken when it opens, not at each step.
            let step = of == Counter::Latch && reply.before.is_some() && reply.after.is_some();
            self.effects.count |= !step;
            self.effects.open |= of == Counter::Latch && reply.after.is_none();
            if of == Counter::Size {
                self.admit_next();
            }
        }
        Ok(reply)
    }

    fn reading(&self, of: Counter) -> CountReply {
        let value = match of {
            Counter::Size => self.size.map(i64::from),
            _ => self.count.as_ref().map(|c| c.value),
        };
        let born = self.count.as_ref().map_or(0, |c| c.born);
        CountReply { applied: true, before: value, after: value, born }
    }

    fn apply(&mut self, of: Counter, op: CountOp, now: Now) -> CountReply {
        let old = self.reading(of);
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        // The number after the operation, or `None` if the operation does not apply.
        let after: Option<Option<i64>> = match (op, old.before) {
            (CountOp::Init(n), None) if of == Counter::Latch && n == 0 => None,
            (CountOp::Init(n), None) | (CountOp::Set(n), _) => Some(Some(number(n))),
            (CountOp::Init(_), Some(_)) => None,
            (CountOp::Add(_), None) if of == Counter::Latch => None,
            (CountOp::Add(n), v) => {
                let sum = v.unwrap_or(0).saturating_add(n);
                Some(if of == Counter::Latch && sum <= 0 { None } else { Some(sum) })
            }
            (CountOp::TakeIfAtLeast(n), Some(v)) if v >= number(n) => Some(Some(v - number(n))),
            (CountOp::TakeIfAtLeast(_), _) => None,
            (CountOp::Drain, Some(v)) if v > 0 => Some(Some(0)),
            (CountOp::Delete, Some(_)) => Some(None),
            (CountOp::Drain | CountOp::Delete | CountOp::Get | CountOp::Undo(_), _) => None,
        };
        let Some(after) = after else { return CountReply { applied: false, ..old } };
        let mut born = old.born;
        match of {
            Counter::Size => {
                (self.size, self.idle) = (after.map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX)), None);
            }
            _ => {
                if old.before.is_none() {
                    born = now.wall.max(self.fence + 1);
                    self.fence = born;
                }
                self.count = after.map(|value| Count { of, value, born });
            }
        }
        CountReply { applied: true, before: old.before, after, born }
    }

    fn undo(&mut self, of: Counter, known: usize, n: u64) -> CountReply {
        let ops = &mut self.ops[known];
        let took = match ops.done.iter_mut().find(|d| d.n == n) {
            Some(done) => std::mem::take(&mut done.took),
            None => {
                // It has not arrived yet: when it does, it finds that it has already failed.
                let reply = CountReply { applied: false, before: None, after: None, born: 0 };
                ops.done.push(Done { n, took: 0, reply });
                0
            }
        };
        let before = self.reading(of);
        if let Some(count) = &mut self.count {
            count.value = count.value.saturating_add(i64::try_from(took).unwrap_or(i64::MAX));
        }
        CountReply { applied: took > 0, before: before.before, ..self.reading(of) }
    }

    /// Returns the index of the client's operations, after removing the settled ones.
    fn known(&mut self, id: OpId, now: Now) -> usize {
        let at = self.ops.iter().position(|o| o.client == id.client).unwrap_or_else(|| {
            let expiry = Expiry::new(now, REMEMBERED);
            self.ops.push(Ops { client: id.client, settled: 0, done: Vec::new(), expiry });
            self.ops.len() - 1
        });
        let ops = &mut self.ops[at];
        ops.settled = ops.settled.max(id.settled);
        ops.expiry.extend(now, REMEMBERED);
        let settled = ops.settled;
        ops.done.retain(|d| d.n >= settled);
        at
    }

    pub(super) fn prune_ops(&mut self, now: Now) -> bool {
        let mut dirty = false;
        self.ops.retain_mut(|o| {
            dirty |= o.expiry.adopt(now, REMEMBERED);
            let alive = !o.expiry.is_over(now);
            dirty |= !alive;
            alive
        });
        dirty
    }
}
