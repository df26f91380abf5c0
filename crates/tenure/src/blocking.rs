//! The same for code without a runtime: each call waits in its thread.
//!
//! ```
//! # fn main() -> tenure::Result<()> {
//! let client = tenure::blocking::connect("memory:")?;
//! let lock = client.lock("orders/42");
//!
//! let outer = lock.acquire()?; // waits; renewed until released
//! let inner = lock.acquire()?; // the same thread enters again
//! assert_eq!(inner.holds(), 2);
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
//! - **The thread is the owner.** It enters again what it holds, unless [`Lock::owner`] names another one. So a
//!   [`Guard`] stays in its thread: it is not `Send`. Threads that come later, whatever their ids, are other owners.
//! - **A call that waits cannot be dropped.** Where there is a limit to waiting, say so: [`Lock::try_acquire_for`],
//!   [`Latch::wait_for`], [`Election::campaign_for`], [`Guard::lost_for`]. Closing the client ends all waiting too.
//! - **Work is not stopped when the guard is lost.** Ask [`Guard::ensure`] before each effect, or pass the
//!   [fence](Guard::fence) along. Renewal goes on while the thread computes.
//!
//! # Beside async code
//!
//! [`Client::new`] makes a blocking client of an async one, [`Client::async_client`] gives it back: both are the same
//! client. Call it inside `tokio::task::spawn_blocking` or `block_in_place`; a thread of such a pool is an owner like
//! any other, for as long as its guards live.
//!
//! # Panics
//! Every call that asks the store panics on a thread that drives async tasks, in a task or inside `Runtime::block_on`,
//! since all other tasks of that thread would stand still. Nothing was begun then. Dropping a guard never does.

mod client;
mod count;
mod election;
mod guard;
mod latch;
mod lock;
mod multi;
mod rwlock;
mod semaphore;
mod thread;

use std::sync::Arc;

pub use client::Client;
pub use count::CountingSemaphore;
pub use election::{Election, Observer};
pub use guard::Guard;
pub use latch::Latch;
pub use lock::Lock;
pub use multi::{MultiGuard, MultiLock, multi};
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
#[cfg(feature = "macros")]
pub(crate) use thread::wait;

use crate::backend::Backend;
use crate::{Result, Settings};

/// A client of the store at `address`; see [`tenure::connect`](crate::connect).
///
/// # Errors
/// As [`tenure::connect`](crate::connect).
#[track_caller]
pub fn connect(address: &str) -> Result<Client> {
    thread::wait(crate::connect(address)).map(Client::new)
}

/// The same, beginning from other settings; those in the address win.
///
/// # Errors
/// As [`tenure::connect`](crate::connect).
#[track_caller]
pub fn connect_with(address: &str, settings: Settings) -> Result<Client> {
    thread::wait(crate::connect_with(address, settings)).map(Client::new)
}

/// The store at `address` alone, for a client of one's own making.
///
/// # Errors
/// As [`tenure::connect`](crate::connect).
#[track_caller]
pub fn open(address: &str) -> Result<Arc<dyn Backend>> {
    thread::wait(crate::open(address))
}
