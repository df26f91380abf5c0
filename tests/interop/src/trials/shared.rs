//! What the trials of a peer share: an environment for each deployment, and the processes of an environment.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell};

use super::SharedProcess;

/// An environment for each deployment, started when it is first used.
pub struct Environments<D, E>(Mutex<BTreeMap<D, Arc<OnceCell<Arc<E>>>>>);

impl<D: Ord, E> Environments<D, E> {
    /// Returns the environment of this deployment. Calls `start` if none has been started yet.
    ///
    /// # Errors
    /// As `start`, which is called again the next time.
    pub async fn get<X, F: Future<Output = Result<E, X>>>(
        &self,
        deployment: D,
        start: impl FnOnce() -> F,
    ) -> Result<Arc<E>, X> {
        let cell = self.0.lock().await.entry(deployment).or_default().clone();
        let environment = cell.get_or_try_init(|| async { start().await.map(Arc::new) }).await;
        environment.cloned()
    }
}

impl<D, E> Default for Environments<D, E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<D, E> fmt::Debug for Environments<D, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environments").finish_non_exhaustive()
    }
}

/// The processes that all trials of an environment share, each started when it is first used.
#[derive(Default)]
pub struct Processes(Mutex<HashMap<String, SharedProcess>>);

impl Processes {
    /// Returns the process of this name. Calls `start` if none has been started yet.
    pub async fn get(&self, name: String, start: impl AsyncFnOnce() -> SharedProcess) -> SharedProcess {
        let mut all = self.0.lock().await;
        if let Some(process) = all.get(&name) {
            return process.clone();
        }
        let process = start().await;
        all.insert(name, process.clone());
        process
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processes").finish_non_exhaustive()
    }
}
