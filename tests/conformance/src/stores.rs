//! The stores under test. Adding one takes an entry in [`stores`] and in [`NAMES`].

mod servers;

use std::sync::Arc;

use tenure::backend::Backend;
use tenure::{Family, Memory, Result};

use self::servers::Servers;

/// A store that cases run on; each case gets a fresh world.
pub trait Store: Send + Sync {
    /// Its name within the names of trials.
    fn name(&self) -> &'static str;

    /// The families it supports, known without starting it: the trial `store::serves_what_was_said` compares.
    fn serves(&self) -> &'static [Family] {
        Family::ALL
    }

    /// Whether other processes can use it.
    fn is_shared(&self) -> bool {
        true
    }

    /// Creates a fresh, empty world.
    fn world(&self) -> Result<Box<dyn World>>;
}

/// An isolated namespace of a store, which several backends may open.
pub trait World: Send + Sync {
    /// Opens a separate backend, as another process would have it.
    fn backend(&self) -> Result<Arc<dyn Backend>>;

    /// URL for other processes; `None` if the world is inside this process.
    fn url(&self) -> Option<String>;

    /// URL for processes that will be killed: where holds live as long as a session, theirs is short.
    fn victims_url(&self) -> Option<String> {
        self.url()
    }

    /// Whether this name, valid elsewhere, is refused here.
    fn refuses(&self, _name: &str) -> bool {
        false
    }
}

/// The names of all [`stores`]. A test run has a part for each of them.
pub const NAMES: [&str; 10] = [
    "memory",
    "sqlite",
    "redis",
    "redis-sentinel",
    "redis-cluster",
    "redis-plain",
    "redlock",
    "redlock-3",
    "zookeeper",
    "zookeeper-ensemble",
];

/// All stores under test.
pub fn stores() -> Vec<Arc<dyn Store>> {
    vec![
        Arc::new(InMemory),
        Arc::new(Sqlite),
        Arc::new(Servers::single()),
        Arc::new(Servers::sentinels()),
        Arc::new(Servers::cluster()),
        Arc::new(Servers::plain()),
        Arc::new(Servers::quorum_of_five()),
        Arc::new(Servers::quorum_of_three()),
        Arc::new(Servers::zookeeper()),
        Arc::new(Servers::ensemble()),
    ]
}

struct InMemory;

struct OneProcess(Arc<Memory>);

impl Store for InMemory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn world(&self) -> Result<Box<dyn World>> {
        Ok(Box::new(OneProcess(Arc::new(Memory::new()))))
    }
}

impl World for OneProcess {
    fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(self.0.clone())
    }

    fn url(&self) -> Option<String> {
        None
    }
}

struct Sqlite;

struct File(tempfile::TempDir);

impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn world(&self) -> Result<Box<dyn World>> {
        let dir =
            tempfile::tempdir().map_err(|e| tenure::Error::Config(format!("no temporary folder: {e}")))?;
        Ok(Box::new(File(dir)))
    }
}

impl World for File {
    fn backend(&self) -> Result<Arc<dyn Backend>> {
        let path = self.0.path().join("locks.db");
        Ok(Arc::new(tenure::sqlite::open(&path, tenure::sqlite::Options::default())?))
    }

    fn url(&self) -> Option<String> {
        Some(format!("sqlite:{}", self.0.path().join("locks.db").display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_is_named() {
        assert_eq!(stores().iter().map(|s| s.name()).collect::<Vec<_>>(), NAMES);
    }
}
