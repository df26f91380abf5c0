//! Tenure on Redis and Valkey: locks, semaphores, latches and elections shared over the network.

mod options;
// Its user, the backend, is not here yet.
#[allow(dead_code, unused_imports)]
mod transport;

pub use options::{Address, Options, Secret, Sentinels, Tls, Topology};
