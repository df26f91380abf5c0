//! Tenure on Redis and Valkey: locks, semaphores, latches and elections shared over the network.

mod acquire;
mod count;
mod credentials;
mod doctor;
mod error;
mod expel;
mod inspect;
mod keys;
mod options;
mod plain;
mod record;
mod release;
mod renew;
mod scriptless;
mod scripts;
mod store;
mod transport;
mod watch;

pub use credentials::{Login, Secret};
pub use options::{Address, Fences, Layout, Options, Sentinels, Siblings, Tls, Topology};
pub use store::Redis;
pub use transport::{Deployment, deployment};
