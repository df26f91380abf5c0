//! What goes wrong around a lock on ZooKeeper, made to happen on real servers. Each test names the row of
//! `docs/failure-modes.md` or the scenario of `docs/scenarios.md` that it shows.

mod answers;
mod bench;
mod busy;
mod counter;
mod crowd;
mod documents;
mod encryption;
mod ensemble;
mod leaving;
mod listing;
mod naming;
mod numbers;
mod reconnect;
mod restored;
mod revocation;
mod rights;
mod session;
mod sizes;
mod worker;
