//! The runtime of `#[distributed_lock]`: the macro only generates calls to these items. So the rules are ordinary
//! code, and an annotated function contains little generated code.

mod call;
mod call_stack;
mod default_client;
mod names;
mod return_value;

pub use call_stack::{Current, current};
pub use default_client::install;

/// For generated code only; not part of the stable API.
#[doc(hidden)]
pub mod generated {
    pub use super::call::{Acquisition, BodyResult, Call, HeldCall, OnLost, acquire, acquire_blocking};
    pub use super::default_client::{AsClient, explicit_client, installed_client};
    pub use super::names::{join_parts, key_text, lock_names};
    pub use super::return_value::{FallbackReturn, ReturnType, ReturnsError, infer_return_type, panic_with};
}
