//! The ZooKeeper client: requests of a session are pipelined and answered in order; a broken connection is replaced,
//! by one to another server if necessary, for as long as a server may know the session.

mod client;
mod dial;
mod driver;
mod error_code;
mod jute;
mod lane;
mod requests;
mod servers;
mod tls;
mod watches;

pub(crate) use client::{Client, ConnectionState, Phase};
pub(crate) use dial::Address;
pub(crate) use error_code::ErrorCode;
pub(crate) use requests::{Acl, LARGEST, Mode, Stat};
pub(crate) use servers::look_up;
pub(crate) use watches::{Change, Watcher};
