//! Benchmarks, each beside its peers. Rounds of all sides alternate, so that a machine that slows down affects all; a bar
//! is judged by the median of the rounds' ratios, with its interval.

mod bars;
mod client;
mod cpu;
mod embedded;
mod growth;
mod held;
mod outage;
mod plot;
mod progress;
mod report;
mod run;
mod samples;
mod servers;
mod sides;
mod stats;
mod table;
mod waiters;
mod workloads;

use serde_json::json;
use std::process::ExitCode;

use run::{Plan, Run};
use samples::Samples;

/// Any error ends the run.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["--client", ref rest @ ..] => client::main(rest),
        ["--worker", ref rest @ ..] => embedded::worker::main(rest),
        ["--outage"] => outage::outage(),
        ["--report", file] => report(file),
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

/// `--only W3b,W4`, `--quick`, `--json FILE`; or `--report FILE` alone.
fn options(words: &[&str]) -> Result<(Plan, Option<String>)> {
    let (mut plan, mut file) = (Plan::default(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match *word {
            "--quick" => plan.quick = true,
            "--json" => file = Some((*value()?).to_owned()),
            "--only" => plan.only.extend(value()?.split(',').map(str::to_owned)),
            _ => return Err(format!("there is no option `{word}`: --only, --quick, --json, --report").into()),
        }
    }
    plan.check()?;
    Ok((plan, file))
}

/// Runs the benchmarks, and returns 0 if no bar is missed; quick ones only fail on errors.
fn bench(plan: Plan, file: Option<&str>) -> Result<u8> {
    if cfg!(debug_assertions) {
        eprintln!("not optimised: the numbers mean nothing");
    }
    let quick = plan.quick;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut run = Run::new(plan);
    runtime.block_on(run.all())?;
    let judged = table::judged(&run.samples);
    for name in run.samples.workloads() {
        println!("{}", table::workload(&run.samples, name).unwrap_or_default());
    }
    print!("{}", table::bars(&judged));
    if let Some(file) = file {
        let bars: Vec<_> = judged.iter().map(bars::Judged::json).collect();
        let all = json!({
            "optimised": !cfg!(debug_assertions), "machine": report::machine(),
            "samples": run.samples.json(), "bars": bars,
        });
        std::fs::write(file, serde_json::to_string_pretty(&all)?)?;
    }
    let missed = judged.iter().any(|one| one.verdict == bars::Verdict::NotMet);
    Ok(u8::from(missed && !quick))
}

/// Writes the page and its plots from what a run wrote.
fn report(file: &str) -> Result<u8> {
    let all: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let samples = Samples::from_json(&all["samples"])?;
    report::write(&samples, all["machine"].as_str().unwrap_or_default())?;
    Ok(0)
}
