//! Permits: those that are certainly held are never more than the semaphore has.
//!
//! Of the holds inside at one moment, one was granted last, and then all of them were counted against the size that was
//! in force. Which one that was is not known, nor exactly when; so the sum is compared with the largest size that may
//! have been in force while any of them was acquired.

use std::collections::BTreeMap;

use super::Context;
use super::overlap::{Step, described, steps};
use crate::event::{Answer, Call, Kind};
use crate::report::{Check, Report, Violation};

/// A resize: when it was called, and when it was certainly in force.
#[derive(Clone, Copy)]
pub(super) struct Resize {
    called: u64,
    done: Option<u64>,
    to: u32,
}

/// The sizes that a name may have.
pub(super) struct Sizes {
    /// The largest limit that the code names: the first one is stored.
    declared: u32,
    resizes: Vec<Resize>,
}

impl Sizes {
    pub(super) fn of(context: &Context<'_>, name: &str, entries: &[usize]) -> Self {
        let limits = entries.iter().filter_map(|at| match context.entry(*at).kind {
            Kind::Permits { limit, .. } => Some(limit),
            _ => None,
        });
        let resizes = context.joined.others_on(name).filter_map(|other| match (other.call, other.answer) {
            (_, Some((_, Answer::Unavailable { .. } | Answer::Refused { .. }))) => None,
            (Call::Resize { to, .. }, answer) => {
                let done = answer.filter(|(_, answer)| matches!(answer, Answer::Done { .. }));
                Some(Resize { called: other.called, done: done.map(|(at, _)| at), to: *to })
            }
            _ => None,
        });
        Self { declared: limits.max().unwrap_or(0), resizes: resizes.collect() }
    }

    /// The largest size that may have been in force between these times.
    fn most(&self, from: u64, to: u64) -> u32 {
        let settled = self.resizes.iter().filter(|r| r.done.is_some_and(|done| done < from));
        let last = settled.max_by_key(|resize| resize.called);
        let since = last.map_or(0, |last| last.called);
        let possible =
            self.resizes.iter().filter(|r| r.called <= to && r.done.is_none_or(|done| done >= since));
        let declared = if last.is_none() { self.declared } else { 0 };
        possible.map(|resize| resize.to).max().unwrap_or(0).max(declared)
    }

    /// The smallest size that it may ever have.
    pub(super) fn least(&self, limits: impl Iterator<Item = u32>) -> u32 {
        limits.chain(self.resizes.iter().map(|resize| resize.to)).min().unwrap_or(0)
    }
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for (name, entries) in context.names() {
        if entries.first().is_none_or(|at| !matches!(context.entry(*at).kind, Kind::Permits { .. })) {
            continue;
        }
        let sizes = Sizes::of(context, name, entries);
        let mut inside: BTreeMap<usize, u32> = BTreeMap::new();
        let mut limits: BTreeMap<u32, u32> = BTreeMap::new();
        let mut sum = 0;
        for (at, step, of) in steps(context, entries, |kind| matches!(kind, Kind::Permits { .. })) {
            let entry = context.entry(of);
            let Kind::Permits { n, .. } = entry.kind else { continue };
            let limit = sizes.most(entry.called, entry.answered.unwrap_or(at));
            if step == Step::End {
                sum -= n;
                inside.remove(&of);
                if let Some(count) = limits.get_mut(&limit) {
                    *count -= 1;
                    if *count == 0 {
                        limits.remove(&limit);
                    }
                }
                continue;
            }
            let most = limits.last_key_value().map_or(limit, |(most, _)| limit.max(*most));
            if sum + n > most {
                let ops = inside.keys().chain([&of]).map(|at| context.entry(*at).id).collect();
                let text = format!("{} makes {} of {most}", described(context, of), sum + n);
                let span = (at, entry.certain().map_or(at, |(_, to)| to));
                let found = Violation { check: Check::Overlap, name: name.to_owned(), span, ops, text };
                match context.conditions.excuses(name, at) {
                    true => report.overlaps.push(found),
                    false => report.violations.push(found),
                }
            }
            if step == Step::Begin {
                sum += n;
                inside.insert(of, n);
                *limits.entry(limit).or_default() += 1;
            }
        }
    }
}
