//! Annotated functions as their users see them.

#[path = "attribute/answers.rs"]
mod answers;
#[path = "attribute/bench.rs"]
mod bench;
#[path = "attribute/exclusion.rs"]
mod exclusion;
#[path = "attribute/keys.rs"]
mod keys;
#[path = "attribute/losing.rs"]
mod losing;
#[path = "attribute/reentrance.rs"]
mod reentrance;
#[path = "attribute/shapes.rs"]
mod shapes;
#[path = "attribute/threads.rs"]
mod threads;
