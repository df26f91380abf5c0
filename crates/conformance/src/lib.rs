//! One suite over every store. A case is an `async fn(Arc<Bench>)`; the matrix runs each on every store that serves
//! its families, once as it is and once behind a bad network.

pub mod bench;
pub mod cases;
pub mod mutex;
pub mod stores;
pub mod worker;

pub use bench::{Bench, poll_times, until, within};
pub use cases::{Case, all};
pub use stores::{Store, stores};
