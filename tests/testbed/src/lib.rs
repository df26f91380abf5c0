//! Real servers for tests, fault injection and benchmarks: started on free ports of 127.0.0.1 in temporary folders, and
//! removed with the test, however it ends.
//!
//! All calls block, but are short enough to be made from asynchronous tests. Calls that wait, wait for an event, with a
//! deadline.

mod cluster;
mod documents;
mod error;
mod folder;
mod inner_port;
mod listen;
mod ports;
mod process;
mod program;
mod proxy;
mod redis;
mod replicated;
mod resp;
mod sentinels;
mod server;
mod slots;
mod tls;
mod value;
mod wait;
mod zookeeper;

pub use cluster::Cluster;
pub use documents::DocumentedTests;
pub use error::{Error, Result, io_cause};
pub use listen::{Message, Monitor, Seen, Subscription};
pub use ports::free_port;
pub use program::Program;
pub use proxy::{Counts, Cut, Proxy, Rule, Way, ZkRequest};
pub use redis::{Redis, RedisOptions};
pub use replicated::Replicated;
pub use resp::Resp;
pub use sentinels::Sentinels;
pub use server::{Instance, Recipe, Server};
pub use slots::{SLOTS, SlotMove, key_in, slot_of};
pub use tls::Certificates;
pub use value::Value;
pub use wait::{
    FAR, PATIENCE, done, eventually, has_grown, patience, retry, run_case, until, until_true, wait_until,
    wait_until_true, with_deadline, within,
};
pub use zookeeper::{Ensemble, SUPER, ZkAcl, ZkClient, ZkMode, ZkStat, ZooKeeper, ZooKeeperOptions};
