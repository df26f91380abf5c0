//! Latches: closed until they are counted down, and each count-down takes effect once.
//!
//! A latch is certainly closed from the answer that set it until so many count-downs have been *called* as it has
//! counts, counting those that were on the way when it was set; a deletion may open it, too. It is certainly open once so
//! many have been *answered* that were called after that. In between nothing is certain.

use super::{Context, stalls};
use crate::event::{Answer, Call, Wait};
use crate::joined::{OpId, Other};
use crate::report::{Check, Report, Violation};

/// The calls on one latch, each list in the order of its calls.
#[derive(Default)]
struct Latch<'a> {
    set: Vec<&'a Other<'a>>,
    downs: Vec<&'a Other<'a>>,
    deletes: Vec<&'a Other<'a>>,
    counts: Vec<&'a Other<'a>>,
    waits: Vec<&'a Other<'a>>,
}

/// A time in which a latch has one identity.
struct Closed {
    n: u64,
    set: (u64, u64),
    /// Until when it is certainly closed.
    until: u64,
    /// How many of those that were on the way when it was set may count.
    on_the_way: u64,
}

fn may_have_run(other: &Other<'_>) -> bool {
    !matches!(other.answer, Some((_, Answer::Unavailable { .. } | Answer::Refused { .. })))
}

fn done(other: &Other<'_>) -> Option<(u64, u64)> {
    match other.answer {
        Some((at, Answer::Done { value })) => Some((at, value.unwrap_or(1))),
        _ => None,
    }
}

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    for name in context.joined.others_of.keys() {
        let mut latch = Latch::default();
        for other in context.joined.others_on(name).filter(|other| may_have_run(other)) {
            match other.call {
                Call::SetCount { .. } => latch.set.push(other),
                Call::CountDown { .. } => latch.downs.push(other),
                Call::Delete { .. } => latch.deletes.push(other),
                Call::Count { .. } => latch.counts.push(other),
                Call::Wait { .. } => latch.waits.push(other),
                _ => {}
            }
        }
        let closed = latch.closed(context.joined.end);
        opened_early(name, &latch, &closed, report);
        counted_wrongly(name, &latch, &closed, report);
        left_waiting(context, name, &latch, &closed, report);
    }
}

impl<'a> Latch<'a> {
    /// The times in which it is certainly closed, in order.
    fn closed(&self, end: u64) -> Vec<Closed> {
        let (mut downs, mut deletes) = (OnTheWay::default(), OnTheWay::default());
        let set = self.set.iter().filter_map(|other| match (other.call, done(other)) {
            (Call::SetCount { to, .. }, Some((answered, 1))) => Some((*to, (other.called, answered))),
            _ => None,
        });
        let closed = set.filter_map(|(n, set)| {
            let (before, next) = downs.at(&self.downs, set.0);
            let (deleted, delete) = deletes.at(&self.deletes, set.0);
            let missing = n.checked_sub(before + 1)? as usize;
            let last = self.downs.get(next + missing).map_or(end, |down| down.called);
            let last = last.min(self.deletes.get(delete).map_or(end, |delete| delete.called));
            let is_certain = deleted == 0 && set.1 < last;
            is_certain.then_some(Closed { n, set, until: last, on_the_way: before })
        });
        closed.collect()
    }
}

/// The calls of a list that may take effect after a moment although they were called before it.
#[derive(Default)]
struct OnTheWay<'a> {
    next: usize,
    open: Vec<&'a Other<'a>>,
}

impl<'a> OnTheWay<'a> {
    /// How many, and the place of the first that is called later. Moments are asked for in their order.
    fn at(&mut self, list: &[&'a Other<'a>], moment: u64) -> (u64, usize) {
        while let Some(other) = list.get(self.next).filter(|other| other.called < moment) {
            self.open.push(other);
            self.next += 1;
        }
        let is_unknown = |answer| matches!(answer, &Answer::Unknown { .. });
        self.open.retain(|other| other.answer.is_none_or(|(at, answer)| at >= moment || is_unknown(answer)));
        (self.open.len() as u64, self.next)
    }
}

/// The time in which all of this call lies.
fn around(closed: &[Closed], called: u64, answered: u64) -> Option<&Closed> {
    let before = closed.partition_point(|closed| closed.set.1 <= called);
    closed[..before].last().filter(|closed| answered <= closed.until)
}

