//! The backend-neutral core of Tenure. Users depend on the `tenure` crate, which re-exports what they need; this
//! crate is for those who write a backend.
//!
//! Every arrow points down: templates ([`Lock`], [`RwLock`], [`Semaphore`], [`Latch`], [`Election`]) make a
//! [`Claim`]; the first attempt runs in the caller's task, waiting in the driver, renewal in the keeper; below is the
//! trait [`Backend`].

mod acquire;
mod alarm;
pub mod backend;
mod background;
mod claim;
mod client;
mod clock;
mod count;
mod deadlock;
mod doubt;
mod driver;
mod election;
mod error;
mod finding;
mod flow;
mod guard;
mod held;
mod hold;
mod keeper;
mod latch;
pub mod layers;
pub mod ledger;
mod lock;
mod mailbox;
mod memory;
mod multi;
mod name;
mod ops;
mod owner;
mod quorum;
mod releases;
mod rwlock;
mod semaphore;
mod signs;
pub mod testing;
mod unanswered;
mod worker;

pub use backend::{Backend, Holder, Snapshot, Waiter};
pub use background::Background;
pub use claim::{Claim, ClientId, Durability, Family, Fence, HeldBy, HoldId, Kind, OpId, Process};
pub use client::{Client, Settings};
pub use clock::{Clock, Drift, Time, wall_micros};
pub use count::CountingSemaphore;
pub use deadlock::{Deadlock, Deadlocks, Link};
pub use doubt::Doubt;
pub use election::{Election, Leader, Observer};
pub use error::{Error, Lost, LostReason, Result};
pub use finding::{Finding, Level};
pub use guard::Guard;
pub use held::Held;
pub use latch::Latch;
pub use lock::Lock;
pub use memory::{Memory, MemoryStore};
pub use multi::{MultiGuard, MultiLock, multi};
pub use name::Name;
pub use owner::Owner;
pub use quorum::{Node, Quorum, QuorumOptions};
pub use rwlock::RwLock;
pub use semaphore::Semaphore;
