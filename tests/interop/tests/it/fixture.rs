//! What a case works with: an environment that it shares with other trials, and a name that is its own.

use std::fmt;
use std::sync::Arc;

use interop::Pending;
use interop::trials::{Case, Environments, SharedProcess, Suite, TrialProcess};
use tokio::sync::mpsc;

/// A trial in an environment `E`. What it can do there is implemented for each environment.
pub(crate) struct Fixture<E> {
    environment: Arc<E>,
    name: String,
}

impl<E> Fixture<E> {
    pub(crate) fn new(environment: Arc<E>, name: &str) -> Self {
        Self { environment, name: name.to_owned() }
    }

    /// The name that no other trial uses.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A fixture for one part of the trial, with a name of its own.
    pub(crate) fn part(&self, name: &str) -> Self {
        Self { environment: self.environment.clone(), name: format!("{}.{name}", self.name) }
    }

    pub(crate) fn environment(&self) -> &E {
        &self.environment
    }

    /// The process, for requests in which `@` stands for the name of this trial.
    pub(crate) fn process(&self, process: SharedProcess) -> TrialProcess {
        TrialProcess::new(process, &self.name)
    }
}

impl<E> Clone for Fixture<E> {
    fn clone(&self) -> Self {
        Self { environment: self.environment.clone(), name: self.name.clone() }
    }
}

/// Adds the cases of a peer, each with its deployment. `start` starts the environment of a deployment on first use.
pub(crate) fn add_cases<D, E, X, F>(
    suite: &mut Suite,
    peer: &'static str,
    cases: Vec<(D, Case<Fixture<E>>)>,
    start: impl Fn(D) -> F + Copy + Send + Sync + 'static,
) where
    D: Copy + Ord + fmt::Display + Send + Sync + 'static,
    E: Send + Sync + 'static,
    X: fmt::Display + Send,
    F: Future<Output = Result<E, X>> + Send,
{
    let environments = Arc::new(Environments::default());
    suite.add(peer, cases, move |deployment, name| {
        let environments = environments.clone();
        async move {
            let environment = environments.get(deployment, || start(deployment)).await;
            Ok(Fixture::new(environment.map_err(|e| e.to_string())?, &name))
        }
    });
}

pub(crate) async fn wait_for_grant(waiting: Pending) {
    waiting.answer().await.expect("granted");
}

/// The numbers of the next `n` waiters that are granted the lock, in the order in which they are.
pub(crate) async fn receive_order(mut granted: mpsc::UnboundedReceiver<usize>, n: usize) -> Vec<usize> {
    let mut all = Vec::new();
    while all.len() < n {
        all.push(granted.recv().await.expect("every waiter is granted the lock"));
    }
    all
}
