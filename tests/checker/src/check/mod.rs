//! The checks. Each is a sweep over the events of one name, in the order of their times, so that the cost grows with the
//! length of the history and not with the number of its possible orders.
//!
//! **Why nothing is reported that is no violation.** A check uses only what must be true whatever happened between the
//! events. A hold is *certain* from the answer of its acquire to the last moment for which its guard said held: the
//! clock is read before the guard is asked, and a guard that is lost stays lost, so it was held at that moment, too. A
//! grant of which nobody asked anything is certain at no time. A release that answered *released* was called while it
//! was held, since a guard that is over by then answers *lost*. So two certain intervals that overlap are two guards
//! that were both held at one moment. Conversely a hold *may* be there from the call to the answer of its release, or to
//! the end of its lease where that answer is missing or unknown; only outside of all these a name counts as free. A
//! call without an answer, or with an unknown one, is certain of nothing: it excludes nobody, and frees nothing early.
//!
//! **What cannot be seen.** Overlaps that end before either guard was asked; a store that lets somebody in while the
//! holder is paused and asks nothing until its lease is over; wrong orders of grants that were called at the same time;
//! stalls of less than the bound; a wake-up that is lost and made up for by the poll cap, which is promised. Who asks
//! the guards more often sees more.

mod calls;
mod fences;
mod latch;
mod leftovers;
mod order;
mod overlap;
mod permits;
mod register;
mod stalls;
mod terms;

use crate::conditions::Conditions;
use crate::event::Answer;
use crate::expect::Expectations;
use crate::history::History;
use crate::joined::{Entry, Joined, Outcome};
use crate::report::{Check, Report, Violation};

/// What the checks read.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) joined: Joined<'a>,
    pub(crate) conditions: Conditions,
    pub(crate) expected: &'a Expectations,
}

impl<'a> Context<'a> {
    fn entry(&self, at: usize) -> &Entry<'a> {
        &self.joined.entries[at]
    }

    /// The entries of each name.
    fn names(&self) -> impl Iterator<Item = (&'a str, &[usize])> {
        self.joined.names.iter().copied().zip(self.joined.of_name.iter().map(Vec::as_slice))
    }
}

/// Judges a history.
///
/// ```
/// use checker::{Acquire, Answer, Call, Check, Event, Expectations, Granted, History, Kind, Store, Wait, What, check};
///
/// let acquire = |process, at| {
///     let call = Call::Acquire(Acquire {
///         name: "orders/42".into(), kind: Kind::Lock, owner: None, wait: Wait::Try, lease: None, least: None,
///     });
///     Event { at, process, what: What::Call { op: 1, worker: 0, call } }
/// };
/// let granted = |process, at, fence| {
///     let answer = Answer::Granted(Granted { fence: Some(fence), hold: None, remaining: Some(1_000) });
///     Event { at, process, what: What::Answer { op: 1, answer } }
/// };
/// let held = |process, at| Event { at, process, what: What::Held { of: 1 } };
/// let history = History::new(vec![
///     acquire(1, 10), granted(1, 20, 33), held(1, 50),
///     acquire(2, 30), granted(2, 40, 34), held(2, 60),
/// ]);
///
/// let report = check(&history, &Expectations::of(Store::Redis));
/// let overlap = report.of(Check::Overlap).expect("two hold it");
/// assert_eq!(overlap.span, (40, 50));
/// ```
pub fn check(history: &History, expected: &Expectations) -> Report {
    let joined = Joined::new(history);
    let conditions = Conditions::new(&joined, expected);
    let mut report = Report { events: history.events().len(), ..Report::default() };
    count(&joined, &mut report);
    let context = Context { joined, conditions, expected };
    for (at, id, text) in &context.joined.contradictions {
        report.violations.push(Violation {
            check: Check::Log,
            name: String::new(),
            span: (*at, *at),
            ops: vec![*id],
            text: format!("{id}: {text}"),
        });
    }
    for (at, process, message) in &context.joined.panics {
        report.violations.push(Violation {
            check: Check::Panic,
            name: String::new(),
            span: (*at, *at),
            ops: Vec::new(),
            text: format!("process {process} panicked: {message}"),
        });
    }
    for one in [
        overlap::check,
        permits::check,
        fences::check,
        register::check,
        calls::check,
        stalls::check,
        order::check,
        latch::check,
        terms::check,
        leftovers::check,
    ] {
        one(&context, &mut report);
    }
    report
}

fn count(joined: &Joined<'_>, report: &mut Report) {
    report.operations = joined.entries.len() + joined.others.len();
    for entry in &joined.entries {
        match entry.outcome {
            Outcome::Granted => report.grants += 1,
            Outcome::Busy | Outcome::TimedOut => report.refused += 1,
            Outcome::Failed => report.failed += 1,
            Outcome::Unknown | Outcome::Pending => report.unknown += 1,
        }
    }
    for other in &joined.others {
        match other.answer {
            None | Some((_, Answer::Unknown { .. })) => report.unknown += 1,
            Some((_, Answer::Unavailable { .. } | Answer::Refused { .. })) => report.failed += 1,
            _ => {}
        }
    }
}
