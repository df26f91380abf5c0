//! Distributed locks, read/write locks, semaphores, latches and elections, on the store that the configuration names.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
//! let client = tenure::connect("memory:").await?;
//!
//! let guard = client.lock("orders/42").acquire().await?; // waits; renewed until released
//! guard.while_held(async { /* nobody else is here */ }).await?;
//! guard.release().await
//! # }
//! ```
//!
//! # Features
//!
//! Each store is a cargo feature, except that in memory: `cargo add tenure --features redis`. Connecting to a store that
//! is not compiled in is an error that names its feature.
//!
//! | feature | adds |
//! | --- | --- |
//! | `macros` (default) | the attribute `#[distributed_lock]` |
//! | `redis` | `redis://`, `redlock://` and their relatives: Redis and Valkey, shared with Redisson, redsync and others; TLS included |
//! | `zookeeper` | `zookeeper://` and `zookeeper+tls://`: ZooKeeper, shared with Curator; TLS included |
//! | `sqlite` | `sqlite:`: a file for the processes of one machine; compiles SQLite, which needs a C compiler |
//! | `metrics` | counters, gauges and histograms for the recorder of the crate `metrics` |
//! | `testing` | the module `testing`, for tests of your own code: a store whose clock and failures they control |
//!
//! # Addresses
//!
//! | address | store |
//! | --- | --- |
//! | `memory:` | this process only |
//! | `sqlite:PATH` | the processes of one machine; `sqlite:` is a file in the user's state directory |
//! | `redis://[user:password@]host[:port][/db]` | a Redis or Valkey server; `rediss://` with TLS, `redis+unix:PATH` by a socket |
//! | `redis+sentinel://host,host,…/MASTER[/db]` | the current master, found through sentinels; `rediss+sentinel://` with TLS |
//! | `redis+cluster://host,host,…` | a cluster; `rediss+cluster://` with TLS |
//! | `redlock://host,host,host` | independent servers, of which a majority must agree; each may be a complete address |
//! | `zookeeper://[user:password@]host[:port],…[/chroot]` | a ZooKeeper ensemble; `zookeeper+tls://` with TLS |
//!
//! On Redis `?layout=plain` shares locks with redsync, node-redlock, redis-py and every client that uses `SET key
//! token NX PX ms`. It is the default layout of `redlock://`; `?layout=redisson` changes that. `redlock://` also takes
//! `?tries=` (0: no limit), `?retry_delay=50ms-250ms`, `?node_timeout=`, `?drift=1%+2ms`, `?max_lease=60s` and
//! `?restart_delay=61s` (or `off`).
//! `?password_file=PATH` is read again at each connect.
//!
//! `zookeeper://` takes `?session=30s`, `?timeout=3s`, `?tick=2s`, `?prefix=` and `?acl=open`.
//!
//! Every address takes `?lease=30s`, `?poll=2s`, `?call_timeout=5s`, `?outage=30s` and `?close_timeout=5s`; a store
//! with replicas also takes `?durability=replicas:2`. Not by default: `?warn_held=30s` logs holds that last longer,
//! `?local_handover=off` sends each release to the store although a task of the same process waits for the lock,
//! and `?deadlocks=report` returns an error to an owner that would wait in a cycle.
//!
//! # More
//!
//! The spans, events and metrics are listed in `docs/observability.md`. They are emitted through `tracing`, and with
//! the cargo feature `metrics` through the crate of that name.
//!
//! [`blocking`] is the API for code without a runtime. A function can hold a lock while it runs:
//!
//! ```
//! # #[cfg(feature = "macros")]
//! #[tenure::distributed_lock(key = order, prefix = "orders", wait = "5s")]
//! async fn ship(order: u64) -> tenure::Result<()> {
//!     // nobody else ships this order
//!     Ok(())
//! }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "macros")]
mod attribute;
pub mod blocking;
mod config;
mod connect;

#[cfg(feature = "macros")]
#[doc(hidden)]
pub use attribute::generated as __private;
#[cfg(feature = "macros")]
pub use attribute::{Current, current, install};
#[doc(hidden)]
pub use config::address::WITHHELD;
pub use config::{Address, Config, Entry, parse_duration};
pub use connect::{connect, connect_with, open};
#[cfg(feature = "testing")]
pub use tenure_core::testing;
pub use tenure_core::{
    Client, ClientId, CountingSemaphore, Deadlock, Deadlocks, Durability, Election, Error, Family, Fence,
    Finding, Guard, Held, HeldBy, HoldId, Holder, Latch, Leader, Level, Link, Lock, Lost, LostReason, Memory,
    MultiGuard, MultiLock, Name, Observer, Once, Owner, Result, RwLock, Semaphore, Settings, Snapshot,
    Waiter, multi,
};
#[cfg(feature = "macros")]
#[doc = include_str!("attribute/attribute.md")]
pub use tenure_macros::distributed_lock;

/// For implementing a store: the trait [`Backend`](backend::Backend), the values that go through it, and the
/// [`ledger`](backend::ledger), which implements the rules of all kinds over plain data.
pub mod backend {
    pub use tenure_core::backend::{
        Admin, Attempt, Backend, Background, Backoff, Cause, Chance, Claim, ClientId, Clock, CountOp,
        CountReply, Counter, Deadlock, Drift, Durability, Environment, Error, Family, Fence, Finding, HeldBy,
        HoldId, Holder, Info, Interest, Kind, Level, Link, Liveness, Lost, LostReason, Mode, Name, OpId,
        Owner, Process, Query, Released, Renewal, Result, Signal, Snapshot, Suspicion, Time, Waiter, Watch,
        jittered, random, wall_micros,
    };
    pub use tenure_core::ledger;
}

#[cfg(feature = "redis")]
pub use tenure_redis as redis;
#[cfg(feature = "redis")]
pub use tenure_redlock::{Node, Quorum, QuorumOptions};
#[cfg(feature = "sqlite")]
pub use tenure_sqlite as sqlite;
#[cfg(feature = "zookeeper")]
pub use tenure_zookeeper as zookeeper;
