//! Benchmarks, each beside its peers. Rounds of all sides alternate, so that a machine that slows down affects all; a bar
//! is judged by the median of the rounds' ratios, with its interval.

mod bars;
mod client;
mod cpu;
mod handover;
mod held;
mod memory;
mod outage;
mod progress;
mod report;
mod rounds;
mod run;
mod samples;
mod servers;
mod sides;
mod sqlite;
mod stats;
mod table;
mod telemetry;
mod waiting;
mod worker;
mod workloads;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use report::Row;
use run::{Plan, Run};

/// Any error ends the run.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Size of the benchmarks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Rounds of each side for rates. Many short ones, so that other load on the machine affects few of them.
    pub(crate) rounds: usize,
    /// Duration of a round on the memory store.
    pub(crate) memory: Duration,
    /// Duration of a round on SQLite.
    pub(crate) sqlite: Duration,
    /// Rounds of hand-overs, and the number of hand-overs in one.
    pub(crate) turns: usize,
    pub(crate) handovers: usize,
    /// Number of waiting processes, and how long they are observed.
    pub(crate) waiters: usize,
    pub(crate) watched: Duration,
    /// Whether to run the benchmark that needs two builds.
    pub(crate) builds: bool,
}

const FULL: Scale = Scale {
    rounds: 31,
    memory: Duration::from_millis(50),
    sqlite: Duration::from_millis(100),
    turns: 5,
    handovers: 50,
    waiters: 100,
    watched: Duration::from_secs(10),
    builds: true,
};

/// Checks that the benchmarks work, with rough results.
const QUICK: Scale = Scale {
    rounds: 9,
    memory: Duration::from_millis(20),
    sqlite: Duration::from_millis(50),
    turns: 5,
    handovers: 10,
    waiters: 20,
    watched: Duration::from_secs(3),
    builds: false,
};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["--client", ref rest @ ..] => client::main(rest),
        ["--worker", ref rest @ ..] => worker::main(rest),
        ["--outage"] => outage::outage(),
        ref words => options(words).and_then(|(plan, file)| bench(plan, file.as_deref())),
    };
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// `--only W3b,W4`, `--quick`, `--json FILE`.
fn options(words: &[&str]) -> Result<(Plan, Option<String>)> {
    let (mut plan, mut file) = (Plan::default(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match *word {
            "--quick" => plan.quick = true,
            "--json" => file = Some((*value()?).to_owned()),
            "--only" => plan.only.extend(value()?.split(',').map(str::to_owned)),
            _ => return Err(format!("there is no option `{word}`: --only, --quick, --json").into()),
        }
    }
    Ok((plan, file))
}

/// Runs the benchmarks, and returns 0 if no bar is missed; quick ones only fail on errors.
fn bench(plan: Plan, file: Option<&str>) -> Result<u8> {
    if cfg!(debug_assertions) {
        eprintln!("not optimised: the numbers mean nothing");
    }
    let quick = plan.quick;
    let scale = if quick { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut run = Run::new(plan);
    let rows: Vec<Row> = runtime.block_on(async {
        let mut rows = Vec::new();
        if run.plan.wants("embedded") {
            rows.push(memory::pairs(scale).await?);
            rows.push(sqlite::pairs(scale).await?);
            rows.push(handover::between_processes(scale).await?);
            rows.push(waiting::cpu_of_waiting(scale).await?);
        }
        if run.plan.wants("telemetry") && (scale.builds || !run.plan.only.is_empty()) {
            rows.push(telemetry::without_a_consumer(scale).await?);
        }
        run.all().await?;
        Ok::<_, Error>(rows)
    })?;
    let judged = table::judged(&run.samples);
    for name in run.samples.workloads() {
        println!("{}", table::workload(&run.samples, name).unwrap_or_default());
    }
    if !rows.is_empty() {
        println!("{}\n", report::table(&rows));
    }
    print!("{}", table::bars(&judged));
    if let Some(file) = file {
        let bars: Vec<_> = judged.iter().map(bars::Judged::json).collect();
        let all = json!({
            "optimised": !cfg!(debug_assertions), "samples": run.samples.json(), "bars": bars,
            "embedded": report::json(&rows),
        });
        std::fs::write(file, serde_json::to_string_pretty(&all)?)?;
    }
    let missed =
        judged.iter().any(|one| one.verdict == bars::Verdict::NotMet) || rows.iter().any(|row| !row.met);
    Ok(u8::from(missed && !quick))
}
