//! The rules of a quorum on nodes that are only imagined, in time that is only imagined.

mod histories;
mod node;
mod textbook;
