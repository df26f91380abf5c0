//! The runtime of `#[distributed_lock]`: the macro only generates calls to these items. So the rules are ordinary
//! code, and an annotated function contains little generated code.

mod answer;
mod call;
mod enclosing;
mod install;
mod names;

pub use enclosing::{Current, current};
pub use install::install;

/// For generated code only; not part of the stable API.
#[doc(hidden)]
pub mod generated {
    pub use super::answer::{Answer, Otherwise, Outcome, never, refuse};
    pub use super::call::{Call, Ended, Entered, Inside, OnLost, enter, enter_blocking};
    pub use super::install::{AsClient, given, installed};
    pub use super::names::{key, names, parts};
}
