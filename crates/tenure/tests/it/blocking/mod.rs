//! The blocking API: what differs from the async one, and that all of it arrives there.

mod contexts;
mod faults;
mod guards;
mod harness;
mod kinds;
mod owners;
#[cfg(all(feature = "redis", feature = "zookeeper"))]
mod servers;
