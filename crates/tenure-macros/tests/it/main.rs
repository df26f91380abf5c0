//! The attribute: annotated functions as their users see them, and what the compiler says of wrong ones.

mod attribute;
#[path = "../../src/duration.rs"]
mod duration;
mod ui;
