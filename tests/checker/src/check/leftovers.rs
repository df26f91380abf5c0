//! Nothing left behind: what `inspect` shows at the end belongs to somebody who is inside or waits.
//!
//! A hold is known by its id, or by the client that its id begins with. One whose release was confirmed must not be
//! there at all. One that ended otherwise must not be there after its lease and the slack. What belongs to a process
//! that was killed is counted: queue positions of the dead are taken away by whoever comes next, if anybody does.

use std::collections::HashMap;

use super::Context;
use crate::joined::{Ending, Entry, Outcome};
use crate::report::{Check, Report, Violation};

pub(super) fn check(context: &Context<'_>, report: &mut Report) {
    let joined = &context.joined;
    if joined.inspected.is_empty() {
        return;
    }
    let holds = joined.last_of_each_hold();
    let clients: HashMap<&str, u32> = joined
        .processes
        .iter()
        .flat_map(|(process, known)| known.clients.iter().map(|client| (*client, *process)))
        .collect();
    for (at, _, shown) in &joined.inspected {
        let of_process = |id: &str| id.split_once(':').and_then(|(client, _)| clients.get(client)).copied();
        let mut judge = |id: &str, verdict: Verdict, ops: Vec<crate::OpId>| match verdict {
            Verdict::Fine => {}
            Verdict::OfTheDead => report.leftovers += 1,
            Verdict::Left(what) => {
                let text = format!("{id} is still there: {what}");
                let (name, span) = (shown.name.clone(), (*at, *at));
                report.violations.push(Violation { check: Check::Leftover, name, span, ops, text });
            }
        };
        for id in &shown.holders {
            match holds.get(id.as_str()).map(|at| context.entry(*at)) {
                Some(entry) => judge(id, of_entry(context, entry, *at), vec![entry.id]),
                None => judge(id, of_client(context, &shown.name, of_process(id), *at), Vec::new()),
            }
        }
        for id in &shown.waiters {
            judge(id, of_client(context, &shown.name, of_process(id), *at), Vec::new());
        }
    }
}

enum Verdict {
    Fine,
    OfTheDead,
    Left(&'static str),
}

fn of_entry(context: &Context<'_>, entry: &Entry<'_>, at: u64) -> Verdict {
    let is_killed =
        || context.joined.processes.get(&entry.id.process).is_some_and(|process| process.killed.is_some());
    let Some((_, to)) = context.conditions.occupied(&context.joined, entry) else { return Verdict::Fine };
    match entry.ending {
        // Another entry of its owner may still be inside, or the task that it was passed on to.
        Ending::Released { .. } if shares(context, entry, at) => Verdict::Fine,
        Ending::Released { answered, .. } | Ending::Freed { answered } if answered < at && to <= answered => {
            Verdict::Left("its release was confirmed")
        }
        _ if to.saturating_add(context.expected.timing.slack) >= at => Verdict::Fine,
        _ if is_killed() => Verdict::OfTheDead,
        _ => Verdict::Left("its lease is over"),
    }
}

/// Whether another entry into its hold may be there at this time.
fn shares(context: &Context<'_>, entry: &Entry<'_>, at: u64) -> bool {
    let mut others = context.joined.of_name[entry.name].iter().map(|other| context.entry(*other));
    others.any(|other| {
        let inside = context.conditions.occupied(&context.joined, other);
        let is_same = other.hold == entry.hold || (entry.owner_is_named && other.owner == entry.owner);
        is_same && other.id != entry.id && inside.is_some_and(|(_, to)| to >= at)
    })
}

/// A waiter, or a hold whose id no answer has told.
fn of_client(context: &Context<'_>, name: &str, process: Option<u32>, at: u64) -> Verdict {
    let Some(process) = process else {
        // Who keeps no list of its clients cannot be asked about them.
        let knows_all = context.joined.processes.values().all(|process| !process.clients.is_empty());
        return if knows_all { Verdict::Left("it belongs to nobody") } else { Verdict::Fine };
    };
    let joined = &context.joined;
    let Some(of_name) = joined.number_of(name) else {
        return Verdict::Left("its client never asked for that name");
    };
    let own = joined.of_name[of_name].iter().map(|at| context.entry(*at)).filter(|e| e.id.process == process);
    let slack = context.expected.timing.slack;
    let mut own = own.filter(|entry| {
        let inside =
            context.conditions.occupied(joined, entry).is_some_and(|(_, to)| to.saturating_add(slack) >= at);
        let is_waiting = entry.outcome == Outcome::Pending && joined.processes[&process].end().is_none();
        let has_just_ended = entry.answered.is_some_and(|answered| answered + slack >= at);
        inside || is_waiting || (has_just_ended && entry.outcome != Outcome::Granted)
    });
    if own.next().is_some() {
        Verdict::Fine
    } else if joined.processes.get(&process).is_some_and(|process| process.killed.is_some()) {
        Verdict::OfTheDead
    } else {
        Verdict::Left("its client neither holds nor waits")
    }
}
