//! The page `docs/reliability.md`, from the results of all runs so far.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use checker::{Class, Store};

use crate::kinds::Use;
use crate::result::Outcome;

/// The part of the page that is written between these lines.
const BEGIN: &str = "<!-- results: written by `cargo xtask chaos --report` -->";
const END: &str = "<!-- end of results -->";

/// Runs, and how many of them broke a promise.
#[derive(Clone, Copy, Default)]
struct Runs {
    all: u32,
    broken: u32,
}

/// Writes the results into a page.
///
/// # Errors
/// When the page has no place for them, or cannot be written.
pub(crate) fn write(page: &Path) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", page.display());
    let text = std::fs::read_to_string(page).map_err(|e| failed(&e))?;
    let outcomes: Vec<Outcome> = Outcome::all()?.into_iter().filter(|outcome| !outcome.planted).collect();
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| failed(&"it has no place for results"))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| failed(&"the results have no end"))?;
    let page_text = format!("{before}{BEGIN}\n\n{}\n{END}{after}", results(&outcomes));
    std::fs::write(page, page_text).map_err(|e| failed(&e))
}

/// A table for each store: what it was used as, in each column, under the faults of each row.
fn results(outcomes: &[Outcome]) -> String {
    let operations: usize = outcomes.iter().map(|outcome| outcome.operations).sum();
    let broken = outcomes.iter().filter(|outcome| !outcome.broken.is_empty()).count();
    let mut text = format!(
        "{} runs, {operations} operations, {broken} runs in which a promise was broken.\n",
        outcomes.len()
    );
    for store in Store::ALL {
        let of_store: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.store == store).collect();
        if of_store.is_empty() {
            continue;
        }
        let seconds: u64 = of_store.iter().map(|outcome| outcome.seconds).sum();
        let _ = writeln!(text, "\n### {}\n\n{} runs, {seconds} s.\n", store.words(), of_store.len());
        let uses = Use::on(store);
        let names: Vec<String> = uses.iter().map(Use::to_string).collect();
        let _ = writeln!(text, "| fault | times | {} |", names.join(" | "));
        let _ = writeln!(text, "| --- | --- |{}", " --- |".repeat(uses.len()));
        for class in Class::ALL {
            let times: u32 = of_store.iter().filter_map(|outcome| outcome.faults.get(&class)).sum();
            if times == 0 {
                continue;
            }
            let cells: Vec<String> = uses.iter().map(|one| cell(&of_store, class, *one)).collect();
            let _ = writeln!(text, "| {} | {times} | {} |", class.words(), cells.join(" | "));
        }
    }
    text + &defects(outcomes)
}

/// The runs in which a kind was used under a fault.
fn cell(outcomes: &[&Outcome], class: Class, of: Use) -> String {
    let mut runs = Runs::default();
    let with = outcomes.iter().filter(|outcome| outcome.faults.contains_key(&class));
    for outcome in with.filter(|outcome| outcome.uses.contains(&of)) {
        runs.all += 1;
        runs.broken += u32::from(outcome.broken.iter().any(|broken| broken.of == Some(of)));
    }
    match runs {
        Runs { all: 0, .. } => "–".into(),
        Runs { all, broken: 0 } => format!("{all} kept"),
        Runs { all, broken } => format!("{all}, {broken} broken"),
    }
}

fn defects(outcomes: &[Outcome]) -> String {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| !outcome.broken.is_empty()) {
        let mut checks: Vec<&str> = outcome.broken.iter().map(|broken| broken.check.as_str()).collect();
        checks.dedup();
        let seed = format!("`--store {} --seed {}` ({})", outcome.store, outcome.seed, checks.join(", "));
        found.entry(outcome.store.to_string()).or_default().push(seed);
    }
    if found.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = found.into_values().flatten().map(|seed| format!("- {seed}\n")).collect();
    format!("\nBroken in:\n\n{}", lines.concat())
}
