//! The facade: the attribute, configuration, quorums, locks over several stores, metrics, help for tests, and the
//! blocking API.

mod attribute;
mod blocking;
mod config;
mod exit;
mod metrics;
mod multi;
mod redlock;
mod testing;
mod ui;
