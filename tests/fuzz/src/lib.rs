//! Fuzzing on stable Rust: a seeded generator mutates a kept corpus, and whatever reads what others wrote must neither
//! panic, nor hang, nor use more memory than its bound.
//!
//! - A [`Target`] reads one input, and states how much memory it may use for it.
//! - `corpus` has the inputs to begin with: what real servers say, valid configurations, and every input that once
//!   failed. Each is a file in `tests/fuzz/corpus/TARGET`.
//! - [`run`] reads all of the corpus, and then mutations of it.
//! - `liar` is a server on a loopback port that answers real clients with an input, whatever they ask.

mod conversation;
mod corpus;
mod liar;
mod memory;
mod mutate;
mod record;
mod run;
mod shrink;
mod target;
mod targets;

pub use record::record;
pub use run::{Failure, Limit, Report, replay, run};
pub use target::Target;
pub use targets::{NAMES, named};

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;
