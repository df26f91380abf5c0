//! Distributed locks, read/write locks, semaphores, latches and elections, with the store a matter of configuration.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! let client = tenure::connect("memory:").await?;
//!
//! let guard = client.lock("orders/42").acquire().await?; // waits; renewed until released
//! guard.while_held(async { /* nobody else is here */ }).await?;
//! guard.release().await
//! # }
//! ```
//!
//! | address | store |
//! | --- | --- |
//! | `memory:` | this process only |
//! | `sqlite:PATH` | the processes of one machine; `sqlite:` is a file in the user's state directory |
//!
//! Each takes `?lease=30s`, `?poll=2s`, `?call_timeout=5s`, `?outage=30s` and `?close_timeout=5s`; a store with replicas
//! also `?durability=replicas:2`.

mod address;

pub use address::{Address, connect, connect_with, parse_duration};
pub use tenure_core::*;
#[cfg(feature = "sqlite")]
pub use tenure_sqlite as sqlite;
