//! Liveness: how long a free name stands while a worker that runs waits for it.
//!
//! A name is free once nothing can be left in it: releases are confirmed, and what is not has ended with its lease
//! (see `Conditions::occupied`). Somebody waits from the call to the answer, without the times in which its process
//! stands still. A stall ends with the next grant. The part of it that lies within faults is shown; the longest part
//! without any is compared with the bound of the faults whose traces may still be there. So a hold that never ends shows as a stall once its
//! lease would be over, and a lost wake-up if no poll cap makes up for it.
//!
//! Those who only try never wait. They count as waiting while they are refused again and again.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use super::permits::Sizes;
use crate::event::Kind;
use crate::joined::{OpId, Outcome};
use crate::report::{Check, Report, Violation, seconds};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Nothing of it is left.
    Out,
    Granted,
    In,
    Begins,
    Pauses,
    Refused,
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for (name, entries) in context.names() {
        Sweep::new(context, name, entries).run(context, entries, report);
    }
}

struct Sweep<'a> {
    name: &'a str,
    /// The number of permits that there are at least.
    size: u32,
    exclusive: u32,
    shared: u32,
    permits: u32,
    waiting: BTreeSet<(u64, usize)>,
    waiting_exclusive: u32,
    waiting_permits: BTreeMap<u32, u32>,
    /// Since when it is free and somebody waits.
    since: Option<u64>,
    /// The first and the last refused try since it is free.
    refused: Option<(u64, u64)>,
    last_out: Option<OpId>,
}

impl<'a> Sweep<'a> {
    fn new(context: &Context<'_>, name: &'a str, entries: &[usize]) -> Self {
        let limits = || {
            entries.iter().filter_map(|at| match context.entry(*at).kind {
                Kind::Permits { limit, .. } => Some(limit),
                _ => None,
            })
        };
        let size = match limits().next() {
            Some(_) => Sizes::of(context, name, entries).least(limits()),
            None => 0,
        };
        Self {
            name,
            size,
            exclusive: 0,
            shared: 0,
            permits: 0,
            waiting: BTreeSet::new(),
            waiting_exclusive: 0,
            waiting_permits: BTreeMap::new(),
            since: None,
            refused: None,
            last_out: None,
        }
    }

    fn run(mut self, context: &Context<'_>, entries: &[usize], report: &mut Report) {
        for (at, step, of) in steps(context, entries) {
            let entry = context.entry(of);
            match step {
                Step::Out | Step::In => self.occupy(entry.kind, step == Step::In),
                Step::Begins | Step::Pauses => self.wait(entry.called, of, entry.kind, step == Step::Begins),
                Step::Granted => self.end(context, at, report),
                Step::Refused => self.refuse(context, entry.called, at, entry.id, report),
            }
            if step == Step::Out {
                self.last_out = Some(entry.id);
            }
            if self.is_stalled() {
                self.since.get_or_insert(at);
            } else {
                self.end(context, at, report);
            }
        }
        self.end(context, context.joined.end, report);
    }

    fn occupy(&mut self, kind: Kind, is_in: bool) {
        let change = |count: &mut u32, by: u32| *count = if is_in { *count + by } else { *count - by };
        match kind {
            Kind::Permits { n, .. } => change(&mut self.permits, n),
            Kind::Read => change(&mut self.shared, 1),
            _ => change(&mut self.exclusive, 1),
        }
        self.refused = None;
    }

    fn wait(&mut self, called: u64, of: usize, kind: Kind, begins: bool) {
        if begins {
            self.waiting.insert((called, of));
        } else {
            self.waiting.remove(&(called, of));
        }
        match kind {
            Kind::Permits { n, .. } => {
                let count = self.waiting_permits.entry(n).or_default();
                *count = if begins { *count + 1 } else { *count - 1 };
                if *count == 0 {
                    self.waiting_permits.remove(&n);
                }
            }
            Kind::Read => {}
            _ if begins => self.waiting_exclusive += 1,
            _ => self.waiting_exclusive -= 1,
        }
    }

