//! The results as a table and as JSON.

use serde_json::{Value, json};

use crate::stats::{Spread, percentile};

/// One row of the report: ours, the peer, and the bar.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) ours: String,
    pub(crate) peer: String,
    /// Ours divided by the peer's, over all rounds.
    pub(crate) ratio: Option<Spread>,
    pub(crate) bar: String,
    pub(crate) met: bool,
    /// The numbers for the JSON output.
    pub(crate) values: Vec<(&'static str, f64)>,
}

impl Row {
    fn cells(&self) -> [String; 6] {
        let ratio =
            self.ratio.map_or_else(String::new, |r| format!("{:.3} ({:.3}–{:.3})", r.median, r.low, r.high));
        let met = if self.met { "yes" } else { "no" };
        [self.what.clone(), self.ours.clone(), self.peer.clone(), ratio, self.bar.clone(), met.to_owned()]
    }
}

pub(crate) fn per_second(rate: f64) -> String {
    match rate {
        r if r >= 1e6 => format!("{:.2} M/s", r / 1e6),
        r if r >= 1e3 => format!("{:.1} k/s", r / 1e3),
        r => format!("{r:.0} /s"),
    }
}

/// Formats median, 99th percentile and maximum of milliseconds.
pub(crate) fn millis(values: &[f64]) -> String {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| percentile(values, part));
    format!("p50 {p50:.2} p99 {p99:.2} max {max:.2} ms")
}

/// Formats the rows as a Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = ["what", "ours", "peer", "ratio (95 %)", "bar", "met"].map(str::to_owned);
    let lines: Vec<[String; 6]> = std::iter::once(head).chain(rows.iter().map(Row::cells)).collect();
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (n, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        if n == 0 {
            let rule = widths.map(|width| "-".repeat(width));
            text += &format!("| {} |\n", rule.join(" | "));
        }
    }
    text.trim_end().to_owned()
}

pub(crate) fn json(rows: &[Row]) -> Value {
    rows.iter().map(as_json).collect()
}

fn as_json(row: &Row) -> Value {
    let mut value = json!({ "what": row.what, "bar": row.bar, "met": row.met });
    for (name, number) in &row.values {
        value[*name] = json!(number);
    }
    if let Some(ratio) = row.ratio {
        value["ratio"] = json!({ "median": ratio.median, "low": ratio.low, "high": ratio.high });
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            what: "a".into(),
            ours: per_second(1_250_000.0),
            peer: per_second(999.0),
            ratio: Some(Spread { median: 0.5, low: 0.25, high: 1.0 }),
            bar: "≥ 0.7".into(),
            met: false,
            values: vec![("ours_per_second", 2.0)],
        }
    }

    #[test]
    fn tables_line_up() {
        let table = table(&[row()]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[2], "| a    | 1.25 M/s | 999 /s | 0.500 (0.250–1.000) | ≥ 0.7 | no  |");
        assert!(lines.iter().all(|l| l.chars().count() == lines[0].chars().count()), "{table}");
    }

    #[test]
    fn machines_read_the_same() {
        let value = json(&[row()]);
        assert_eq!(value[0]["ours_per_second"], 2.0);
        assert_eq!(value[0]["ratio"]["low"], 0.25);
    }
}
