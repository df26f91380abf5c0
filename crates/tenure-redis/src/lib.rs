//! Tenure on Redis and Valkey: locks, semaphores, latches and elections shared over the network.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
//! use tenure_redis::{Address, Options, Redis, Topology};
//!
//! let store = Redis::open(Options::new(Topology::Standalone(Address::tcp("cache-1", 6379)))).await?;
//! let client = tenure_core::Client::new(store);
//! let guard = client.lock("orders/42").acquire().await?; // an RLock of Redisson
//! guard.release().await
//! # }
//! ```

mod acquire;
mod count;
mod credentials;
mod described;
mod doctor;
mod error;
mod expel;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod inspect;
mod keys;
mod nat;
mod options;
mod plain;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod record;
mod release;
mod renew;
mod scriptless;
mod scripts;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transport;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod watch;

pub use credentials::Login;
pub use nat::{Nat, Route};
pub use options::{Address, Fences, Layout, Options, Sentinels, Siblings, Tls, Topology};
pub use store::Redis;
pub use tenure_core::backend::Secret;
pub use transport::{Deployment, deployment};
