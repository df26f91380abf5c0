//! Fences: each hold has a larger one than every hold of the name that was granted before it.
//!
//! That a hold was granted before another is certain if its acquire answered before the other was called. Where
//! exclusion is promised all the time, more is: a hold that was granted beside others that exclude it, and answered
//! after they ended, was granted after they ended. An entry into a hold that its owner has already is no grant: it has
//! the fence of that hold.

use std::collections::HashMap;

use super::Context;
use super::overlap::described;
use crate::event::Kind;
use crate::joined::{Ending, Entry};
use crate::model::Model;
use crate::report::{Check, Report, Violation};

/// Whether it lacks a fence. A grant to another library has none, and no hold id either.
fn is_without(entry: &Entry<'_>) -> bool {
    entry.fence.is_none() && entry.hold.is_some()
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    if !context.expected.store.has_fences() {
        return;
    }
    for (name, entries) in context.names() {
        let granted: Vec<usize> =
            entries.iter().copied().filter(|at| context.entry(*at).is_granted()).collect();
        for at in granted.iter().filter(|at| is_without(context.entry(**at))) {
            fault(context, report, name, [*at, *at], format!("{} has none", described(context, *at)));
        }
        let fenced = granted.into_iter().filter(|at| context.entry(*at).fence.is_some()).collect();
        let holds = holds(context, report, name, fenced);
        order(context, report, name, &holds);
    }
}

/// Leaves out the entries into holds that their owners had already.
fn holds(context: &Context<'_>, report: &mut Report, name: &str, fenced: Vec<usize>) -> Vec<usize> {
    let mut of_owner: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut holds = Vec::new();
    for at in fenced {
        let entry = context.entry(at);
        if !entry.owner_is_named || !Model::of(entry.kind, context.expected.store).reenters {
            holds.push(at);
            continue;
        }
        let others = of_owner.entry(entry.owner).or_default();
        others.retain(|other| !is_over(context.entry(*other), entry.called));
        let is_inside = |other: &&usize| is_inside(entry, context.entry(**other));
        if let Some(outer) = others.iter().find(is_inside)
            && context.entry(*outer).fence != entry.fence
            // Its record may have been evicted. Then a larger one is drawn.
            && !context.conditions.excuses(name, entry.called)
        {
            let text = format!("{} enters {} again", described(context, at), described(context, *outer));
            fault(context, report, name, [*outer, at], text);
        }
        if !others.iter().any(|other| context.entry(*other).fence == entry.fence) {
            holds.push(at);
        }
        others.push(at);
    }
    holds
}

/// Whether nothing was left of it at `time`, so that its owner can only have entered a new hold.
fn is_over(entry: &Entry<'_>, time: u64) -> bool {
    match entry.ending {
        Ending::Released { answered, .. } | Ending::Freed { answered } => answered <= time,
        Ending::Lost { seen } => seen <= time,
        _ => false,
    }
}

/// Whether `outer` was held all the time while `entry` was acquired, as something that it is a part of.
fn is_inside(entry: &Entry<'_>, outer: &Entry<'_>) -> bool {
    let is_part = entry.kind == outer.kind || (entry.kind == Kind::Read && outer.kind == Kind::Write);
    let covers = |(from, to)| from <= entry.called && entry.answered.is_some_and(|answered| answered <= to);
    is_part && outer.certain().is_some_and(covers)
}

fn order(context: &Context<'_>, report: &mut Report, name: &str, holds: &[usize]) {
    let mut answered: Vec<(u64, usize)> =
        holds.iter().filter_map(|at| Some((context.entry(*at).answered?, *at))).collect();
    answered.sort_unstable();
    let mut earliest = earliest(context, &answered);
    earliest.sort_unstable();

    let mut seen: HashMap<u64, usize> = HashMap::new();
    let (mut next, mut largest): (usize, Option<(u64, usize)>) = (0, None);
    for (from, at) in earliest {
        while let Some((_, before)) = answered.get(next).filter(|(time, _)| *time < from) {
            largest = largest.max(context.entry(*before).fence.map(|fence| (fence, *before)));
            next += 1;
        }
        let Some(fence) = context.entry(at).fence else { continue };
        if let Some((_, before)) = largest.filter(|(largest, _)| *largest >= fence) {
            let text = format!("{} was granted after {}", described(context, at), described(context, before));
            fault(context, report, name, [before, at], text);
        } else if let Some(other) = seen.insert(fence, at) {
            let text = format!("{} and {} have the same", described(context, other), described(context, at));
            fault(context, report, name, [other, at], text);
        }
    }
}

/// The earliest time at which each hold can have been granted.
fn earliest(context: &Context<'_>, answered: &[(u64, usize)]) -> Vec<(u64, usize)> {
    let is_strict = context.conditions.is_strict;
    let mut ends: Vec<(u64, usize)> = Vec::new();
    if is_strict {
        let certain = answered.iter().filter_map(|(_, at)| Some((context.entry(*at).certain()?.1, *at)));
        ends.extend(certain);
        ends.sort_unstable();
    }
    let (mut next, mut all, mut exclusive) = (0, Latest::default(), Latest::default());
    let earliest = answered.iter().map(|(time, at)| {
        let entry = context.entry(*at);
        while let Some((end, before)) = ends.get(next).filter(|(end, _)| end <= time) {
            let before = context.entry(*before);
            all.add(*end, before.owner);
            if !before.kind.is_shared() {
                exclusive.add(*end, before.owner);
            }
            next += 1;
        }
        let excluding = match entry.kind {
            Kind::Permits { .. } => None,
            Kind::Read => exclusive.before(entry.owner),
            _ => all.before(entry.owner),
        };
        // Only if it was still held when it answered: else it may have been granted, and over, before them.
        let excluding = excluding.filter(|_| entry.certain().is_some());
        (excluding.map_or(entry.called, |end| end.max(entry.called)), *at)
    });
    earliest.collect()
}

/// The latest end so far, and the latest of another owner.
#[derive(Default)]
struct Latest {
    last: Option<(u64, usize)>,
    of_another: Option<(u64, usize)>,
}

impl Latest {
    fn add(&mut self, end: u64, owner: usize) {
        if self.last.is_some_and(|(_, last)| last != owner) {
            self.of_another = self.last;
        }
        self.last = Some((end, owner));
    }

    fn before(&self, owner: usize) -> Option<u64> {
        let of_another = if self.last?.1 == owner { self.of_another } else { self.last };
        of_another.map(|(end, _)| end)
    }
}

fn fault(context: &Context<'_>, report: &mut Report, name: &str, both: [usize; 2], text: String) {
    let [first, second] = both.map(|at| context.entry(at));
    let span = (first.answered.unwrap_or(first.called), second.answered.unwrap_or(second.called));
    let span = (span.0.min(span.1), span.0.max(span.1));
    if context.conditions.may_lose_fences(first.called.min(second.called), span.1) {
        return;
    }
    let mut ops = vec![first.id, second.id];
    ops.dedup();
    report.violations.push(Violation { check: Check::Fence, name: name.to_owned(), span, ops, text });
}
