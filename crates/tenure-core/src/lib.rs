//! The backend-neutral core of Tenure. Users depend on the `tenure` crate, which re-exports what they need; this
//! crate is for those who write a backend.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
//! use tenure_core::{Client, Memory};
//!
//! let client = Client::new(Memory::new()); // or any other `Backend`
//! let guard = client.lock("orders/42").acquire().await?;
//! guard.release().await
//! # }
//! ```
//!
//! Three layers, each of which uses only those below it:
//!
//! - `api`: what users call. Templates ([`Lock`], [`RwLock`], [`Semaphore`], [`Latch`], [`Election`]) and guards.
//! - `engine`: turns a claim into a hold and keeps it alive: the first attempt in the caller's task, waiting at the
//!   gate, renewal by the keeper, releases in the background, telemetry.
//! - [`backend`]: the trait that a store implements, and the values that go through it.
//!
//! [`ledger`] implements the rules of all kinds over plain data; the memory store is built on it. `cargo xtask check`
//! fails if a layer refers to one above it.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod api;
pub mod backend;
mod engine;
pub mod ledger;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use api::{
    Client, CountingSemaphore, Election, Guard, Held, Latch, Leader, Lock, MultiGuard, MultiLock, Observer,
    Once, RwLock, Semaphore, multi,
};
pub use backend::{
    Admin, Backend, Background, Chance, Claim, ClientId, Clock, Deadlock, Drift, Durability, Environment,
    Error, Family, Fence, Finding, HeldBy, HoldId, Holder, Kind, Level, Link, Lost, LostReason, Name, OpId,
    Owner, Process, Result, Snapshot, Suspicion, Time, Waiter, wall_micros,
};
pub use engine::{Deadlocks, Settings};
pub use ledger::{Memory, MemoryStore};
