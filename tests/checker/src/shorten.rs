//! A history of which only what shows a violation is left.
//!
//! First everything goes that is not about the name of the violation and near it in time. Then calls are left out, many
//! at once and fewer and fewer, with all that belongs to them, as long as the same violation is still found; then single
//! looks at guards. Of the faults those stay that act meanwhile: they explain it.

use std::collections::{HashMap, HashSet};

use crate::check::check;
use crate::event::{Call, Event, What};
use crate::expect::Expectations;
use crate::fault::{Phase, Target};
use crate::history::History;
use crate::joined::OpId;
use crate::report::{Check, Violation};

/// How much of a history around a violation is looked at first, in leases.
const LEASES: u64 = 4;

/// The part of a history that shows this violation.
///
/// ```
/// use checker::sim::{Bug, Scenario, simulate};
/// use checker::{Expectations, check, shorten};
///
/// let histories = (0..).map(|seed| simulate(seed, Scenario::with(Bug::FenceGoesBack)).history);
/// let (history, expected, found) = histories
///     .filter_map(|history| {
///         let expected = Expectations::of_run(history.run()?);
///         let found = check(&history, &expected).violations.first()?.clone();
///         Some((history, expected, found))
///     })
///     .next()
///     .unwrap();
/// let short = shorten(&history, &expected, &found);
/// assert!(short.events().len() < 40 && short.events().len() < history.events().len());
/// assert!(check(&short, &expected).of(found.check).is_some());
/// ```
pub fn shorten(history: &History, expected: &Expectations, violation: &Violation) -> History {
    let still = |events: &[Event]| {
        let found = check(&History::new(events.to_vec()), expected);
        found.violations.iter().any(|other| is_same(violation, other))
    };
    let margin = expected.timing.lease.saturating_mul(LEASES);
    let near = near(history, violation, margin);
    let mut events = if still(&near) { near } else { history.events().to_vec() };
    if !still(&events) {
        return history.clone();
    }
    let units = units(&events, belongs_to);
    events = reduce(events, units, &still);
    let singles = units_of_singles(&events);
    events = reduce(events, singles, &still);
    let without = without_the_rest(&events);
    History::new(if still(&without) { without } else { events })
}

/// Leaves out faults and processes that have nothing to do with what is left.
fn without_the_rest(events: &[Event]) -> Vec<Event> {
    let mut shown = events.iter().filter(|event| belongs_to(event).is_some()).map(|event| event.at);
    let first = shown.next().unwrap_or(0);
    let last = shown.next_back().unwrap_or(first);
    let processes: HashSet<u32> =
        events.iter().filter(|event| belongs_to(event).is_some()).map(|event| event.process).collect();
    // Faults of which a phase is in between, or one before and one after.
    let (mut begun, mut over) = (HashSet::new(), HashSet::new());
    for event in events {
        if let What::Fault { id, target, phase, .. } = &event.what {
            let is_near = !matches!(target, Target::Process(process) if !processes.contains(process));
            if is_near && event.at <= last {
                begun.insert(*id);
            }
            if *phase == Phase::Healed && event.at < first {
                over.insert(*id);
            }
        }
    }
    let is_about = |event: &&Event| match &event.what {
        What::Fault { id, .. } => begun.contains(id) && !over.contains(id),
        What::Started { .. } | What::Exiting | What::Killed => processes.contains(&event.process),
        _ => true,
    };
    events.iter().filter(is_about).cloned().collect()
}

/// Whether both are one violation. A history that ends earlier may show less of it, and never more.
fn is_same(one: &Violation, other: &Violation) -> bool {
    let is_within = one.span.0 <= other.span.0 && other.span.1 <= one.span.1;
    let by_same = match one.check {
        // Who held it before may be left out, who waits may not.
        Check::Stall => one.ops.last() == other.ops.last(),
        Check::Overlap | Check::Overtaken => one.ops.iter().all(|op| other.ops.contains(op)),
        _ => one.ops == other.ops && one.text == other.text,
    };
    one.check == other.check && one.name == other.name && is_within && by_same
}

/// What the call of an event is about; the acquire, for what is done with its guard.
fn belongs_to(event: &Event) -> Option<OpId> {
    let op = match &event.what {
        What::Call { call: Call::Release { of }, .. } => of,
        What::Call { op, .. } | What::Answer { op, .. } => op,
        What::Held { of }
        | What::NotHeld { of, .. }
        | What::Dropped { of }
        | What::Detached { of, .. }
        | What::Queued { of } => of,
        _ => return None,
    };
    Some(OpId { process: event.process, op: *op })
}

