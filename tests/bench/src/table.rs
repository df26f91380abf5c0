//! The results as tables, for a terminal and for a page.

use crate::bars::{BARS, Bar, Judged, Verdict};
use crate::samples::Samples;
use crate::stats::Spread;

/// The bars of what was measured.
pub(crate) fn judged(samples: &Samples) -> Vec<Judged> {
    BARS.iter().filter_map(|bar| bar.judge(samples)).collect()
}

/// One line for each bar.
pub(crate) fn bars(all: &[Judged]) -> String {
    let head = ["workload", "measure", "ours", "", "peer", "", "median (95 %)", "bar", "verdict"];
    let line = |judged: &Judged| {
        let Bar { workload, measure, ours, bound, .. } = judged.bar;
        let (peer, value) =
            judged.peer.map_or_else(Default::default, |(name, value)| (name.to_owned(), number(value)));
        let Spread { median, low, high } = judged.spread;
        let spread = match judged.verdict {
            Verdict::NotMeasured => String::new(),
            _ => format!("{} ({}–{})", number(median), number(low), number(high)),
        };
        [
            workload.to_owned(),
            measure.to_owned(),
            ours.name.to_owned(),
            if judged.verdict == Verdict::NotMeasured { String::new() } else { number(judged.ours) },
            peer,
            value,
            spread,
            bound.text(),
            judged.verdict.text().to_owned(),
        ]
    };
    markdown(&head, &all.iter().map(|judged| line(judged).to_vec()).collect::<Vec<_>>())
}

/// All that was measured in a workload: a line for each side, a column for each measure, medians.
pub(crate) fn workload(samples: &Samples, name: &str) -> Option<String> {
    let measures = samples.of(name)?;
    let mut sides: Vec<&str> = measures.values().flat_map(|sides| sides.keys().map(String::as_str)).collect();
    // Steps of growth by their number.
    sides.sort_unstable_by_key(|side| (side.parse::<u64>().unwrap_or(0), *side));
    sides.dedup();
    let head: Vec<&str> = [name].into_iter().chain(measures.keys().map(String::as_str)).collect();
    let lines = sides.iter().map(|side| {
        let cells = measures.values().map(|sides| {
            let Some(values) = sides.get(*side) else { return String::new() };
            number(Spread::of(values).median)
        });
        [(*side).to_owned()].into_iter().chain(cells).collect()
    });
    Some(markdown(&head, &lines.collect::<Vec<_>>()))
}

/// Three digits that count.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (i, digit) in digits.chars().enumerate() {
                if i > 0 && (digits.len() - i) % 3 == 0 {
                    text.push(',');
                }
                text.push(digit);
            }
            text
        }
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// A table in Markdown whose columns line up.
fn markdown(head: &[&str], lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([head[column].chars().count(), 3]).max().unwrap_or(3)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let row = |cells: Vec<&str>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = row(head.to_vec()) + &row(rules.iter().map(String::as_str).collect());
    for line in lines {
        text += &row(line.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let shown = [90_571.4, 1234.0, 123.4, 12.34, 1.234, 0.1234, 0.0].map(number);
        assert_eq!(shown, ["90,571", "1,234", "123", "12.3", "1.23", "0.123", "0"]);
    }

    #[test]
    fn tables_line_up() {
        let table =
            markdown(&["a", "b"], &[vec!["1".into(), "two".into()], vec!["three".into(), String::new()]]);
        let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }
}
