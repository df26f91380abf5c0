//! `cargo xtask queries`: runs every query of `docs/metrics.md`, of which the dashboard and the alert rules are made, on a
//! Prometheus that scrapes two processes; and tests the rules.

mod files;
mod http;
mod page;
mod prometheus;
mod started;

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::check::{done, ran, target};
use crate::packages::{self, PROMETHEUS};
use crate::scratch::Scratch;
use crate::{MISSING, cargo, root};
use page::Page;
use prometheus::{Prometheus, Sample};
use started::Started;

/// Two processes on one store: one leads, and the other waits to.
const ONE_OF_TWO_LEADS: &str = "count(up == 1) == 2 and sum(tenure_held{kind=\"leader\"}) == 1 and sum(tenure_waiting{kind=\"leader\"}) == 1";

/// `write`: writes the rules and the dashboard, and runs nothing.
pub(crate) fn queries(write: bool) -> ExitCode {
    if write {
        return done(page().and_then(|page| files::write(&page)));
    }
    if let Err(why) = packages::provide(PROMETHEUS) {
        eprintln!("{why}");
        return MISSING.into();
    }
    done(page().and_then(|page| run(&page)))
}

fn page() -> Result<Page, String> {
    let text = std::fs::read_to_string(root().join("docs/metrics.md"));
    let page = text.map_err(|e| e.to_string()).and_then(|text| Page::parse(&text));
    page.map_err(|why| format!("docs/metrics.md: {why}"))
}

fn run(page: &Page) -> Result<(), String> {
    ran(cargo(&["build", "--package=examples", "--bin=example"]))?;
    let rules = files::folder().join("alerts.yml");
    ran(promtool(&["check", "rules"], &rules))?;
    ran(promtool(&["test", "rules"], &files::folder().join("alerts_test.yml")))?;

    let scratch = Scratch::new("queries")?;
    let mut exporters = Vec::new();
    for name in ["exporter-1", "exporter-2"] {
        exporters.push(exporter(name, scratch.path())?);
    }
    let addresses: Vec<&str> = exporters.iter().map(|(_, address)| &**address).collect();
    check_metrics(addresses[0], scratch.path())?;

    let mut prometheus = Prometheus::start(scratch.path(), &addresses, &rules)?;
    prometheus.until_found(ONE_OF_TWO_LEADS)?;
    println!("\nseries  largest value             query");
    for panel in &page.panels {
        let found = prometheus.until_found(&panel.query)?;
        println!("{}  {}", shown(&found), panel.query);
    }
    for alert in &page.alerts {
        // None is as it should be.
        let found = prometheus.query(&alert.query)?;
        println!("{}  {}: {}", shown(&found), alert.name, alert.query);
    }
    let names: Vec<&str> = page.alerts.iter().map(|alert| &*alert.name).collect();
    prometheus.until_evaluated(&names)?;
    println!("\n{} queries, {} of them alerts", page.panels.len() + names.len(), names.len());
    Ok(())
}

/// Starts the example, and returns it with the address that it serves its metrics on.
fn exporter(name: &str, folder: &Path) -> Result<(Started, String), String> {
    // Its name says which of the examples it is.
    let program = folder.join("exporter");
    if !program.exists() {
        symlink(target().join("debug/example"), &program).map_err(|e| format!("{name}: {e}"))?;
    }
    let mut command = Command::new(program);
    command.arg(format!("sqlite:{}?lease=9s", folder.join("locks.db").display()));
    command.args(["--serve", "127.0.0.1:0"]);
    let mut started = Started::start(name, &command, folder)?;
    let address = started.until("its address", |log| {
        let line = log.lines().find_map(|line| line.strip_prefix("http://")?.strip_suffix("/metrics"));
        Ok(line.map(str::to_owned))
    })?;
    Ok((started, address))
}

/// What Prometheus says of the names, types and help texts of the metrics.
fn check_metrics(address: &str, folder: &Path) -> Result<(), String> {
    let file = folder.join("metrics");
    let metrics = http::get(address, "/metrics")?;
    let input = std::fs::write(&file, metrics).and_then(|()| File::open(&file));
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(input.map_err(|e| format!("{}: {e}", file.display()))?);
    let said = command.stderr(Stdio::piped()).output().map_err(|e| format!("promtool: {e}"))?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    if said.status.success() { Ok(()) } else { Err(format!("promtool check metrics: {text}")) }
}

fn promtool(words: &[&str], file: &Path) -> Command {
    let mut command = Command::new("promtool");
    command.args(words).arg(file);
    command
}

/// The number of series, and the largest value with its labels.
fn shown(found: &[Sample]) -> String {
    let largest = found.iter().filter(|s| s.value.is_finite()).max_by(|a, b| a.value.total_cmp(&b.value));
    let value = largest.map(|s| format!("{:.4} {}", s.value, s.labels)).unwrap_or_default();
    format!("{:>6}  {value:24}", found.len())
}