/// The calls that answers answer, for those that are about another call.
fn releases(events: &[Event]) -> HashMap<OpId, OpId> {
    let release = |event: &Event| match &event.what {
        What::Call { op, call: Call::Release { of }, .. } => {
            let process = event.process;
            Some((OpId { process, op: *op }, OpId { process, op: *of }))
        }
        _ => None,
    };
    events.iter().filter_map(release).collect()
}

/// The events of the name, around the time.
fn near(history: &History, violation: &Violation, margin: u64) -> Vec<Event> {
    let (from, to) = (violation.span.0.saturating_sub(margin), violation.span.1.saturating_add(margin));
    let releases = releases(history.events());
    let about = |event: &Event| {
        let id = belongs_to(event)?;
        Some(releases.get(&id).copied().unwrap_or(id))
    };
    let mut of_name: HashSet<OpId> = violation.ops.iter().copied().collect();
    let mut in_time: HashSet<OpId> = of_name.clone();
    for event in history.events() {
        let Some(id) = about(event) else { continue };
        if let What::Call { call, .. } = &event.what
            && call.name().is_some_and(|name| name == violation.name)
        {
            of_name.insert(id);
        }
        if (from..=to).contains(&event.at) {
            in_time.insert(id);
        }
    }
    let is_near = |event: &&Event| match (&event.what, about(event)) {
        (_, Some(id)) => of_name.contains(&id) && in_time.contains(&id),
        (What::Access(access), _) => access.register == violation.name,
        (What::Observed { name, .. }, _) => *name == violation.name,
        (What::Inspected(shown), _) => shown.name == violation.name,
        _ => true,
    };
    let last = history.events().last().map_or(0, |last| last.at).min(to);
    let mut events: Vec<Event> = history.events().iter().filter(is_near).cloned().collect();
    events.retain(|event| event.at <= last || belongs_to(event).is_none());
    events
}

/// The events that only make sense together, as lists of their places.
fn units(events: &[Event], about: impl Fn(&Event) -> Option<OpId>) -> Vec<Vec<usize>> {
    let releases = releases(events);
    let mut units: Vec<Vec<usize>> = Vec::new();
    let mut of: HashMap<OpId, usize> = HashMap::new();
    for (place, event) in events.iter().enumerate() {
        if let Some(id) = about(event) {
            let id = releases.get(&id).copied().unwrap_or(id);
            let unit = *of.entry(id).or_insert_with(|| {
                units.push(Vec::new());
                units.len() - 1
            });
            units[unit].push(place);
        } else if matches!(event.what, What::Access(_) | What::Observed { .. }) {
            units.push(vec![place]);
        }
    }
    units
}

/// The events that nothing else depends on.
fn units_of_singles(events: &[Event]) -> Vec<Vec<usize>> {
    let is_single = |event: &Event| {
        matches!(
            event.what,
            What::Held { .. }
                | What::NotHeld { .. }
                | What::Queued { .. }
                | What::Access(_)
                | What::Inspected(_)
        )
    };
    events.iter().enumerate().filter(|(_, event)| is_single(event)).map(|(place, _)| vec![place]).collect()
}

/// Leaves out units, half of them at first, while `still` holds.
fn reduce(events: Vec<Event>, units: Vec<Vec<usize>>, still: &impl Fn(&[Event]) -> bool) -> Vec<Event> {
    let mut gone: Vec<bool> = vec![false; events.len()];
    let mut left = units;
    let mut size = left.len().div_ceil(2);
    while size > 0 {
        let mut kept = Vec::new();
        for chunk in left.chunks(size) {
            let mut without = gone.clone();
            chunk.iter().flatten().for_each(|place| without[*place] = true);
            let rest: Vec<Event> = events
                .iter()
                .zip(&without)
                .filter(|(_, gone)| !**gone)
                .map(|(event, _)| event.clone())
                .collect();
            if still(&rest) {
                gone = without;
            } else {
                kept.extend(chunk.iter().cloned());
            }
        }
        left = kept;
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    events.into_iter().zip(gone).filter(|(_, gone)| !gone).map(|(event, _)| event).collect()
}
