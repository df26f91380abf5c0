//! Backends around backends.

mod faults;

pub use faults::{Call, Fate, Faults};
