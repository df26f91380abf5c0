//! Our own connection to ZooKeeper: what a session asks goes out in one write and is answered in order; a connection
//! that breaks is replaced, by one to another server if need be, for as long as a server may know the session.

mod client;
mod dial;
mod driver;
mod jute;
mod lane;
mod refusal;
mod requests;
mod servers;
mod tls;
mod watches;

pub(crate) use client::{Client, Linked, Phase};
pub(crate) use dial::Address;
pub(crate) use refusal::Refusal;
pub(crate) use requests::{Acl, LARGEST, Mode, Stat};
pub(crate) use servers::look_up;
pub(crate) use watches::{Change, Watcher};
