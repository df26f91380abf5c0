//! The facade: the attribute, configuration, quorums, locks over several stores, metrics, help for tests, and the
//! blocking API.

mod attribute;
mod blocking;
mod config;
// The macro crate cannot use the library's own parser: its copy is compared here.
#[path = "../../../tenure-macros/src/duration.rs"]
mod duration;
mod metrics;
mod multi;
mod redlock;
mod testing;
mod ui;
