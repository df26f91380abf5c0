//! The tables of `docs/compatibility.md`, from all results that are kept.

use std::fmt::Write;
use std::path::Path;

use super::result::{Part, Result as Outcome, reason};
use super::rows::{ROWS, Row, What};
use crate::root;

const BEGIN: &str = "<!-- results: written by `cargo xtask matrix` -->";
const END: &str = "<!-- end of results -->";

pub(crate) fn write(results: &Path) -> Result<(), String> {
    let page = root().join("docs/compatibility.md");
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", page.display());
    let text = std::fs::read_to_string(&page).map_err(|e| failed(&e))?;
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| failed(&"it has no place for results"))?;
    let (_, after) = rest.split_once(END).ok_or_else(|| failed(&"the results have no end"))?;
    let kept: Vec<(&Row, Outcome)> =
        ROWS.iter().filter_map(|row| Some((row, Outcome::load(results, row.name)?))).collect();
    std::fs::write(&page, format!("{before}{BEGIN}\n\n{}\n{END}{after}", tables(&kept)))
        .map_err(|e| failed(&e))
}

fn tables(kept: &[(&Row, Outcome)]) -> String {
    let mut text = String::new();
    let mut reasons: Vec<String> = Vec::new();
    for (head, of) in [
        ("| server | from | conformance | shared with Redisson and redis-py |", What::Redis),
        ("| server | from | conformance | shared with Curator |", What::ZooKeeper),
        ("| library | from | | shared with Tenure, on Redis 7.0 |", What::Redisson),
        ("| library | from | | shared with Tenure, on ZooKeeper 3.8 |", What::Curator),
    ] {
        let rows: Vec<_> = kept.iter().filter(|(row, _)| row.what == of).collect();
        if rows.is_empty() {
            continue;
        }
        let _ =
            writeln!(text, "{}{head}\n| --- | --- | --- | --- |", if text.is_empty() { "" } else { "\n" });
        for (row, outcome) in rows {
            let mut cell =
                |part: &str| outcome.part(part).map_or(String::new(), |part| cell(row, part, &mut reasons));
            let (conformance, interop) = (cell("conformance"), cell("interop"));
            let _ = writeln!(text, "| {} | {} | {conformance} | {interop} |", outcome.version, row.from);
        }
    }
    for (n, reason) in reasons.iter().enumerate() {
        let _ = writeln!(text, "{}{}. {reason}", if n == 0 { "\n" } else { "" }, n + 1);
    }
    text
}

/// `123 passed`, and what failed, with the numbers of the reasons.
fn cell(row: &Row, part: &Part, reasons: &mut Vec<String>) -> String {
    let mut text = format!("{} passed", part.counts.passed);
    if part.failed.is_empty() {
        return text;
    }
    let mut numbers: Vec<usize> = Vec::new();
    for test in &part.failed {
        let why = reason(row.name, test)
            .map_or_else(|| format!("`{test}` fails, not yet explained"), str::to_owned);
        let at = reasons.iter().position(|known| *known == why).unwrap_or_else(|| {
            reasons.push(why);
            reasons.len() - 1
        });
        numbers.push(at + 1);
    }
    numbers.sort_unstable();
    numbers.dedup();
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let _ = write!(text, ", {} failed ({})", part.failed.len(), numbers.join(", "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Counts;

    #[test]
    fn each_version_has_a_line() {
        let part = |failed: &[&str]| Part {
            name: "interop".into(),
            counts: Counts { passed: 7, failed: failed.len() as u32, ignored: 0 },
            failed: failed.iter().map(ToString::to_string).collect(),
            seconds: 1,
        };
        let row = ROWS.iter().find(|row| row.what == What::Redisson).unwrap();
        let outcome = |failed: &[&str]| Outcome {
            name: row.name.into(),
            version: "R 1".into(),
            parts: vec![part(failed)],
        };
        let good = tables(&[(row, outcome(&[]))]);
        assert!(good.contains("| R 1 | Maven Central |  | 7 passed |"), "{good}");
        let bad = tables(&[(row, outcome(&["redisson::x"]))]);
        assert!(bad.contains("7 passed, 1 failed (1)") && bad.contains("1. `redisson::x` fails"), "{bad}");
    }
}
