//! Locks on ZooKeeper in Curator's layout, shared with JVM services that use Curator.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
//! use tenure_zookeeper::{Options, ZooKeeper};
//!
//! let store = ZooKeeper::open(Options::new(["zk-1:2181", "zk-2:2181", "zk-3:2181"])).await?;
//! let client = tenure_core::Client::new(store);
//! let guard = client.lock("orders/42").acquire().await?; // an InterProcessMutex on /orders/42
//! guard.release().await
//! # }
//! ```
//!
//! All holds of a store live as long as its session: the servers end it when they have heard nothing of this process
//! for the session timeout, and the guards turn lost before that, by this machine's own clock.

mod admin;
mod credentials;
mod error;
mod options;
mod recipe;
mod session;
mod store;
mod subscribers;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod wire;

pub use options::{Access, Login, Options, Tls};
pub use store::ZooKeeper;
pub use tenure_core::backend::Secret;
