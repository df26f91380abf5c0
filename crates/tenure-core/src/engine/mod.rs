//! Turns a claim into a hold and keeps it alive: attempts, waiting, renewal, release. Uses the backend trait, and does
//! not depend on templates or guards.

pub(crate) mod acquire;
pub(crate) mod acquisition;
pub(crate) mod agenda;
pub(crate) mod alarm;
pub(crate) mod at_least;
pub(crate) mod core;
pub(crate) mod count;
pub(crate) mod deadlock;
pub(crate) mod entry;
pub(crate) mod exit;
pub(crate) mod gate;
pub(crate) mod hold;
pub(crate) mod in_flight;
pub(crate) mod keeper;
pub(crate) mod leases;
pub(crate) mod limit;
pub(crate) mod mailbox;
pub(crate) mod ops;
pub(crate) mod reentry;
pub(crate) mod relay;
pub(crate) mod releases;
pub(crate) mod renewals;
mod settings;
pub(crate) mod telemetry;
pub(crate) mod terms;
pub(crate) mod worker;

pub use self::settings::{Deadlocks, Settings};
