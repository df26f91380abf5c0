//! The ZooKeeper client: requests of a session are pipelined and answered in order; a broken connection is replaced,
//! by one to another server if necessary, for as long as a server may know the session.

mod client;
mod connect;
mod driver;
mod error_code;
mod jute;
mod request_queue;
mod requests;
mod servers;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing;
mod tls;
mod watch_registry;

pub(crate) use client::{Client, ConnectionState, Phase};
pub(crate) use connect::Address;
pub(crate) use error_code::ErrorCode;
pub(crate) use requests::{LARGEST, Mode, Stat};
pub(crate) use servers::resolve_host;
pub(crate) use watch_registry::{Change, Watcher};
