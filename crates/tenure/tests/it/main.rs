//! The facade: configuration, quorums, locks over several stores, metrics, help for tests, and the blocking API.

mod blocking;
mod config;
mod metrics;
mod multi;
mod redlock;
mod testing;
