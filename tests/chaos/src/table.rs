//! The table at the end: a line for each store.

use std::fmt::Write;

use checker::Report;

use crate::result::Outcome;

/// A line for each store, and the faults of each.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut rows: Vec<Vec<String>> = vec![header()];
    for outcome in outcomes {
        let faults: u32 = outcome.faults.values().sum();
        let mut row = vec![outcome.store.to_string(), faults.to_string()];
        row.extend(outcome.row.iter().cloned());
        rows.push(row);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push('\n');
    for outcome in outcomes {
        let faults: Vec<String> = outcome.faults.iter().map(|(class, n)| format!("{class} {n}")).collect();
        let _ = writeln!(text, "{}: {}", outcome.store, faults.join(", "));
        for broken in &outcome.broken {
            let _ = writeln!(text, "    broken: {}", broken.text);
        }
    }
    text
}

fn header() -> Vec<String> {
    ["store", "faults"].into_iter().chain(Report::COLUMNS).map(str::to_owned).collect()
}
