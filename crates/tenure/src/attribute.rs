//! What `#[distributed_lock]` is made of: the macro only writes down calls of these. So the rules are ordinary code,
//! and a function that was annotated contains little that was generated.

mod answer;
mod call;
mod enclosing;
mod install;
mod names;

pub use enclosing::{Current, current};
pub use install::install;

/// For generated code alone: no promise is made about any of it.
#[doc(hidden)]
pub mod generated {
    pub use super::answer::{Answer, Otherwise, Outcome, never, refuse};
    pub use super::call::{Call, Ended, Entered, Inside, OnLost, enter, enter_blocking};
    pub use super::install::{AsClient, given, installed};
    pub use super::names::{key, names, parts};
}