    /// Whether somebody could get in: every waiter for permits, since a large request may rightly keep out a small one;
    /// readers beside others only if no writer waits.
    fn is_stalled(&self) -> bool {
        let most = self.waiting_permits.last_key_value().map_or(0, |(n, _)| *n);
        !self.waiting.is_empty()
            && self.exclusive == 0
            && (self.shared == 0 || self.waiting_exclusive == 0)
            && (most == 0 || self.permits + most <= self.size)
    }

    fn end(&mut self, context: &Context<'_>, at: u64, report: &mut Report) {
        let Some(since) = self.since.take().filter(|since| *since < at) else { return };
        let first = self.waiting.first().map(|(_, of)| context.entry(*of).id);
        let ops = self.last_out.into_iter().chain(first).collect();
        found(context, report, self.name, (since, at), ops);
    }

    fn refuse(&mut self, context: &Context<'_>, called: u64, at: u64, id: OpId, report: &mut Report) {
        if self.exclusive + self.shared + self.permits > 0 {
            return;
        }
        // Two that try at the same time may refuse each other; that is no stall unless it goes on.
        let (first, last) = self.refused.unwrap_or((called, at));
        let first = if called > last + context.expected.timing.poll { called } else { first };
        self.refused = Some((first, at));
        let ops = self.last_out.into_iter().chain([id]).collect();
        found(context, report, self.name, (first, at), ops);
    }
}

/// What happens to a name, in order.
fn steps(context: &Context<'_>, entries: &[usize]) -> Vec<(u64, Step, usize)> {
    let mut steps = Vec::new();
    let joined = &context.joined;
    for at in entries {
        let entry = context.entry(*at);
        if let Some((from, to)) = context.conditions.occupied(joined, entry) {
            steps.push((from, Step::In, *at));
            // What lasts no time goes in first nevertheless.
            steps.push((to.max(from + 1), Step::Out, *at));
        }
        match (entry.outcome, entry.answered) {
            (Outcome::Granted, Some(answered)) => steps.push((answered, Step::Granted, *at)),
            (Outcome::Busy, Some(answered)) => steps.push((answered, Step::Refused, *at)),
            _ => {}
        }
        if entry.wait == crate::Wait::Try {
            continue;
        }
        let process = joined.processes.get(&entry.id.process);
        let end = entry.answered.or(process.and_then(|process| process.end())).unwrap_or(joined.end);
        let gaps = process.map_or_else(
            || vec![(entry.called, end)],
            |process| process.paused.gaps(entry.called, end.max(entry.called)),
        );
        for (from, to) in gaps {
            steps.extend([(from, Step::Begins, *at), (to, Step::Pauses, *at)]);
        }
    }
    steps.retain(|(at, _, _)| *at <= joined.end);
    steps.sort_unstable();
    steps
}

/// Counts a stall, and reports it if the part of it without faults is too long.
pub(super) fn found(
    context: &Context<'_>,
    report: &mut Report,
    name: &str,
    span: (u64, u64),
    ops: Vec<OpId>,
) {
    let conditions = &context.conditions;
    for (from, to) in conditions.faulty.within(span.0, span.1) {
        let nanos = to.min(span.1) - from.max(span.0);
        report.stall_under_faults.or(nanos, name);
    }
    for (from, to) in conditions.faulty.gaps(span.0, span.1) {
        let nanos = to - from;
        report.stall_after_healing.or(nanos, name);
        let bound = conditions.bound(from);
        if nanos > bound {
            let text =
                format!("free for {} while somebody waits; at most {}", seconds(nanos), seconds(bound));
            let (name, ops) = (name.to_owned(), ops.clone());
            report.violations.push(Violation { check: Check::Stall, name, span: (from, to), ops, text });
        }
    }
}
