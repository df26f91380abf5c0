//! One test suite for every store. A case is an `async fn(Arc<Harness>)`; the matrix runs each on every store that
//! supports its families, once as it is and once behind a faulty network.

pub mod cases;
pub mod harness;
pub mod mutex;
pub mod stores;
pub mod worker;

pub use cases::{Case, all};
pub use harness::{Harness, poll_times, until, within};
pub use stores::{Store, stores};
