//! The facade: the attribute, configuration, quorums, locks over several stores, metrics, help for tests, the blocking
//! API, and what may cross threads.

mod attribute;
mod auto_traits;
mod blocking;
mod config;
mod exit;
mod inherited;
mod metrics;
mod multi;
mod redlock;
mod testing;
mod ui;
