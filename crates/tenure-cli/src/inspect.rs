//! `tenure ls` and `tenure show`: list names in use and their holders.

use std::time::Duration;

use tenure::backend::{Liveness, Mode};
use tenure::{Client, Family, Holder, Result, Snapshot, Waiter};

use crate::args::{Ls, Show};
use crate::format::{describe_end, location, printable, time_left, waiter_location};
use crate::output;
use crate::report::Report;
use crate::table::{Look, Table, coloured, paint};
use crate::times::{ago, human, utc};

/// Runs `ls` and returns its exit code.
pub(crate) async fn ls(client: &Client, ls: &Ls, report: Report) -> Result<u8> {
    let (prefix, limit) = (ls.prefix.as_str(), ls.limit.saturating_add(1));
    let mut found =
        if ls.all { client.list_all(prefix, limit).await? } else { client.list(prefix, limit).await? };
    let more = found.len() > ls.limit;
    found.truncate(ls.limit);
    if report.json {
        output(&json(&found))?;
    } else if found.iter().any(|s| s.unread.is_none()) {
        output(&list(&found, liveness(client)).text(coloured()))?;
    } else if found.is_empty() && !report.quiet {
        let prefix = match ls.prefix.as_str() {
            "" => String::new(),
            prefix => format!(" that begin with {}", printable(prefix)),
        };
        report
            .warn(format!("no names{prefix} are in use in {}", printable(&client.backend().info().label())));
    }
    for Snapshot { name, unread, .. } in found.iter().filter(|_| !report.quiet && !report.json) {
        if let Some(why) = unread {
            report.warn(format!("{} could not be read: {}", printable(name.as_str()), printable(why)));
        }
    }
    if more && !report.quiet {
        report.warn(format!("only the first {} names are shown: use --limit to show more", ls.limit));
    }
    Ok(0)
}

/// Runs `show` and returns its exit code: 0 if the name is in use, 1 if not.
pub(crate) async fn show(client: &Client, show: &Show, report: Report) -> Result<u8> {
    let found = client.show(&show.name).await?;
    let used = found.as_ref().is_some_and(|seen| !seen.is_idle());
    if report.json {
        output(&json(&found))?;
    } else {
        match &found {
            Some(snapshot) => output(&describe(snapshot, liveness(client), coloured()))?,
            None => output(&format!("{}: not in use\n", printable(&show.name)))?,
        }
    }
    Ok(if used { 0 } else { 1 })
}

pub(crate) fn liveness(client: &Client) -> Liveness {
    client.backend().info().liveness
}

pub(crate) fn json(what: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(what)
        .map_or_else(|e| format!("{{\"error\": {:?}}}\n", e.to_string()), |j| j + "\n")
}

fn list(found: &[Snapshot], liveness: Liveness) -> Table<6> {
    let mut table = Table::new(
        ["NAME", "KIND", "HOLDERS", "WAITERS", "LEFT", "NOTE"],
        [Look::Bold, Look::Plain, Look::Plain, Look::Plain, Look::Plain, Look::Dim],
    );
    for snapshot in found.iter().filter(|s| s.unread.is_none()) {
        let waiters = snapshot.waiters.len();
        // The hold that expires first.
        let first = snapshot.holders.iter().min_by_key(|h| h.left.unwrap_or(Duration::MAX));
        let note = snapshot.holders.iter().find_map(|h| h.note.as_deref());
        table.row([
            printable(snapshot.name.as_str()),
            snapshot.family.to_string(),
            holders(snapshot),
            if waiters == 0 { "-".into() } else { waiters.to_string() },
            first.map_or_else(|| "-".into(), |holder| time_left(holder, liveness)),
            note.map(printable).unwrap_or_default(),
        ]);
    }
    table
}

/// Text of the HOLDERS column.
fn holders(snapshot: &Snapshot) -> String {
    if let Some(count) = snapshot.count {
        return format!("count {count}");
    }
    if snapshot.family == Family::Permit {
        let used: u32 = snapshot.holders.iter().map(|h| h.holds).sum();
        let size = snapshot.size.map_or_else(|| "?".into(), |n| n.to_string());
        return format!("{}{used} of {size}", if snapshot.is_idle() { "idle, " } else { "" });
    }
    match snapshot.holders.as_slice() {
        [] => "-".into(),
        [one] => location(one),
        [first, rest @ ..] => format!("{} +{}", location(first), rest.len()),
    }
}

pub(crate) fn describe(snapshot: &Snapshot, liveness: Liveness, coloured: bool) -> String {
    let state = match (snapshot.holders.is_empty(), snapshot.count) {
        (_, Some(count)) => format!("count {count}"),
        (true, _) if snapshot.is_idle() => "idle".into(),
        (true, _) => "not held".into(),
        (false, _) => "held".into(),
    };
    let name = paint(&printable(snapshot.name.as_str()), Look::Bold, coloured);
    let mut text = format!("{name}: {}, {state}\n", snapshot.family);
    let mut line = |label: &str, value: String| {
        text.push_str(&format!("  {}  {value}\n", paint(&format!("{label:<7}"), Look::Dim, coloured)));
    };
    if let Some(fence) = snapshot.fence {
        line("fence", fence.to_string());
    }
    if let Some(size) = snapshot.size {
        let used: u32 = snapshot.holders.iter().map(|h| h.holds).sum();
        line("permits", format!("{used} of {size} in use"));
    }
    for holder in &snapshot.holders {
        line("holder", format!("{}{}", location(holder), mode_suffix(holder)));
        holder.note.iter().for_each(|note| line("", format!("note {}", printable(note))));
        let ends = describe_end(holder, liveness);
        line("", since(holder.since).map_or_else(|| ends.clone(), |since| format!("{since}, {ends}")));
        line("", format!("hold {}", printable(&holder.id)));
        if let (true, Some(first)) = (snapshot.is_passed_on(), holder.fence) {
            line("", format!("passed on within its client, from fence {first} on"));
        }
    }
    for waiter in &snapshot.waiters {
        let Waiter { mode, since: from, note, .. } = waiter;
        let mode = if *mode == Mode::Shared { ", shared" } else { "" };
        let since = since(*from).map(|s| format!(" {s}")).unwrap_or_default();
        let note = note.as_deref().map(|n| format!(" ({})", printable(n))).unwrap_or_default();
        line("waiter", format!("{}{mode}{since}{note}", waiter_location(waiter)));
    }
    text
}

/// Describes the mode of a hold, and its permits or number of entries.
pub(crate) fn mode_suffix(holder: &Holder) -> String {
    match (holder.mode, holder.holds) {
        (Mode::Permits, 1) => ", 1 permit".into(),
        (Mode::Permits, n) => format!(", {n} permits"),
        (Mode::Shared, _) => ", shared".into(),
        (Mode::Exclusive, 0 | 1) => String::new(),
        (Mode::Exclusive, n) => format!(", {n} times"),
        _ => String::new(),
    }
}

fn since(micros: Option<u64>) -> Option<String> {
    micros.map(|t| format!("since {} ({})", utc(t), human(ago(t))))
}
