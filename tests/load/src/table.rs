//! The tables of a run, as they are in `docs/load.md`: one for each scenario, a column for each store.

use std::fmt::Write;

use crate::cell::{Cell, number};

pub(crate) fn tables(cells: &[Cell]) -> String {
    let mut text = String::new();
    for group in cells.chunk_by(|one, other| one.scenario == other.scenario) {
        let first = &group[0];
        let stores: Vec<String> = group.iter().map(|cell| cell.store.to_string()).collect();
        let _ =
            writeln!(text, "\n| {} {} | {} |", first.number, first.scenario.of_what(), stores.join(" | "));
        let _ = writeln!(text, "| --- |{}", " --- |".repeat(group.len()));
        for figure in &first.figures {
            let cells: Vec<String> = group.iter().map(|cell| value(cell, &figure.what)).collect();
            let _ = writeln!(text, "| {} | {} |", figure.what, cells.join(" | "));
        }
    }
    text
}

fn value(cell: &Cell, what: &str) -> String {
    let Some(figure) = cell.figures.iter().find(|figure| figure.what == what) else { return String::new() };
    match cell.bound(what) {
        Some(bound) if bound > 0.0 => format!("{} (≤ {})", number(figure.value), number(bound)),
        _ => number(figure.value),
    }
}
