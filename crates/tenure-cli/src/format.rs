//! Formats holders and waiters for output.

use tenure::backend::Liveness;
use tenure::{Holder, Waiter};

use crate::times::{ago, human, utc};

/// Where a holder runs: `host:pid`, or `foreign` and the id that another library wrote.
pub(crate) fn location(holder: &Holder) -> String {
    let Holder { host, pid, id, foreign, .. } = holder;
    location_of(host.as_deref(), *pid, id, *foreign)
}

pub(crate) fn waiter_location(waiter: &Waiter) -> String {
    let Waiter { host, pid, id, foreign, .. } = waiter;
    location_of(host.as_deref(), *pid, id, *foreign)
}

fn location_of(host: Option<&str>, pid: Option<u32>, id: &str, foreign: bool) -> String {
    match (host, pid) {
        _ if foreign => format!("foreign {}", short_id(id)),
        (Some(host), Some(pid)) => format!("{}:{pid}", printable(host)),
        (Some(host), None) => printable(host),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => printable(id),
    }
}

/// Shortens an id of the form `<uuid>:<thread>`; returns anything else unchanged.
pub(crate) fn short_id(id: &str) -> String {
    match id.split_once('-').zip(id.split_once(':')) {
        Some(((first, _), (uuid, thread))) if uuid.len() == 36 => {
            format!("{}…:{}", printable(first), printable(thread))
        }
        _ => printable(id),
    }
}

/// When a hold ends unless it is renewed, as text for a table cell.
pub(crate) fn time_left(holder: &Holder, liveness: Liveness) -> String {
    match (holder.left, liveness) {
        (Some(left), _) => human(left),
        (None, Liveness::Session) => "session".into(),
        (None, Liveness::Lease) => "never".into(),
    }
}

/// When a hold ends unless it is renewed, as part of a sentence.
pub(crate) fn describe_end(holder: &Holder, liveness: Liveness) -> String {
    match (holder.left, liveness) {
        (Some(left), _) => format!("{} left unless renewed", human(left)),
        (None, Liveness::Session) => "ends with its session".into(),
        (None, Liveness::Lease) => "does not expire".into(),
    }
}

/// Holders on one line: `web-1:4242 since 2026-11-15 21:40:03 UTC (nightly import) and 2 others`.
pub(crate) fn describe_holders(holders: &[Holder]) -> String {
    let Some(first) = holders.first() else { return "nobody".into() };
    let since = first.since.map(|t| format!(" since {}", utc(t))).unwrap_or_default();
    format!("{}{since}{}{}", describe_holder(first), note(first), others(holders))
}

/// Holders on one line, with times that change: `web-1:4242 since 2026-11-15 21:40:03 UTC (3 s), 27 s left (nightly
/// import)`.
pub(crate) fn describe_holders_now(holders: &[Holder]) -> String {
    let Some(first) = holders.first() else { return "nobody".into() };
    let since = first.since.map(|t| format!(" since {} ({})", utc(t), human(ago(t)))).unwrap_or_default();
    let left = first.left.map(|d| format!(", {} left", human(d))).unwrap_or_default();
    format!("{}{since}{left}{}{}", describe_holder(first), note(first), others(holders))
}

/// Names a holder within a sentence.
pub(crate) fn describe_holder(holder: &Holder) -> String {
    if holder.foreign { format!("another library ({})", short_id(&holder.id)) } else { location(holder) }
}

fn note(holder: &Holder) -> String {
    holder.note.as_deref().map(|note| format!(" ({})", printable(note))).unwrap_or_default()
}

fn others(holders: &[Holder]) -> String {
    match holders.len() {
        0 | 1 => String::new(),
        2 => " and 1 other".into(),
        n => format!(" and {} others", n - 1),
    }
}

/// Replaces control characters, so that text from the store cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    let harmless = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_cannot_command_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\u{9b}d ü"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d ü");
    }

    #[test]
    fn a_holder_without_a_process_shows_its_own_words() {
        assert_eq!(location_of(Some("web-1"), Some(42), "id", false), "web-1:42");
        assert_eq!(location_of(None, None, "uuid:7", false), "uuid:7");
    }

    #[test]
    fn a_foreign_holder_is_called_so() {
        let id = "4f3c2b1a-0000-4000-8000-000000000001:-5";
        assert_eq!(location_of(None, None, id, true), "foreign 4f3c2b1a…:-5");
        assert_eq!(location_of(None, None, "a-b:c", true), "foreign a-b:c");
        assert_eq!(location_of(None, None, "00ff", true), "foreign 00ff");
    }
}
