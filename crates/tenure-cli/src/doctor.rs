//! `tenure doctor`: checks whether the store is configured so that locks on it are safe.

use tenure::{Finding, Level, Result};

use crate::args::Global;
use crate::format::printable;
use crate::inspect::json;
use crate::output;
use crate::report::Report;
use crate::table::{Look, coloured, paint, width};

/// Prints the findings and returns the exit code: 1 if any is a warning or an error, else 0.
pub(crate) async fn doctor(global: &Global, report: Report) -> Result<u8> {
    let config = global.config()?;
    config.warnings().iter().for_each(|warning| report.warn(warning));
    let mut findings = config.diagnose().await?;
    let bad = findings.iter().any(|f| f.level >= Level::Warning);
    if report.quiet {
        findings.retain(|f| f.level >= Level::Warning);
    }
    if report.json {
        output(&json(&findings))?;
    } else {
        let mut text = format_findings(&findings, width(), coloured());
        if !report.quiet {
            text.push_str(&summary(&findings));
        }
        output(&text)?;
    }
    Ok(u8::from(bad))
}

/// Formats the findings as one paragraph each, grouped by the server they are about.
fn format_findings(findings: &[Finding], width: Option<usize>, coloured: bool) -> String {
    let checks = findings.iter().map(|f| f.check.len()).max().unwrap_or(0);
    let margin = "warning".len() + checks + 6;
    let text_width = width.unwrap_or(usize::MAX).max(margin + 20) - margin;
    let mut text = String::new();
    let mut place = None;
    for finding in findings {
        if finding.place != place {
            place.clone_from(&finding.place);
            let head = place.as_deref().map_or_else(|| "whole store".into(), printable);
            text.push_str(&format!("{}\n", paint(&head, Look::Bold, coloured)));
        }
        let level = paint(&format!("{:<7}", finding.level), look(finding.level), coloured);
        let mut head = format!("  {level}  {:<checks$}", finding.check);
        let says = wrap(&printable(&finding.what), text_width).into_iter().map(|line| (line, Look::Plain));
        let advice = finding.advice.iter().flat_map(|a| wrap(&printable(&format!("> {a}")), text_width));
        for (line, look) in says.chain(advice.map(|line| (line, Look::Dim))) {
            text.push_str(&format!("{head}  {}\n", paint(&line, look, coloured)));
            head = " ".repeat(margin - 2);
        }
    }
    text
}

fn look(level: Level) -> Look {
    match level {
        Level::Ok => Look::Green,
        Level::Warning => Look::Yellow,
        Level::Error => Look::Red,
        _ => Look::Dim,
    }
}

fn summary(findings: &[Finding]) -> String {
    let count =
        |level: Level, one: &str, many: &str| match findings.iter().filter(|f| f.level == level).count() {
            0 => None,
            1 => Some(format!("1 {one}")),
            n => Some(format!("{n} {many}")),
        };
    let counts = [
        count(Level::Error, "error", "errors"),
        count(Level::Warning, "warning", "warnings"),
        count(Level::Unknown, "check could not be run", "checks could not be run"),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() { "no problems found\n".into() } else { format!("{}\n", counts.join(", ")) }
}

/// Wraps the text at word boundaries. A word longer than `text_width` gets a line to itself.
fn wrap(text: &str, text_width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= text_width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_stand_under_each_other() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("longer-than-that a", 5), ["longer-than-that", "a"]);
        let findings = [Finding::warning("clock", "it is slow and behind", "wind it").at("h:1")];
        let shown = format_findings(&findings, Some(38), false);
        assert_eq!(
            shown,
            "h:1\n  warning  clock  it is slow and\n                  behind\n                  > wind it\n"
        );
        assert!(shown.lines().all(|l| l.len() <= 38));
        assert!(format_findings(&findings, None, true).contains("\x1b[33mwarning\x1b[0m"));
    }

    #[test]
    fn the_end_says_how_many() {
        let ok = Finding::ok("a", "b");
        assert_eq!(summary(std::slice::from_ref(&ok)), "no problems found\n");
        let warning = Finding::warning("a", "b", "c");
        let unknown = Finding::unknown("a", "b", "c");
        let all = [ok, warning.clone(), warning, unknown];
        assert_eq!(summary(&all), "2 warnings, 1 check could not be run\n");
    }
}
