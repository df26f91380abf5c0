//! The rules of a quorum, on simulated nodes in simulated time.

mod histories;
mod node;
mod textbook;
