//! All integration tests of this crate, in one binary: against real servers, started for the test.

mod clock;
mod doctor;
mod expel;
mod failures;
mod harness;
mod plain;
mod takeover;
