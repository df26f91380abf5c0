//! For tests of code built on Tenure: a store in memory with a manual clock, which can lose a lock or be down, and
//! assertions that code runs under a lock.
//!
//! ```
//! # use tenure_core as tenure;
//! use std::time::Duration;
//! use tenure::testing::Store;
//!
//! /// What is to be tested.
//! async fn close_books(client: &tenure::Client, post: impl AsyncFn()) -> tenure::Result<()> {
//!     let guard = client.lock("books").acquire().await?;
//!     guard.while_held(post()).await?;
//!     guard.release().await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! let store = Store::new();
//! let client = store.client();
//!
//! // It posts under the lock, and only then.
//! close_books(&client, async || store.assert_held("books")).await?;
//! store.assert_free("books");
//!
//! // When the lock is lost, posting ends.
//! let stuck = async || {
//!     store.lose("books");
//!     std::future::pending().await
//! };
//! assert!(close_books(&client, stuck).await.unwrap_err().is_lost());
//!
//! // A lock is renewed for as long as its holder lives, and outlives a short outage, but not a long one.
//! let guard = client.lock("books").acquire().await?;
//! store.advance(Duration::from_secs(3600));
//! assert!(guard.is_held());
//! store.down_for(Duration::from_secs(15));
//! store.advance(Duration::from_secs(20));
//! assert!(guard.is_held());
//! let outage = store.down();
//! store.advance(Duration::from_secs(30));
//! assert!(!guard.is_held());
//! drop(outage);
//! # Ok(()) }
//! ```
//!
//! Leases, `max_hold` and outages use the clock of the store. The wait of a call uses real time, also in
//! `try_acquire_for`, because the clock of the store does not advance by itself.
//!
//! To simulate a network that delays, repeats and loses commands, wrap any store in [`Faults`].

mod faults;
mod holding;
mod switch;

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::engine::core::{Core, Engine};
use crate::{Claim, Client, HoldId, LostReason, Name, Settings};

pub use faults::{Call, Fate, Faults};
pub use holding::assert_holds;
pub use switch::Outage;
use switch::Switch;

/// The longest step of [`Store::advance`]: a new hold may have been acquired during the last one.
const STEP: Duration = Duration::from_secs(1);
/// Far longer than a busy machine needs for what is due: only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A store in memory for one test. Clones share the store.
#[derive(Clone, Debug)]
pub struct Store {
    switch: Arc<Switch>,
    clients: Arc<Mutex<Vec<Weak<Engine>>>>,
}

