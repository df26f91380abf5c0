//! Tests of shared locks: cases that run on several deployments, and a final table of what was shared.
//!
//! A trial is named `PEER::DEPLOYMENT::KIND::CASE`, and runs on a fixture that it is given.

mod case;
mod process;
mod shared;
mod table;

use std::fmt;
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Runtime};

pub use case::{Case, Direction};
pub use process::{SharedProcess, SharedVictim, TrialProcess};
pub use shared::{Environments, Processes};
use table::Table;

/// A case that waits in vain fails with a message after `PATIENCE`; this limit is for waits without one.
const LIMIT: Duration = Duration::from_secs(600);

/// The trials of all peers, which run together.
pub struct Suite {
    runtime: Runtime,
    trials: Vec<Trial>,
    tables: Vec<Arc<dyn fmt::Display>>,
}

impl Suite {
    /// Creates an empty suite.
    #[allow(clippy::new_without_default)] // It starts threads.
    pub fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
        Self { runtime, trials: Vec::new(), tables: Vec::new() }
    }

    /// Adds these cases, each with its deployment. `fixture` prepares a trial, and may take long for the first one at a
    /// deployment; its second argument is a name unique to the case. What the closure captures is dropped after the
    /// last trial.
    pub fn add<P, S, F>(
        &mut self,
        peer: &'static str,
        cases: Vec<(P, Case<S>)>,
        fixture: impl Fn(P, String) -> F + Send + Sync + 'static,
    ) where
        P: Copy + Ord + fmt::Display + Send + Sync + 'static,
        S: Send + 'static,
        F: Future<Output = Result<S, Failed>> + Send,
    {
        let (fixture, table) = (Arc::new(fixture), Arc::new(Table::new(peer)));
        for (deployment, case) in cases {
            let name = format!("{}::{deployment}::{}::{}", peer.to_lowercase(), case.kind, case.name);
            let (handle, fixture, table) = (self.runtime.handle().clone(), fixture.clone(), table.clone());
            let trial = Trial::test(name, move || {
                let outcome = handle.block_on(async {
                    let own = format!("{}.{}", case.kind.replace('/', "-"), case.name);
                    let fixture = fixture(deployment, own).await?;
                    Ok(testbed::run_case(LIMIT, (case.run)(fixture)).await?)
                });
                table.add(deployment, case.kind, case.direction, outcome.is_ok());
                outcome
            });
            self.trials.push(trial.with_kind(""));
        }
        self.tables.push(table);
    }

    /// Runs the trials as the main function of a test.
    pub fn run(self) -> ExitCode {
        let mut args = Arguments::from_args();
        // More threads than cores, since cases mostly wait.
        args.test_threads = args.test_threads.or(Some(6));
        let conclusion = libtest_mimic::run(&args, self.trials);
        self.tables.iter().for_each(|table| print!("{table}"));
        self.runtime.shutdown_background();
        conclusion.exit_code()
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite").field("trials", &self.trials.len()).finish()
    }
}
