//! All integration tests of this crate, in one binary: against real servers, started for the test.

mod bench;
mod clock;
mod doctor;
mod expel;
mod failures;
mod plain;
mod takeover;
