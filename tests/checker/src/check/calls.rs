//! What each call and each guard promises for itself: lost stays lost, limits are kept, and a store that cannot answer is
//! neither free nor busy.

use super::Context;
use super::overlap::described;
use crate::event::Wait;
use crate::joined::{Ending, Entry, Outcome};
use crate::report::{Check, Report, Violation, seconds};

/// Every limit is at least this long.
const SHORTEST: u64 = 200_000_000;

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for at in 0..context.joined.entries.len() {
        let faults = [
            revived(context, at),
            outlives_lease(context, at),
            unanswerable(context, at),
            early(context, at),
        ];
        report.violations.extend(faults.into_iter().flatten());
        overrun(context, at, report);
    }
}

fn fault(context: &Context<'_>, at: usize, check: Check, span: (u64, u64), what: String) -> Violation {
    let entry = context.entry(at);
    let text = format!("{} {what}", described(context, at));
    Violation { check, name: context.joined.names[entry.name].to_owned(), span, ops: vec![entry.id], text }
}

/// Held, after the guard had said that it was not, or after its release.
fn revived(context: &Context<'_>, at: usize) -> Option<Violation> {
    let entry = context.entry(at);
    let held = entry.held?;
    let released = match entry.ending {
        Ending::Released { answered, .. } => Some(answered),
        _ => None,
    };
    let over = [entry.not_held, released].into_iter().flatten().min().filter(|over| *over < held)?;
    let text = format!("says held {} after it was over", seconds(held - over));
    Some(fault(context, at, Check::Revived, (over, held), text))
}

/// Held for longer than a fixed lease. One of a named owner may be extended by an entry with a longer one.
fn outlives_lease(context: &Context<'_>, at: usize) -> Option<Violation> {
    let entry = context.entry(at);
    let end = entry.answered? + entry.lease.filter(|_| !entry.owner_is_named)?;
    let held = entry.held.filter(|held| *held > end)?;
    let text = format!("says held {} after the end of its lease", seconds(held - end));
    Some(fault(context, at, Check::Revived, (end, held), text))
}

/// Granted while nothing can be granted, or busy while nothing can be answered. An entry into a hold may be granted
/// without the store, and so may a hold that is passed on.
fn unanswerable(context: &Context<'_>, at: usize) -> Option<Violation> {
    let entry = context.entry(at);
    let span = (entry.called, entry.answered?);
    let needs_no_store = || entry.owner_is_named || context.joined.was_passed_on(entry);
    let is_in = |out: &crate::conditions::Out| out.covers(entry.id.process, span.0, span.1);
    let what = match entry.outcome {
        Outcome::Granted if is_in(&context.conditions.unavailable) && !needs_no_store() => "was granted",
        Outcome::Busy | Outcome::TimedOut if is_in(&context.conditions.silent) => "was answered busy",
        _ => return None,
    };
    Some(fault(context, at, Check::Unavailable, span, format!("{what} while the store could not")))
}

/// How long a call went on, without the times in which its process stood still.
fn elapsed(context: &Context<'_>, entry: &Entry<'_>, to: u64) -> u64 {
    let Some(process) = context.joined.processes.get(&entry.id.process) else { return to - entry.called };
    process.paused.gaps(entry.called, to).iter().map(|(from, to)| to - from).sum()
}

/// Timed out before its limit. A hundredth is for the granularity of timers.
fn early(context: &Context<'_>, at: usize) -> Option<Violation> {
    let entry = context.entry(at);
    let Wait::For(limit) = entry.wait else { return None };
    let answered = entry.answered.filter(|_| entry.outcome == Outcome::TimedOut)?;
    let took = answered - entry.called;
    let is_early = took + limit / 100 + 2_000_000 < limit;
    let text = || format!("timed out after {} of {}", seconds(took), seconds(limit));
    is_early.then(|| fault(context, at, Check::Limit, (entry.called, answered), text()))
}

/// Not ended at its limit.
fn overrun(context: &Context<'_>, at: usize, report: &mut Report) {
    let entry = context.entry(at);
    let Wait::For(limit) = entry.wait else { return };
    let gone = context.joined.processes.get(&entry.id.process).and_then(|process| process.end());
    let to = entry.answered.or(gone).unwrap_or(context.joined.end);
    let over = elapsed(context, entry, to.max(entry.called)).saturating_sub(limit.max(SHORTEST));
    report.overrun = report.overrun.max(over);
    if over > context.expected.timing.slack {
        let text = format!("goes on for {} after its limit of {}", seconds(over), seconds(limit));
        report.violations.push(fault(context, at, Check::Limit, (entry.called, to), text));
    }
}
