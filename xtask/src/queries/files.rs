//! What operators import, made of the page: rules for Prometheus and a dashboard for Grafana.

use std::path::PathBuf;

use super::page::{Alert, Page, Panel};
use crate::root;

const PANELS_PER_ROW: usize = 3;
/// In the units of Grafana's grid, which is 24 wide.
const WIDTH: usize = 24 / PANELS_PER_ROW;
const HEIGHT: usize = 8;

/// The folder of the files.
pub(super) fn folder() -> PathBuf {
    root().join("docs/monitoring")
}

/// The name of each file, and what must be in it.
///
/// # Errors
/// A unit that is not known.
pub(super) fn all(page: &Page) -> Result<[(&'static str, String); 2], String> {
    Ok([("alerts.yml", rules(&page.alerts)), ("grafana.json", dashboard(&page.panels)?)])
}

fn rules(alerts: &[Alert]) -> String {
    let rules = alerts.iter().map(rule).collect::<String>();
    format!(
        "# Written by `cargo xtask queries --write` from docs/metrics.md, where each alert is explained.\n\
         groups:\n  - name: tenure\n    rules:\n{rules}"
    )
}

fn rule(Alert { name, severity, pause, summary, query }: &Alert) -> String {
    let pause = pause.as_ref().map(|pause| format!("        for: {pause}\n")).unwrap_or_default();
    let summary = summary.replace('\'', "''");
    format!(
        "      - alert: {name}\n        expr: >-\n          {query}\n{pause}        labels:\n          \
         severity: {severity}\n        annotations:\n          summary: '{summary}'\n"
    )
}

fn dashboard(panels: &[Panel]) -> Result<String, String> {
    let panels = panels.iter().enumerate().map(|(n, of)| panel(n, of)).collect::<Result<Vec<_>, _>>()?;
    Ok(include_str!("grafana.json").replace("\"PANELS\"", panels.join(",\n").trim_start()))
}

fn panel(n: usize, Panel { question, unit, query }: &Panel) -> Result<String, String> {
    let place = [n % PANELS_PER_ROW * WIDTH, n / PANELS_PER_ROW * HEIGHT];
    let fields = [
        ("ID", (n + 1).to_string()),
        ("TITLE", question.clone()),
        ("UNIT", unit_in_grafana(unit)?.to_owned()),
        ("QUERY", query.clone()),
        ("LEGEND", legend(query)),
        ("LEFT", place[0].to_string()),
        ("TOP", place[1].to_string()),
        ("WIDTH", WIDTH.to_string()),
        ("HEIGHT", HEIGHT.to_string()),
    ];
    let mut text = include_str!("panel.json").trim_end().to_owned();
    for (field, value) in fields {
        // Numbers stand without quotes.
        let value = if value.parse::<u32>().is_ok() { value } else { quoted(&value) };
        text = text.replace(&format!("\"{field}\""), &value);
    }
    Ok(text)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn unit_in_grafana(unit: &str) -> Result<&'static str, String> {
    match unit {
        "number" => Ok("short"),
        "per second" => Ok("ops"),
        "seconds" => Ok("s"),
        other => Err(format!("Grafana has no unit for {other:?} here")),
    }
}

/// The labels of a result: those of the outermost `by`.
fn labels(query: &str) -> Vec<&str> {
    let by = query.split_once("by (").and_then(|(_, rest)| rest.split_once(')'));
    // `histogram_quantile` takes this one away.
    by.map(|(labels, _)| labels.split(", ").filter(|label| *label != "le").collect()).unwrap_or_default()
}

fn legend(query: &str) -> String {
    labels(query).iter().map(|label| format!("{{{{{label}}}}}")).collect::<Vec<_>>().join(" ")
}

/// # Errors
/// When a file cannot be written.
pub(super) fn write(page: &Page) -> Result<(), String> {
    for (name, text) in all(page)? {
        let file = folder().join(name);
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("{}", file.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_dashboard_are_those_of_the_page() {
        let page = super::super::page().unwrap();
        for (name, text) in all(&page).unwrap() {
            let there = std::fs::read_to_string(folder().join(name)).unwrap_or_default();
            assert!(there == text, "docs/monitoring/{name}: `cargo xtask queries --write` writes it");
        }
    }

    #[test]
    fn the_dashboard_has_what_grafana_needs() {
        let page = super::super::page().unwrap();
        let board: serde_json::Value = serde_json::from_str(&dashboard(&page.panels).unwrap()).unwrap();
        assert_eq!(board["templating"]["list"][0]["type"], "datasource");
        let panels = board["panels"].as_array().unwrap();
        assert_eq!(panels.len(), page.panels.len());
        for (n, (panel, of)) in panels.iter().zip(&page.panels).enumerate() {
            assert_eq!(panel["id"], n + 1);
            assert_eq!(panel["title"], *of.question);
            assert_eq!(panel["targets"][0]["expr"], *of.query);
            assert_eq!(panel["targets"][0]["datasource"]["uid"], "${datasource}");
            assert!(panel["targets"][0]["legendFormat"].as_str().unwrap().starts_with("{{store}}"));
            assert!(
                ["short", "ops", "s"].iter().any(|unit| panel["fieldConfig"]["defaults"]["unit"] == *unit)
            );
            assert!(panel["gridPos"]["x"].as_u64().unwrap() + panel["gridPos"]["w"].as_u64().unwrap() <= 24);
        }
    }
}
