//! Exclusion: certain intervals of holds that exclude each other do not overlap.
//!
//! One sweep per name over the ends of the intervals. Those inside are kept by owner; whoever comes in is compared with
//! one other owner, not with all, so each hold is reported once at most.

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use crate::event::Kind;
use crate::report::{Check, Report, Violation, seconds};

/// The steps of the sweep at one moment: an interval that ends where another begins does not overlap it, and one of a
/// single moment overlaps those that contain it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    End,
    Moment,
    Begin,
}

/// The steps of the certain intervals of these entries.
pub(super) fn steps(
    context: &Context<'_>,
    entries: &[usize],
    which: fn(Kind) -> bool,
) -> Vec<(u64, Step, usize)> {
    let mut steps = Vec::new();
    for at in entries {
        let entry = context.entry(*at);
        let Some((from, to)) = entry.certain().filter(|_| which(entry.kind)) else { continue };
        if from == to {
            steps.push((from, Step::Moment, *at));
        } else {
            steps.extend([(from, Step::Begin, *at), (to, Step::End, *at)]);
        }
    }
    steps.sort_unstable();
    steps
}

/// Those inside, by owner, each with the end of its interval.
#[derive(Default)]
struct Inside {
    all: BTreeMap<usize, BTreeSet<(u64, usize)>>,
    exclusive: BTreeMap<usize, BTreeSet<(u64, usize)>>,
}

type ByOwner = BTreeMap<usize, BTreeSet<(u64, usize)>>;

impl Inside {
    /// Of the other owners one that excludes it, with the entry that lasts longest.
    fn other(&self, owner: usize, is_shared: bool) -> Option<(u64, usize)> {
        let of = if is_shared { &self.exclusive } else { &self.all };
        of.iter().find(|(other, _)| **other != owner).and_then(|(_, entries)| entries.last()).copied()
    }

    fn change(&mut self, owner: usize, is_shared: bool, change: impl Fn(&mut BTreeSet<(u64, usize)>)) {
        let on = |of: &mut ByOwner| {
            let entries = of.entry(owner).or_default();
            change(entries);
            if entries.is_empty() {
                of.remove(&owner);
            }
        };
        on(&mut self.all);
        if !is_shared {
            on(&mut self.exclusive);
        }
    }
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for (name, entries) in context.names() {
        let mut inside = Inside::default();
        for (at, step, of) in steps(context, entries, |kind| !matches!(kind, Kind::Permits { .. })) {
            let entry = context.entry(of);
            let (owner, is_shared) = (entry.owner, entry.kind.is_shared());
            let end = entry.certain().map_or(at, |(_, to)| to);
            if step == Step::End {
                inside.change(owner, is_shared, |entries| {
                    entries.remove(&(end, of));
                });
                continue;
            }
            if let Some((other_end, other)) = inside.other(owner, is_shared) {
                overlap(context, report, name, (at, end.min(other_end)), [other, of]);
            }
            if step == Step::Begin {
                inside.change(owner, is_shared, |entries| {
                    entries.insert((end, of));
                });
            }
        }
    }
}

fn overlap(context: &Context<'_>, report: &mut Report, name: &str, span: (u64, u64), both: [usize; 2]) {
    let [first, second] = both.map(|at| context.entry(at));
    let text = format!(
        "{} and {} both hold it for {}",
        described(context, both[0]),
        described(context, both[1]),
        seconds(span.1 - span.0),
    );
    let found = Violation {
        check: Check::Overlap,
        name: name.to_owned(),
        span,
        ops: vec![first.id, second.id],
        text,
    };
    match context.conditions.excuses(name, span.0) {
        true => report.overlaps.push(found),
        false => report.violations.push(found),
    }
}

/// An entry for people.
pub(super) fn described(context: &Context<'_>, at: usize) -> String {
    let entry = context.entry(at);
    let kind = match entry.kind {
        Kind::Lock => "lock".to_owned(),
        Kind::Fair => "fair lock".to_owned(),
        Kind::Read => "read".to_owned(),
        Kind::Write => "write".to_owned(),
        Kind::Leader => "leadership".to_owned(),
        Kind::Permits { n, .. } => format!("{n} permits"),
    };
    match entry.fence {
        Some(fence) => format!("{} ({kind}, fence {fence})", entry.id),
        None => format!("{} ({kind})", entry.id),
    }
}
