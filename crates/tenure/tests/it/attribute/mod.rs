//! Annotated functions as their users see them.

mod answers;
mod exclusion;
mod harness;
mod keys;
mod losing;
mod reentrance;
mod self_wait;
mod shapes;
mod threads;
