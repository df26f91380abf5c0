//! Failures around a lock on ZooKeeper, caused on real servers. Each test names the row of `docs/failure-modes.md` or
//! the scenario of `docs/scenarios.md` that it shows.

mod counters;
mod credentials;
mod documents;
mod ensemble;
mod fewer_requests;
mod harness;
mod idle_semaphore;
mod listing;
mod lost_answers;
mod many_waiters;
mod naming;
mod overloaded_server;
mod permissions;
mod reconnect;
mod restored;
mod revocation;
mod semaphore_size;
mod sequence_overflow;
mod session;
mod shutdown;
mod tls;
mod worker;
