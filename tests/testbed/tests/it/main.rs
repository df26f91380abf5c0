//! Real servers of all kinds, and what the testbed does to them, in one program.

mod cluster;
mod process;
mod proxy;
mod redis;
mod replicated;
mod zookeeper;
mod zookeeper_proxy;
mod zookeeper_tls;
