//! The alerts and queries of `docs/metrics.md`, of which everything else here is made.

/// A paragraph that begins with `**Name**, severity, for 5m: Summary.`, and the block of PromQL after it.
#[derive(Debug, PartialEq)]
pub(super) struct Alert {
    pub(super) name: String,
    pub(super) severity: String,
    /// How long the query must have a result before it fires.
    pub(super) pause: Option<String>,
    /// The first sentence.
    pub(super) summary: String,
    pub(super) query: String,
}

/// A row of the table under *Dashboard*.
#[derive(Debug, PartialEq)]
pub(super) struct Panel {
    pub(super) question: String,
    pub(super) unit: String,
    pub(super) query: String,
}

#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) alerts: Vec<Alert>,
    pub(super) panels: Vec<Panel>,
}

impl Page {
    /// # Errors
    /// What is not as expected.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let alerts = section(text, "Alerts")?;
        let mut found = Vec::new();
        let mut parts = alerts.split("```promql\n");
        let mut before = parts.next().unwrap_or_default();
        for part in parts {
            let (query, after) = part.split_once("```").ok_or("a block of PromQL has no end")?;
            let paragraph = before.trim_end().rsplit("\n\n").next().unwrap_or_default();
            let alert = alert(&one_line(paragraph), one_line(query));
            found.push(alert.ok_or(format!("no `**Name**, severity: Summary.` but: {paragraph}"))?);
            before = after;
        }
        let rows = section(text, "Dashboard")?.lines().filter(|line| line.starts_with("| ")).skip(2);
        let panels = rows.map(|row| panel(row).ok_or(format!("no question, unit and query: {row}")));
        let page = Self { alerts: found, panels: panels.collect::<Result<_, _>>()? };
        if page.alerts.is_empty() || page.panels.is_empty() {
            return Err("there are no alerts, or no panels".into());
        }
        Ok(page)
    }
}

fn section<'a>(text: &'a str, title: &str) -> Result<&'a str, String> {
    let heading = format!("\n## {title}\n");
    let (_, rest) = text.split_once(&heading).ok_or(format!("there is no section {title:?}"))?;
    Ok(rest.split_once("\n## ").map_or(rest, |(section, _)| section))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn alert(paragraph: &str, query: String) -> Option<Alert> {
    let (name, rest) = paragraph.strip_prefix("**")?.split_once("**, ")?;
    let (how, text) = rest.split_once(": ")?;
    let (severity, pause) = match how.split_once(", for ") {
        Some((severity, pause)) => (severity, Some(pause.to_owned())),
        None => (how, None),
    };
    let summary = text.split_inclusive('.').next()?.to_owned();
    Some(Alert { name: name.to_owned(), severity: severity.to_owned(), pause, summary, query })
}

fn panel(row: &str) -> Option<Panel> {
    let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
    let [question, unit, query] = cells[..] else { return None };
    let query = query.strip_prefix('`')?.strip_suffix('`')?.to_owned();
    Some(Panel { question: question.to_owned(), unit: unit.to_owned(), query })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Metrics\n\n## Alerts\n\nSome words.\n\n**A**, critical: All\nis lost. More.\n\n\
        ```promql\nsum(a)\n  > 0\n```\n\n**B**, warning, for 5m: Some.\n\n```promql\nb\n```\n\nAnd so on.\n\n\
        ## Dashboard\n\n| question | unit | query |\n| --- | --- | --- |\n| How many? | number | `sum(a)` |\n";

    #[test]
    fn alerts_and_panels_are_found() {
        let page = Page::parse(TEXT).unwrap();
        let alert = |name: &str, severity: &str, pause: Option<&str>, summary: &str, query: &str| Alert {
            name: name.into(),
            severity: severity.into(),
            pause: pause.map(str::to_owned),
            summary: summary.into(),
            query: query.into(),
        };
        let b = alert("B", "warning", Some("5m"), "Some.", "b");
        assert_eq!(page.alerts, [alert("A", "critical", None, "All is lost.", "sum(a) > 0"), b]);
        let panel = Panel { question: "How many?".into(), unit: "number".into(), query: "sum(a)".into() };
        assert_eq!(page.panels, [panel]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (there, instead, says) in [
            ("**B**, warning", "B", "B, for 5m: Some."),
            ("`sum(a)`", "sum(a)", "| How many? | number | sum(a) |"),
            ("## Dashboard", "## Board", "\"Dashboard\""),
            ("b\n```", "b\n", "no end"),
        ] {
            let wrong = Page::parse(&TEXT.replace(there, instead)).unwrap_err();
            assert!(wrong.contains(says), "{wrong}");
        }
    }
}
