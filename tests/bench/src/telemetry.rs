//! The cost of telemetry that nobody consumes: the memory store with spans, events and metrics compiled in, compared
//! with the same without. Two builds of one small program take turns, since no build has both.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::report::{Row, per_second};
use crate::stats::{Spread, median};
use crate::{Result, Scale};

/// At most two percent slower.
const BAR: f64 = 0.98;
/// Number of process pairs started: memory layout varies between starts and affects the result as much as what is
/// measured here.
const STARTS: usize = 10;
/// Upper bound for a round.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn without_a_consumer(scale: Scale) -> Result<Row> {
    let with = build("with", "metrics")?;
    let without = build("without", "tracing/release_max_level_off")?;
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for start in 0..STARTS {
        let (mut with, mut without) = (Pairs::start(&with)?, Pairs::start(&without)?);
        // The first round of each is a warm-up.
        with.round(scale.memory).await?;
        without.round(scale.memory).await?;
        for round in 0..scale.rounds {
            // Alternate, each first as often as second.
            let (a, b) = if (start + round) % 2 == 0 {
                let a = with.round(scale.memory).await?;
                (a, without.round(scale.memory).await?)
            } else {
                let b = without.round(scale.memory).await?;
                (with.round(scale.memory).await?, b)
            };
            ours.push(a);
            theirs.push(b);
            ratios.push(a / b);
        }
    }
    let (ours, theirs, ratio) = (median(&ours), median(&theirs), Spread::of(&ratios));
    Ok(Row {
        what: "memory: acquire + release, nobody watches".into(),
        ours: per_second(ours),
        peer: format!("{} without spans, events and metrics", per_second(theirs)),
        ratio: Some(ratio),
        bar: format!("ratio ≥ {BAR}"),
        met: ratio.median >= BAR,
        values: vec![("ours_per_second", ours), ("peer_per_second", theirs)],
    })
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
