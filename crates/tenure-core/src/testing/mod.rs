//! For tests of what is built on Tenure: a store in memory whose clock is driven by hand, which can lose a lock or be
//! down, and assertions that something runs under a lock.
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
//! Leases, `max_hold` and outages go by the clock of the store. How long a call waits goes by real time, also in
//! `try_acquire_for`: there is nothing to be gained by waiting for a clock that stands.
//!
//! For a network that delays, repeats and loses, put [`Faults`] around any store.

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

/// The longest step of [`Store::advance`]: somebody may have come in during the last one.
const STEP: Duration = Duration::from_secs(1);
/// Far longer than a busy machine takes to do what is due: only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A store in memory for one test. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    switch: Arc<Switch>,
    clients: Arc<Mutex<Vec<Weak<Engine>>>>,
}

impl Store {
    /// An empty store. Its clock stands.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { switch: Arc::new(Switch::new()), clients: Arc::default() }
    }

    /// Another client, as another process would be. Its calls give up after a second of real time when the store is
    /// down.
    pub fn client(&self) -> Client {
        let second = Duration::from_secs(1);
        self.client_with(Settings { call_timeout: second, outage: second, ..Settings::default() })
    }

    /// Another client with these settings.
    pub fn client_with(&self, settings: Settings) -> Client {
        let client = Client::with(self.switch.clone(), settings);
        let mut clients = self.clients.lock().unwrap();
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(&client.engine));
        client
    }

    /// Lets time pass while everybody is awake. What is due meanwhile has been done when this returns: locks were
    /// renewed where the store could be reached, and those whose time is over are lost.
    ///
    /// # Panics
    /// If that is not so after a long time.
    #[track_caller]
    pub fn advance(&self, by: Duration) {
        let clock = &self.switch.clock;
        let end = clock.now().after(by);
        while clock.now() < end {
            let now = clock.now();
            let events = self.cores().into_iter().flat_map(|core| core.keeper.all());
            let next = events.map(|hold| hold.next_event()).min().unwrap_or(end);
            // An event is due now only if it came up since the last step.
            let step = next.since(now).clamp(Duration::from_nanos(1), STEP);
            clock.advance(step.min(end.since(now)));
            self.settle();
        }
    }

    /// Lets time pass while everybody is asleep, as when a machine is suspended: nothing is renewed, and whoever wakes
    /// has lost what is over.
    ///
    /// # Panics
    /// As [`Store::advance`].
    #[track_caller]
    pub fn suspend(&self, by: Duration) {
        self.switch.clock.advance(by);
        self.settle();
    }

    /// Takes `name` from all who hold it, and tells them: their guards are lost when this returns, because of
    /// [`LostReason::Gone`].
    ///
    /// # Panics
    /// If nobody holds it: a test that loses nothing shows nothing.
    #[track_caller]
    pub fn lose(&self, name: impl AsRef<str>) {
        self.assert_held(&name);
        let name = good(name);
        let taken: Vec<HoldId> = self.switch.memory.store().change(&name, |ledger, now| {
            let holders = ledger.holders.clone();
            for holder in &holders {
                ledger.release(&Claim::of(holder.id, name.clone(), holder.kind), 0, now);
            }
            holders.iter().map(|holder| holder.id).collect()
        });
        for core in self.cores() {
            // By id: whoever waited may hold it by now.
            for hold in core.keeper.all().iter().filter(|hold| taken.contains(&hold.claim.id)) {
                core.lose(hold, LostReason::Gone);
            }
        }
    }

    /// Nobody reaches the store until what this returns is dropped: calls are `Unavailable`, and nothing is renewed.
    ///
    /// The release of a guard is tried again until its lease is over, by the clock of the store: let time pass
    /// meanwhile, or drop the guard.
    pub fn down(&self) -> Outage {
        Outage::of(&self.switch)
    }

    /// The same until this much time has passed, by the clock of the store.
    pub fn down_for(&self, d: Duration) {
        self.switch.off_for(d);
    }

    /// Whether anybody holds `name`, as the store sees it, down or not.
    ///
    /// # Panics
    /// If it cannot be a name.
    #[track_caller]
    pub fn is_held(&self, name: impl AsRef<str>) -> bool {
        self.switch.memory.store().held().contains(&good(name))
    }

    /// Panics unless somebody holds `name`. To be called from where the lock is needed: in what stands in for the
    /// database, say.
    ///
    /// # Panics
    /// If nobody does. Says what is held instead.
    #[track_caller]
    pub fn assert_held(&self, name: impl AsRef<str>) {
        let (name, held) = (good(name), self.switch.memory.store().held());
        assert!(held.contains(&name), "nobody holds {name:?}; held is {held:?}");
    }

    /// Panics if somebody holds `name`.
    ///
    /// # Panics
    /// If somebody does.
    #[track_caller]
    pub fn assert_free(&self, name: impl AsRef<str>) {
        // What was dropped a moment ago is on its way.
        self.settle();
        let name = good(name);
        assert!(!self.is_held(name.as_str()), "somebody holds {name:?}");
    }

    fn cores(&self) -> Vec<Arc<Core>> {
        let clients = self.clients.lock().unwrap();
        clients.iter().filter_map(Weak::upgrade).map(|engine| engine.core.clone()).collect()
    }

    /// Waits until the keepers of all clients have done what is due. They have threads of their own, so that waiting
    /// for them may block.
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
