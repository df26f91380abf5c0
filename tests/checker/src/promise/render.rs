//! The table of promises as Markdown, for `docs/guarantees.md`.

use super::{Cell, Liveness};
use crate::fault::Class;
use crate::run::Store;

/// The line before the table.
pub const BEGIN: &str = "<!-- promises: written by `cargo run -p checker -- --write-promises` -->";

/// The line after the table.
pub const END: &str = "<!-- end of promises -->";

/// The table: a row for each class of faults, a column for each store.
///
/// ```
/// let table = checker::table();
/// let row = table.lines().find(|line| line.starts_with("| client killed |")).unwrap();
/// assert!(row.contains("lease + 4 polls") && row.contains("session + 4 polls"));
/// ```
pub fn table() -> String {
    let mut text = String::from("| fault |");
    for store in Store::ALL {
        text += &format!(" {} |", store.words());
    }
    text += "\n| --- |";
    text += &" --- |".repeat(Store::ALL.len());
    for class in Class::ALL {
        text += &format!("\n| {} |", class.words());
        for store in Store::ALL {
            text += &match Cell::of(store, class) {
                // What is so nearly everywhere is said once, beside the table.
                Some(cell) if cell.liveness == Liveness::CALM => format!(" {cell} |"),
                Some(cell) => format!(" {cell}, {} |", bound(cell.liveness, store)),
                None => " – |".to_owned(),
            };
        }
    }
    text + "\n"
}

fn bound(liveness: Liveness, store: Store) -> String {
    let lease = if store.has_sessions() { "session" } else { "lease" };
    let polls = match liveness.polls {
        1 => "poll".to_owned(),
        n => format!("{n} polls"),
    };
    let parts = [
        liveness.restart_delay.then_some("restart delay"),
        liveness.after_lease.then_some(lease),
        Some(polls.as_str()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" + ")
}

/// Puts the table between its two lines in `page`; none if they are not there.
///
/// ```
/// let page = format!("above\n\n{}\nold\n{}\n\nbelow\n", checker::BEGIN, checker::END);
/// let new = checker::insert(&page).unwrap();
/// assert!(new.contains(&checker::table()) && !new.contains("old") && new.ends_with("below\n"));
/// assert_eq!(checker::insert("no such lines"), None);
/// ```
pub fn insert(page: &str) -> Option<String> {
    let (above, rest) = page.split_once(BEGIN)?;
    let (_, below) = rest.split_once(END)?;
    Some(format!("{above}{BEGIN}\n\n{}\n{END}{below}", table()))
}