impl Store {
    /// Creates an empty store. Its clock does not advance by itself.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { switch: Arc::new(Switch::new()), clients: Arc::default() }
    }

    /// Creates another client, like that of another process. Its calls give up after a second of real time while the
    /// store is down.
    pub fn client(&self) -> Client {
        let second = Duration::from_secs(1);
        self.client_with(Settings { call_timeout: second, outage: second, ..Settings::default() })
    }

    /// Creates another client with these settings.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tenure_core as tenure;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
    /// let mut settings = tenure::Settings::default();
    /// settings.lease = Duration::from_secs(5);
    /// let store = tenure::testing::Store::new();
    /// let guard = store.client_with(settings).lock("books").acquire().await?;
    /// store.suspend(Duration::from_secs(6)); // the machine sleeps for longer than the lease
    /// assert!(!guard.is_held());
    /// # Ok(()) }
    /// ```
    pub fn client_with(&self, settings: Settings) -> Client {
        let client = Client::with(self.switch.clone(), settings);
        let mut clients = self.clients.lock().unwrap();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(&client.engine));
        client
    }

    /// Advances the clock while all clients are running. When this returns, everything that became due is done: locks
    /// were renewed if the store was reachable, and those whose lease ended are lost.
    ///
    /// # Panics
    /// If that does not happen within a long time.
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        let clock = &self.switch.clock;
        let end = clock.now().after(by);
        while clock.now() < end {
            let now = clock.now();
            let events = self.cores().into_iter().flat_map(|core| core.keeper.all());
            let next = events.map(|hold| hold.next_event()).min().unwrap_or(end);
            // An event is due now only if it was added since the last step.
            let step = next.since(now).clamp(Duration::from_nanos(1), STEP);
            clock.advance(step.min(end.since(now)));
            self.settle();
        }
    }

    /// Advances the clock as if the machine were suspended: nothing is renewed, and holds whose lease ended are lost.
    ///
    /// # Panics
    /// As [`Store::advance`].
    #[track_caller]
    pub fn suspend(&self, by: Duration) {
        self.switch.clock.advance(by);
        self.settle();
    }

    /// Takes `name` from all holders and notifies them: when this returns, their guards are lost with
    /// [`LostReason::Gone`].
    ///
    /// # Panics
    /// If nobody holds it, because the test would prove nothing.
    #[track_caller]
    pub fn lose(&self, name: impl AsRef<str>) {
        self.assert_held(&name);
        let name = good(name);
        let taken: Vec<HoldId> = self.switch.memory.store().change(&name, |ledger, now| {
            let holders = ledger.holders.clone();
            for holder in holders.iter() {
                ledger.release(&Claim::of(holder.id, name.clone(), holder.kind), 0, now);
            }
            holders.iter().map(|holder| holder.id).collect()
        });
        for core in self.cores() {
            // By id, because a waiter may already hold it.
            for hold in core.keeper.all().iter().filter(|hold| taken.contains(&hold.claim.id)) {
                core.lose(hold, LostReason::Gone);
            }
        }
    }

    /// Makes the store unreachable until the returned value is dropped: calls fail with `Unavailable`, and nothing is
    /// renewed.
    ///
    /// The release of a guard is retried until its lease is over by the clock of the store: advance the clock
    /// meanwhile, or drop the guard.
    pub fn down(&self) -> Outage {
        Outage::of(&self.switch)
    }

    /// Makes the store unreachable until this much time has passed by the clock of the store.
    pub fn down_for(&self, d: Duration) {
        self.switch.off_for(d);
    }

    /// Whether anybody holds `name` in the store, even while it is down.
    ///
    /// # Panics
    /// If the name is invalid.
    #[track_caller]
    pub fn is_held(&self, name: impl AsRef<str>) -> bool {
        self.switch.memory.store().held().contains(&good(name))
    }

    /// Panics unless somebody holds `name`. Call it where the lock is needed, for instance in a fake database.
    ///
    /// # Panics
    /// If nobody holds it. The message lists what is held.
    #[track_caller]
    pub fn assert_held(&self, name: impl AsRef<str>) {
        let (name, held) = (good(name), self.switch.memory.store().held());
        assert!(held.contains(&name), "nobody holds {name:?}; held is {held:?}");
    }

    /// Panics if somebody holds `name`.
    ///
    /// # Panics
    /// If somebody holds it.
    #[track_caller]
    pub fn assert_free(&self, name: impl AsRef<str>) {
        // A guard dropped just before may still be being released.
        self.settle();
        let name = good(name);
        assert!(!self.is_held(name.as_str()), "somebody holds {name:?}");
    }

    fn cores(&self) -> Vec<Arc<Core>> {
        let clients = self.clients.lock().unwrap();
        clients.iter().filter_map(Weak::upgrade).map(|engine| engine.core.clone()).collect()
    }

    /// Waits until the keepers of all clients have done what is due. They have their own threads, so blocking here is
    /// safe.
    #[track_caller]
    fn settle(&self) {
        let begun = Instant::now();
        loop {
            let (now, up) = (self.switch.clock.now(), !self.switch.is_off());
            let done = |core: &Arc<Core>| core.is_settled(now, up);
            if self.cores().iter().all(done) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "what is due was not done within {PATIENCE:?}");
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

#[track_caller]
fn good(name: impl AsRef<str>) -> Name {
    Name::new(name).unwrap_or_else(|e| panic!("{e}"))
}
