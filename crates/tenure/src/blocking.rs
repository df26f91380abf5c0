//! The blocking API, for code without a runtime: each call blocks its thread.
//!
//! ```
//! # fn main() -> tenure::Result<()> {
//! let client = tenure::blocking::connect("memory:")?;
//! let lock = client.lock("orders/42");
//!
//! let outer = lock.acquire()?; // waits; renewed until released
//! let inner = lock.acquire()?; // this thread enters again
//! assert_eq!(inner.reentry_count(), 2);
//! std::thread::scope(|s| {
//!     s.spawn(|| assert!(lock.try_acquire().unwrap().is_none())); // another one does not
//! });
//! inner.release()?;
//! outer.ensure(std::time::Duration::from_secs(5))?; // certain to be held for that long
//! outer.release()?;
//! client.close()
//! # }
//! ```
//!
//! Names, options and errors are those of the async API. What differs:
//!
//! - **The thread is the owner.** It re-enters what it holds, unless [`Lock::owner`] sets another owner. So a
//!   [`Guard`] stays in its thread: it is not `Send`. A thread that starts later is another owner, even if it reuses a
//!   thread id.
//! - **A blocking call cannot be cancelled.** To limit the wait, use [`Lock::try_acquire_for`], [`Latch::try_wait_for`],
//!   [`Election::try_campaign_for`] or [`Guard::lost_for`]. Closing the client ends all waits too.
//! - **Work is not stopped when the guard is lost.** Call [`Guard::ensure`] before each side effect, or pass the
//!   [fence](Guard::fence) along. Renewal continues while the thread computes.
//!
//! # With async code
//!
//! [`Client::new`] makes a blocking client from an async one, [`Client::async_client`] returns the async one: both are
//! the same client. Call it inside `tokio::task::spawn_blocking` or `block_in_place`; a thread of such a pool is an
//! owner like any other, for as long as its guards live.
//!
//! # Panics
//! Every call to the store panics on a thread that runs async tasks (in a task or inside `Runtime::block_on`), since
//! it would block all other tasks of that thread. It panics before anything is started. Dropping a guard never panics.
//! The methods do not repeat this.

mod client;
mod counting;
mod election;
mod guard;
mod latch;
mod lock;
mod multi;
mod run;
mod rwlock;
mod semaphore;
mod thread;

use std::sync::Arc;

pub use client::Client;
pub use counting::CountingSemaphore;
pub use election::{Election, Observer};
pub use guard::Guard;
pub use latch::Latch;
pub use lock::Lock;
pub use multi::{MultiGuard, MultiLock, multi};
pub use run::Once;
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
#[cfg(feature = "macros")]
pub(crate) use thread::block_on;

use crate::backend::Backend;
use crate::{Result, Settings};

/// Connects to the store at `address`; see [`tenure::connect`](crate::connect).
///
/// # Errors
/// As [`tenure::connect`](crate::connect).
#[track_caller]
pub fn connect(address: &str) -> Result<Client> {
    thread::block_on(crate::connect(address)).map(Client::new)
}

/// Connects with `settings` as defaults; options in the address override them.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// let mut settings = tenure::Settings::default();
/// settings.lease = Duration::from_secs(10);
/// let client = tenure::blocking::connect_with("memory:", settings)?;
/// # client.close() }
/// ```
///
/// # Errors
/// As [`tenure::connect`](crate::connect).
#[track_caller]
pub fn connect_with(address: &str, settings: Settings) -> Result<Client> {
    thread::block_on(crate::connect_with(address, settings)).map(Client::new)
}

/// Opens the store at `address` without a client, to build a client by hand.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// let store = tenure::blocking::open("memory:")?;
/// let client = tenure::Client::with(store, tenure::Settings::default());
/// let client = tenure::blocking::Client::new(client);
/// # client.close() }
/// ```
///
/// # Errors
/// As [`tenure::connect`](crate::connect).
#[track_caller]
pub fn open(address: &str) -> Result<Arc<dyn Backend>> {
    thread::block_on(crate::open(address))
}
