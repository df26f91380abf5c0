//! Tenure on Redis and Valkey: locks, semaphores, latches and elections shared over the network.

mod acquire;
mod count;
mod credentials;
mod doctor;
mod expel;
mod fault;
mod inspect;
mod keys;
mod leave;
mod native;
mod options;
mod plain;
mod renew;
mod scripts;
mod store;
mod transport;
mod watch;
mod who;

pub use credentials::{Login, Secret};
pub use options::{Address, Fences, Layout, Options, Sentinels, Siblings, Tls, Topology};
pub use store::Redis;
pub use transport::{Deployment, deployment};
