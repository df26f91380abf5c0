//! The blocking API: what differs from the async one, and that all of it arrives there.

mod bench;
mod contexts;
mod faults;
mod guards;
mod kinds;
mod owners;
#[cfg(all(feature = "redis", feature = "zookeeper"))]
mod servers;
