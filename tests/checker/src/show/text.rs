//! A violation as text: what it is, the seed and the faults, and the events.

use std::fmt::Write;

use super::since;
use crate::event::{Acquire, Action, Answer, Call, Event, Kind, Wait, What};
use crate::fault::Phase;
use crate::history::History;
use crate::report::{Violation, seconds};

/// Describes a violation and the history that shows it, which is best [shortened](crate::shorten) before.
///
/// ```
/// use checker::{Check, Event, History, Violation, What, text};
///
/// let history = History::new(vec![Event { at: 5_000_000, process: 3, what: What::Killed }]);
/// let violation = Violation {
///     check: Check::Stall, name: "a".into(), span: (0, 1), ops: Vec::new(), text: "free for long".into(),
/// };
/// let text = text(&history, &violation);
/// assert!(text.starts_with("stall of a: free for long\n") && text.contains("3    killed"));
/// ```
pub fn text(history: &History, violation: &Violation) -> String {
    let mut text = format!("{violation}\n");
    if let Some(run) = history.run() {
        let plan = if run.plan.is_empty() { "none" } else { &run.plan };
        let _ = write!(text, "{} (nodes: {}), seed {}\nfaults: {plan}\n", run.store, run.nodes, run.seed);
    }
    let begin = history.events().first().map_or(0, |first| first.at);
    let _ = writeln!(text, "from {} to {}", since(begin, violation.span.0), since(begin, violation.span.1));
    for event in history.events() {
        if let Some(line) = line(event) {
            let mark = if (violation.span.0..=violation.span.1).contains(&event.at) { '>' } else { ' ' };
            let _ = writeln!(text, "{mark}{:>12}  {line}", since(begin, event.at));
        }
    }
    text
}

fn line(event: &Event) -> Option<String> {
    let process = event.process;
    let op = |op: &u64| format!("{process}/{op}");
    let text = match &event.what {
        What::Run(_) => return None,
        What::Started { .. } => "started".to_owned(),
        What::Exiting => "exits".to_owned(),
        What::Killed => "killed".to_owned(),
        What::Call { op: of, worker, call } => {
            format!("worker {worker} calls {}: {}", op(of), called(process, call))
        }
        What::Answer { op: of, answer } => format!("{} answers {}", op(of), answered(answer)),
        What::Held { of } => format!("{} says held", op(of)),
        What::NotHeld { of, reason } => {
            format!("{} says not held{}", op(of), reason.as_ref().map_or(String::new(), |r| format!(": {r}")))
        }
        What::Dropped { of } => format!("{} dropped", op(of)),
        What::Detached { of, remaining } => format!("{} detached, {} left", op(of), seconds(*remaining)),
        What::Queued { of } => format!("{} is in the queue", op(of)),
        What::Access(access) => {
            let action = match access.action {
                Action::Read { value } => format!("reads {value}"),
                Action::Write { value, based_on } => format!("writes {value}, based on access {based_on}"),
            };
            let fence = access.fence.map_or("no fence".to_owned(), |fence| format!("fence {fence}"));
            let verdict = if access.accepted { "accepted" } else { "refused" };
            format!("{} {action} ({fence}): {verdict}, access {}", access.register, access.seq)
        }
        What::Observed { observer, name, term } => format!("observer {observer} sees term {term} of {name}"),
        What::Fault { id, class, target, phase } => {
            let phase = match phase {
                Phase::Begin => "begins",
                Phase::Healed => "healed",
                Phase::InEffect | Phase::Healing => return None,
            };
            format!("fault {id}: {class} of {target} {phase}")
        }
        What::Panicked { message } => format!("panicked: {message}"),
        What::Inspected(shown) => {
            format!("{} is held by {:?}, wanted by {:?}", shown.name, shown.holders, shown.waiters)
        }
    };
    Some(format!("{process:<3}  {text}"))
}

fn called(process: u32, call: &Call) -> String {
    match call {
        Call::Acquire(Acquire { name, kind, owner, wait, lease, least }) => {
            let kind = match kind {
                Kind::Lock => "lock".to_owned(),
                Kind::Fair => "fair lock".to_owned(),
                Kind::Read => "read".to_owned(),
                Kind::Write => "write".to_owned(),
                Kind::Leader => "leadership".to_owned(),
                Kind::Permits { n, limit } => format!("{n} of {limit} permits"),
            };
            let wait = match wait {
                Wait::Try => "tries".to_owned(),
                Wait::For(limit) => format!("waits {}", seconds(*limit)),
                Wait::Forever => "waits".to_owned(),
            };
            let extra = [
                owner.as_ref().map(|owner| format!("owner {owner}")),
                lease.map(|lease| format!("lease {}", seconds(lease))),
                least.map(|least| format!("at least {}", seconds(least))),
            ];
            let extra: String = extra.into_iter().flatten().map(|one| format!(", {one}")).collect();
            format!("acquire {name} ({kind}, {wait}{extra})")
        }
        Call::Release { of } => format!("release {process}/{of}"),
        Call::ReleaseBy { hold } => format!("release hold {hold}"),
        Call::Force { name } => format!("release {name} by force"),
        Call::Resize { name, to } => format!("resize {name} to {to}"),
        Call::SetCount { name, to } => format!("set {name} to {to}"),
        Call::CountDown { name } => format!("count {name} down"),
        Call::Count { name } => format!("count of {name}"),
        Call::Delete { name } => format!("delete {name}"),
        Call::Wait { name, .. } => format!("wait for {name}"),
    }
}

fn answered(answer: &Answer) -> String {
    match answer {
        Answer::Granted(granted) => {
            let fence = granted.fence.map_or(String::new(), |fence| format!(", fence {fence}"));
            let left = granted.remaining.map_or(String::new(), |left| format!(", {} left", seconds(left)));
            format!("granted{fence}{left}")
        }
        Answer::Busy => "busy".to_owned(),
        Answer::TimedOut => "timed out".to_owned(),
        Answer::Released => "released".to_owned(),
        Answer::Lost { reason } => format!("lost: {reason}"),
        Answer::Done { value: Some(value) } => value.to_string(),
        Answer::Done { value: None } => "done".to_owned(),
        Answer::Unavailable { error } => format!("unavailable: {error}"),
        Answer::Refused { error } => format!("refused: {error}"),
        Answer::Unknown { error } => format!("unknown: {error}"),
    }
}
