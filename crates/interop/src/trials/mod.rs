//! Tests of shared locks: cases that are run at several places, and at the end a table that says what was shared.
//!
//! A trial is `PEER::PLACE::KIND::CASE`, and works on a stage that it is given.

mod case;
mod party;
mod table;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Runtime};

pub use case::{Case, Way};
pub use party::{Doomed, Party, Shared};
use table::Table;

/// A case that waits in vain says what for after `PATIENCE`; this is for one that waits without it.
const LIMIT: Duration = Duration::from_secs(600);

/// The trials of all peers, which are run together.
pub struct Suite {
    runtime: Runtime,
    trials: Vec<Trial>,
    tables: Vec<Arc<dyn fmt::Display>>,
}

impl Suite {
    /// None.
    #[allow(clippy::new_without_default)] // It starts threads.
    pub fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
        Self { runtime, trials: Vec::new(), tables: Vec::new() }
    }

    /// Each of these cases at its place. `stage` sets the scene for a trial, which may take any time when it is the first
    /// one there; the second argument is a name that no other case has. Whatever it holds is dropped after the last trial.
    pub fn add<P, S, F>(
        &mut self,
        peer: &'static str,
        cases: Vec<(P, Case<S>)>,
        stage: impl Fn(P, String) -> F + Send + Sync + 'static,
    ) where
        P: Copy + Ord + fmt::Display + Send + Sync + 'static,
        S: Send + 'static,
        F: Future<Output = Result<S, Failed>> + Send,
    {
        let (stage, table) = (Arc::new(stage), Arc::new(Table::new(peer)));
        for (place, case) in cases {
            let name = format!("{}::{place}::{}::{}", peer.to_lowercase(), case.kind, case.name);
            let (handle, stage, table) = (self.runtime.handle().clone(), stage.clone(), table.clone());
            let trial = Trial::test(name, move || {
                let outcome = handle.block_on(async {
                    let own = format!("{}.{}", case.kind.replace('/', "-"), case.name);
                    play(&case, stage(place, own).await?).await
                });
                table.add(place, case.kind, case.way, outcome.is_ok());
                outcome
            });
            self.trials.push(trial.with_kind(""));
        }
        self.tables.push(table);
    }

    /// The main function of a test.
    pub fn run(self) -> ExitCode {
        let mut args = Arguments::from_args();
        // Most cases wait most of the time.
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

async fn play<S: Send + 'static>(case: &Case<S>, stage: S) -> Result<(), Failed> {
    let work = tokio::spawn((case.run)(stage));
    let stop = work.abort_handle();
    let outcome = tokio::time::timeout(LIMIT, work).await;
    stop.abort();
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(panic)) => {
            let text = panic.try_into_panic().map_or_else(|e| e.to_string(), |p| panic_text(p.as_ref()));
            Err(text.into())
        }
        Err(_) => Err(format!("not done within {LIMIT:?}").into()),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}
