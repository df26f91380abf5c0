//! Annotated functions as their users see them.

mod answers;
mod bench;
mod exclusion;
mod keys;
mod losing;
mod reentrance;
mod shapes;
mod threads;
