//! The store in this process's memory: the reference implementation, and the fastest store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::backend::{Clock, Environment, Finding, Info, Interest, Name, Result, Watch, wall_micros};
use crate::ledger::{Ledger, LedgerStore, Ledgered, Now, Watched};

/// A store in memory. Each instance is separate; to share one, clone its client.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// assert!(guard.is_held());
/// guard.release().await
/// # }
/// ```
pub type Memory = Ledgered<MemoryStore>;

impl Memory {
    /// Creates an empty store.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self::with_clock(Clock::boot())
    }

    /// Creates an empty store on the given clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self::in_environment(Environment::with_clock(clock))
    }

    /// Creates an empty store with these sources of time, chance and threads.
    pub fn in_environment(environment: Environment) -> Self {
        let mut info = Info::new("memory", environment);
        info.fenced = true;
        info.poll = Duration::from_secs(2);
        Self::over(MemoryStore {
            info,
            table: Mutex::new(Table { ledgers: HashMap::new(), floor: 0, sweep_at: 1024 }),
            watched: Arc::default(),
        })
    }
}

/// The storage of a [`Memory`].
#[derive(Debug)]
pub struct MemoryStore {
    info: Info,
    table: Mutex<Table>,
    watched: Arc<Watched>,
}

#[derive(Debug)]
struct Table {
    ledgers: HashMap<Name, Ledger>,
    /// The highest fence of the ledgers that were removed: new ones start above it.
    floor: u64,
    sweep_at: usize,
}

impl MemoryStore {
    fn now(&self) -> Now {
        Now { clock: 0, tick: self.info.clock().now().as_nanos() / 1000, wall: wall_micros() }
    }

    pub(crate) fn change<R>(&self, name: &Name, change: impl FnOnce(&mut Ledger, Now) -> R) -> R {
        let mut table = self.table.lock().unwrap();
        let now = self.now();
        let (result, effects) = match table.ledgers.get_mut(name) {
            Some(ledger) => (change(ledger, now), std::mem::take(&mut ledger.effects)),
            None => {
                table.sweep(now);
                let mut ledger = Ledger::above(table.floor);
                let result = change(&mut ledger, now);
                let effects = std::mem::take(&mut ledger.effects);
                if effects.dirty {
                    table.ledgers.insert(name.clone(), ledger);
                }
                (result, effects)
            }
        };
        drop(table);
        self.watched.notify(name, &effects);
        result
    }
}

impl MemoryStore {
    /// Returns the names that are currently held.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn held(&self) -> Vec<Name> {
        let table = self.table.lock().unwrap();
        let now = self.now();
        let held = |ledger: &Ledger| {
            // On a copy, because pruning the ledger itself would have to wake waiters.
            let mut ledger = ledger.clone();
            ledger.prune(now);
            !ledger.holders.is_empty()
        };
        let mut names: Vec<_> =
            table.ledgers.iter().filter(|(_, l)| held(l)).map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }
}

impl Table {
    /// Removes idle ledgers. They are kept for reuse until there are many; then all are removed at once.
    fn sweep(&mut self, now: Now) {
        if self.ledgers.len() < self.sweep_at {
            return;
        }
        let floor = &mut self.floor;
        self.ledgers.retain(|_, ledger| {
            ledger.prune(now);
            let idle = ledger.is_idle();
            if idle {
                *floor = (*floor).max(ledger.fence);
            }
            !idle
        });
        self.sweep_at = 1024.max(self.ledgers.len() * 2);
    }
}

impl LedgerStore for MemoryStore {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn update<R: Send + 'static>(
        &self,
        name: &Name,
        change: impl FnMut(&mut Ledger, Now) -> R + Send,
    ) -> Result<R> {
        Ok(self.change(name, change))
    }

    async fn update_many<R: Send + 'static>(
        &self,
        names: &[&Name],
        mut change: impl FnMut(usize, &mut Ledger, Now) -> R + Send,
    ) -> Result<Vec<R>> {
        let each = names.iter().enumerate();
        Ok(each.map(|(i, name)| self.change(name, |ledger, now| change(i, ledger, now))).collect())
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        Ok(self.watched.subscribe(name, interest))
    }

    async fn peek(&self, name: &Name) -> Result<Option<(Ledger, Now)>> {
        let table = self.table.lock().unwrap();
        Ok(table.ledgers.get(name).map(|ledger| (ledger.clone(), self.now())))
    }

    async fn scan<R: Send>(
        &self,
        prefix: &str,
        limit: usize,
        mut read: impl FnMut(&Name, Ledger, Now) -> Option<R> + Send,
    ) -> Result<Vec<R>> {
        let table = self.table.lock().unwrap();
        let now = self.now();
        let wanted =
            |(name, ledger): &(&Name, &Ledger)| name.as_str().starts_with(prefix) && !ledger.is_idle();
        let mut found: Vec<_> = table.ledgers.iter().filter(wanted).collect();
        found.sort_by_key(|(name, _)| *name);
        Ok(found
            .into_iter()
            .filter_map(|(name, ledger)| read(name, ledger.clone(), now))
            .take(limit)
            .collect())
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        Ok(vec![Finding::warning(
            "reach",
            "locks in memory are seen by this process only, and gone with it",
            "use sqlite: for the processes of one machine, redis:// for several machines",
        )])
    }
}
