//! The cost of telemetry that nobody consumes: the memory store with spans, events and metrics compiled in, compared
//! with the same without. Two builds of one small program take turns, since no build has both.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::Scale;
use crate::Result;
use crate::bars::RATE;
use crate::run::Run;
use crate::sides::{SILENT, UNWATCHED};

/// Number of process pairs started: memory layout varies between starts and affects the result as much as what is
/// measured here.
const STARTS: usize = 10;
/// Upper bound for a round.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn without_a_consumer(run: &mut Run, scale: Scale) -> Result<()> {
    run.progress.at("telemetry", "");
    let with = build("with", "metrics")?;
    let without = build("without", "tracing/release_max_level_off")?;
    for start in 0..STARTS {
        let (mut with, mut without) = (Pairs::start(&with)?, Pairs::start(&without)?);
        // The first round of each is a warm-up.
        with.round(scale.time).await?;
        without.round(scale.time).await?;
        for round in 0..scale.rounds {
            // Alternate, each first as often as second.
            let (a, b) = if (start + round) % 2 == 0 {
                let a = with.round(scale.time).await?;
                (a, without.round(scale.time).await?)
            } else {
                let b = without.round(scale.time).await?;
                (with.round(scale.time).await?, b)
            };
            run.samples.push("telemetry", RATE, UNWATCHED.name, a);
            run.samples.push("telemetry", RATE, SILENT.name, b);
        }
    }
    Ok(())
}

/// Builds the program with these features of the core, in a target folder of its own.
fn build(name: &str, features: &str) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let target = me.ancestors().nth(2).ok_or("no target directory")?.join(format!("pairs-{name}"));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--profile",
        "measure",
        "--package",
        "tenure-core",
        "--example",
        "pairs",
    ]);
    cargo.args(["--features", features, "--target-dir"]).arg(&target);
    if !cargo.status()?.success() {
        return Err(format!("the program {name} telemetry was not built").into());
    }
    Ok(target.join("measure/examples/pairs"))
}

/// The running program. Killed on drop.
struct Pairs {
    _child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Pairs {
    fn start(program: &PathBuf) -> Result<Self> {
        let mut command = tokio::process::Command::new(program);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let to = child.stdin.take().ok_or("no input")?;
        let from = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        Ok(Self { _child: child, to, from })
    }

    /// Pairs per second, for `time`.
    async fn round(&mut self, time: Duration) -> Result<f64> {
        self.to.write_all(format!("{}\n", time.as_millis()).as_bytes()).await?;
        let line = tokio::time::timeout(PATIENCE, self.from.next_line()).await??;
        Ok(line.ok_or("the program ended")?.parse()?)
    }
}
