//! The parsers of what a server sends, for fuzzing: bytes in, and no panic whatever they are. Behind the feature
//! `testing`, so that no release build has it.

pub use crate::transport::testing::read_replies;
