//! What operators are told to query is there: every metric and label of `docs/metrics.md` is in what the example
//! `exporter` serves, and that is what `docs/observability.md` lists. A test of `xtask` checks that the alert rules and
//! the dashboard have the queries of that page.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use testbed::{PATIENCE, with_deadline};

use super::pages::root;

/// The names of the labels of each metric; those of a histogram with its endings.
type Metrics = BTreeMap<String, BTreeSet<String>>;

/// Killed on drop.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the example serves, without comments.
fn served() -> String {
    let mut command = super::program("exporter");
    command.args(["memory:", "--serve", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut exporter = Exporter(command.spawn().expect("it starts"));
    let said = BufReader::new(exporter.0.stdout.take().expect("a pipe"));
    with_deadline("the page of the exporter", PATIENCE, move || {
        let line = said.lines().next().expect("a line").unwrap();
        let address = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics"));
        let address = address.expect("the address of its page").to_owned();
        // Each kind is used within the first round.
        testbed::wait_until("a page with all kinds", || {
            let page = read(&address);
            page.contains("kind=\"count\"").then_some(page)
        })
    })
    .unwrap()
}

fn read(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, page) = answer.split_once("\r\n\r\n").expect("a page");
    page.lines().filter(|line| line.starts_with("tenure_")).map(|line| format!("{line}\n")).collect()
}

fn metrics(served: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in served.lines() {
        let (name, rest) = line.split_once('{').expect("a metric with labels");
        let (labels, _) = rest.split_once('}').expect("the end of the labels");
        let names =
            labels.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
        metrics.entry(name.to_owned()).or_default().extend(names);
    }
    metrics
}

/// The metrics that `docs/observability.md` lists, as Prometheus has them.
fn listed() -> Metrics {
    let page = std::fs::read_to_string(root().join("docs/observability.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `tenure_"));
    let mut metrics = Metrics::new();
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").collect();
        let name = format!("tenure_{}", cells[0].trim_end_matches('`'));
        let own = cells[2].split('`').nth(1);
        let labels: BTreeSet<_> = ["kind", "store"].into_iter().chain(own).map(str::to_owned).collect();
        if cells[1].starts_with("histogram") {
            metrics.insert(format!("{name}_sum"), labels.clone());
            metrics.insert(format!("{name}_count"), labels.clone());
            let with_bound = labels.into_iter().chain(["le".to_owned()]).collect();
            metrics.insert(format!("{name}_bucket"), with_bound);
        } else {
            metrics.insert(name, labels);
        }
    }
    metrics
}

pub(crate) fn the_exporter_serves_what_is_listed() {
    let served = served();
    assert_eq!(metrics(&served), listed());
    // With the first use of a kind: `increase` sees only what happens after a zero.
    for zero in [
        r#"tenure_lost_total{store="memory",kind="lock",reason="expired"} 0"#,
        r#"tenure_failures_total{store="memory",kind="read",call="renew"} 0"#,
        r#"tenure_deadlocks_total{store="memory",kind="fair_lock"} 0"#,
        r#"tenure_hold_seconds_count{store="memory",kind="count"} 0"#,
    ] {
        assert!(served.lines().any(|line| line == zero), "{zero} is not in\n{served}");
    }
}

/// A metric with the labels that are asked for.
fn asked_for(query: &str) -> Vec<(String, BTreeSet<String>)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let grouped: BTreeSet<String> = query
        .split("by (")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .flat_map(|(labels, _)| labels.split(", ").map(str::to_owned))
        .collect();
    let uses = query.match_indices("tenure_").map(|(at, _)| {
        let rest = &query[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let matchers =
            rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inside, _)| inside);
        let matched =
            matchers.split(',').filter_map(|m| m.split_once(['=', '!'])).map(|(label, _)| label.to_owned());
        (name.to_owned(), matched.chain(grouped.clone()).collect())
    });
    uses.collect()
}

/// The queries of the page: its blocks and the code in its table.
fn queries() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let blocks = page.split("```promql\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("tenure_"));
    let cells = rows.filter_map(|row| row.split('`').nth(1));
    blocks
        .map(|(block, _)| block.split_whitespace().collect::<Vec<_>>().join(" "))
        .chain(cells.map(str::to_owned))
        .collect()
}

pub(crate) fn every_query_is_about_what_is_listed() {
    let (queries, metrics) = (queries(), listed());
    assert!(queries.len() > 20, "{queries:?}");
    for query in &queries {
        let asked = asked_for(query);
        assert!(!asked.is_empty(), "{query}");
        for (name, labels) in asked {
            let there = metrics.get(&name).unwrap_or_else(|| panic!("{query}: there is no {name}"));
            assert!(labels.is_subset(there), "{query}: {name} has only {there:?}");
        }
    }
}

pub(crate) fn what_a_query_asks_for_is_found() {
    let labels = |of: &[&str]| of.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let query = r#"sum by (store, le) (rate(tenure_a_bucket{kind!="x",call=~"y|z"}[5m])) / tenure_b"#;
    let a = ("tenure_a_bucket".to_owned(), labels(&["call", "kind", "le", "store"]));
    assert_eq!(asked_for(query), [a, ("tenure_b".to_owned(), labels(&["le", "store"]))]);
}
