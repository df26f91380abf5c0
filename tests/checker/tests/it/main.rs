//! The checks on histories that were written by hand, and on simulated ones.

mod build;
mod calls;
mod exclusion;
mod fences;
mod files;
mod latches;
mod liveness;
mod order;
mod pictures;
mod promises;
mod simulated;
mod size;
