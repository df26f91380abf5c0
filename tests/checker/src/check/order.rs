//! Fair order: nobody who comes later is served before somebody who waits.
//!
//! When a waiter is in the queue of the store cannot be told from its call, which may be on the way for long. It is if
//! the log says so (`queued`), or if it has waited for the slack, and no fault has been active since its call: a fault
//! may cost it its position. Those who are called after that moment and answered before the waiter have overtaken it.
//! For each waiter they are counted in a tree, not one by one. Entries of named owners do not count: who is inside may
//! enter again. Nor do two readers, who enter together.

use super::Context;
use super::overlap::described;
use crate::event::Wait;
use crate::joined::Outcome;
use crate::model::Model;
use crate::report::{Check, Report, Violation};

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for (name, entries) in context.names() {
        let ordered: Vec<usize> = entries
            .iter()
            .copied()
            .filter(|at| Model::of(context.entry(*at).kind, context.expected.store).ordered)
            .collect();
        let mut waiters: Vec<(u64, u64, usize)> =
            ordered.iter().filter_map(|at| waiter(context, *at)).collect();
        waiters.sort_unstable_by(|a, b| b.cmp(a));
        let served: Vec<usize> = ordered
            .into_iter()
            .filter(|at| context.entry(*at).is_granted() && !context.entry(*at).owner_is_named)
            .collect();
        let mut times: Vec<u64> = served.iter().filter_map(|at| context.entry(*at).answered).collect();
        times.sort_unstable();
        times.dedup();
        let (mut all, mut exclusive) = (Counts::new(times.len()), Counts::new(times.len()));
        // Entries are in the order of their calls: the latest ones first.
        let mut later = served.iter().rev().peekable();
        for (arrived, answered, at) in waiters {
            while let Some(other) = later.next_if(|other| context.entry(**other).called > arrived) {
                let other = context.entry(*other);
                let time = times.partition_point(|time| Some(*time) < other.answered);
                all.add(time);
                if !other.kind.is_shared() {
                    exclusive.add(time);
                }
            }
            let before = times.partition_point(|time| *time < answered);
            let is_shared = context.entry(at).kind.is_shared();
            let overtakers = if is_shared { exclusive.below(before) } else { all.below(before) };
            if overtakers > context.expected.overtakers {
                let by = served.iter().find(|other| {
                    let other = context.entry(**other);
                    other.called > arrived
                        && other.answered.is_some_and(|time| time < answered)
                        && !(is_shared && other.kind.is_shared())
                });
                let ops = [Some(&at), by].into_iter().flatten().map(|at| context.entry(*at).id).collect();
                let text = format!("{} was overtaken by {overtakers}", described(context, at));
                let (name, span) = (name.to_owned(), (arrived, answered));
                report.violations.push(Violation { check: Check::Overtaken, name, span, ops, text });
            }
        }
    }
}

/// When a waiter was certainly in the queue, and when it was served.
fn waiter(context: &Context<'_>, at: usize) -> Option<(u64, u64, usize)> {
    let entry = context.entry(at);
    let served = match entry.outcome {
        Outcome::Granted => entry.answered?,
        Outcome::Pending if context.joined.processes.get(&entry.id.process)?.end().is_none() => {
            context.joined.end
        }
        _ => return None,
    };
    let arrived = entry.queued.unwrap_or(entry.called + context.expected.timing.slack);
    let is_calm = !context.conditions.faulty.touches(entry.called, served);
    (is_calm && entry.wait != Wait::Try && arrived < served).then_some((arrived, served, at))
}

/// How many were added below an index, in logarithmic time.
struct Counts(Vec<u32>);

impl Counts {
    fn new(len: usize) -> Self {
        Self(vec![0; len + 1])
    }

    fn add(&mut self, index: usize) {
        let mut at = index + 1;
        while at < self.0.len() {
            self.0[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn below(&self, index: usize) -> u32 {
        let (mut at, mut sum) = (index, 0);
        while at > 0 {
            sum += self.0[at];
            at &= at - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_sums() {
        let mut counts = Counts::new(10);
        [3, 0, 9, 3].into_iter().for_each(|at| counts.add(at));
        let below: Vec<u32> = (0..=10).map(|at| counts.below(at)).collect();
        assert_eq!(below, [0, 1, 1, 1, 3, 3, 3, 3, 3, 3, 4]);
    }
}
