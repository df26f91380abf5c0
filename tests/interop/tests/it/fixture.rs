//! What a case works with: an environment that it shares with other trials, and a name that is its own.

use std::sync::Arc;

use interop::Pending;
use interop::trials::{SharedProcess, TrialProcess};
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
