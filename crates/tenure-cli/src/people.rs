//! Holders and waiters in words.

use tenure::Holder;

use crate::times::{ago, human, utc};

/// Where a holder or waiter is: `host:pid`.
pub(crate) fn place(host: Option<&str>, pid: Option<u32>, id: &str) -> String {
    match (host, pid) {
        (Some(host), Some(pid)) => format!("{}:{pid}", printable(host)),
        (Some(host), None) => printable(host),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => printable(id),
    }
}

/// Who holds, for one line: `web-1:4242 since 2026-11-15 21:40:03 UTC (nightly import) and 2 others`.
pub(crate) fn holders(holders: &[Holder]) -> String {
    let Some(first) = holders.first() else { return "nobody".into() };
    let since = first.since.map(|t| format!(" since {}", utc(t))).unwrap_or_default();
    format!("{}{since}{}{}", holder(first), note(first), others(holders))
}

/// The same with what changes while one looks at it: `web-1:4242 for 3 s, 27 s left (nightly import)`.
pub(crate) fn holders_now(holders: &[Holder]) -> String {
    let Some(first) = holders.first() else { return "nobody".into() };
    let since = first.since.map(|t| format!(" since {} ({})", utc(t), human(ago(t)))).unwrap_or_default();
    let left = first.left.map(|d| format!(", {} left", human(d))).unwrap_or_default();
    format!("{}{since}{left}{}{}", holder(first), note(first), others(holders))
}

fn holder(holder: &Holder) -> String {
    place(holder.host.as_deref(), holder.pid, &holder.id)
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

/// What others wrote, without what would command the terminal.
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
        assert_eq!(place(Some("web-1"), Some(42), "id"), "web-1:42");
        assert_eq!(place(None, None, "uuid:7"), "uuid:7");
    }
}
