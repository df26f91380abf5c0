//! The ZooKeeper client: requests of a session are pipelined and answered in order; a broken connection is replaced,
//! by one to another server if necessary, for as long as a server may know the session.

mod client;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod connect;
mod driver;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod error_code;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod jute;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod multi;
mod request_queue;
#[cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
mod requests;
mod servers;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
mod tls;
mod watch_registry;

pub(crate) use client::{Client, ConnectionState, Phase};
pub(crate) use connect::Address;
pub(crate) use error_code::ErrorCode;
pub(crate) use requests::{Created, LARGEST, Mode, Stat};
pub(crate) use servers::resolve_host;
pub(crate) use watch_registry::{Change, HoldEvents, Watcher};