fn fault(name: &str, other: &Other<'_>, at: u64, text: String, report: &mut Report) {
    let (name, ops, span) = (name.to_owned(), vec![other.id], (other.called, at));
    report.violations.push(Violation { check: Check::Latch, name, span, ops, text });
}

fn opened_early(name: &str, latch: &Latch<'_>, closed: &[Closed], report: &mut Report) {
    for wait in &latch.waits {
        if let Some((answered, 1)) = done(wait)
            && around(closed, wait.called, answered).is_some()
        {
            fault(name, wait, answered, format!("{} found it open while it was closed", wait.id), report);
        }
    }
}

fn counted_wrongly(name: &str, latch: &Latch<'_>, closed: &[Closed], report: &mut Report) {
    let mut answered: Vec<(u64, u64)> =
        latch.downs.iter().filter_map(|down| Some((done(down)?.0, down.called))).collect();
    answered.sort_unstable();
    for count in &latch.counts {
        let Some((at, value)) = done(count) else { continue };
        let Some(closed) = around(closed, count.called, at) else { continue };
        let first = latch.downs.partition_point(|down| down.called < closed.set.0);
        let called = latch.downs[first..].partition_point(|down| down.called <= at) as u64;
        let least = closed.n.saturating_sub(closed.on_the_way + called);
        let from = answered.partition_point(|(answered, _)| *answered < closed.set.1);
        let to = answered.partition_point(|(answered, _)| *answered <= count.called);
        let certain = answered[from..to.max(from)].iter().filter(|(_, called)| *called >= closed.set.1);
        let most = closed.n - (certain.count() as u64).min(closed.n);
        if !(least..=most).contains(&value) {
            let text = format!("{} read {value}, not {least} to {most}", count.id);
            fault(name, count, at, text, report);
        }
    }
}

/// Those who still wait after it has certainly opened. Who may have looked only after that is not owed an end once a new
/// count may be set: it waits for that one.
fn left_waiting(
    context: &Context<'_>,
    name: &str,
    latch: &Latch<'_>,
    closed: &[Closed],
    report: &mut Report,
) {
    let mut opened: Vec<(u64, u64, OpId)> = latch
        .deletes
        .iter()
        .filter_map(|delete| {
            done(delete).filter(|(_, did)| *did == 1).map(|(at, _)| (at, delete.called, delete.id))
        })
        .collect();
    for closed in closed {
        let first = latch.downs.partition_point(|down| down.called < closed.set.1);
        let next = latch.set.partition_point(|set| set.called <= closed.set.0);
        let next = latch.set.get(next).map_or(u64::MAX, |set| set.called);
        let downs = latch.downs[first..].iter().take_while(|down| down.called < next);
        let done = downs.filter_map(|down| Some((done(down)?.0, down.called, down.id)));
        // Those that may have run without an answer only open it earlier.
        let mut done: Vec<(u64, u64, OpId)> = done.take(closed.n as usize).collect();
        done.sort_unstable();
        if done.len() as u64 == closed.n {
            opened.extend(done.last());
        }
    }
    opened.sort_unstable();
    for wait in &latch.waits {
        let limit = match wait.call {
            Call::Wait { wait: Wait::For(limit), .. } => wait.called.saturating_add(*limit),
            _ => u64::MAX,
        };
        let gone = context.joined.processes.get(&wait.id.process).and_then(|process| process.end());
        let to = wait.answer.map(|(at, _)| at).or(gone).unwrap_or(context.joined.end).min(limit);
        let first = opened.partition_point(|(at, ..)| *at < wait.called);
        let Some((at, called, by)) = opened.get(first) else { continue };
        let is_known = wait.called + context.expected.timing.slack <= *called;
        let to = if is_known { to } else { to.min(set_again(latch, *called)) };
        if *at < to {
            stalls::found(context, report, name, (*at, to), vec![*by, wait.id]);
        }
    }
}

/// From when on there may be another count than the one that a call at this time has changed.
fn set_again(latch: &Latch<'_>, called: u64) -> u64 {
    let may_follow =
        |set: &&&Other<'_>| done(set).is_none_or(|(answered, did)| did == 1 && answered > called);
    latch.set.iter().find(may_follow).map_or(u64::MAX, |set| set.called)
}
