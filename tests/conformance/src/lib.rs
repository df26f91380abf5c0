//! One test suite for every store. A case is an `async fn(Arc<Bench>)`; the matrix runs each on every store that
//! supports its families, once as it is and once behind a faulty network.

pub mod bench;
pub mod cases;
pub mod mutex;
pub mod stores;
pub mod worker;

pub use bench::{Bench, poll_times, until, within};
pub use cases::{Case, all};
pub use stores::{Store, stores};
