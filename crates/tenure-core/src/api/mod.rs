//! What users call: a client, the templates that it creates, and the guards that they return.

mod client;
mod counting;
mod election;
mod guard;
mod held;
mod latch;
mod lock;
mod multi;
mod once;
mod run;
mod rwlock;
mod semaphore;

pub use self::client::Client;
pub use self::counting::CountingSemaphore;
pub use self::election::{Election, Leader, Observer};
pub use self::guard::Guard;
pub use self::held::Held;
pub use self::latch::Latch;
pub use self::lock::Lock;
pub use self::multi::{MultiGuard, MultiLock, multi};
pub use self::once::Once;
pub use self::rwlock::RwLock;
pub use self::semaphore::Semaphore;
