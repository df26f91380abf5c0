//! What goes wrong around a lock on Redis, made to happen on a real server. Each test names the row of
//! `docs/failure-modes.md` or the scenario of `docs/scenarios.md` that it shows.

mod channels;
mod documents;
mod failover;
mod fair;
mod handover;
mod holder;
mod joined;
mod nat;
mod network;
mod range;
mod records;
mod redisson_defects;
mod replies;
mod scenarios;
mod server;
mod traffic;
mod validity;
mod versions;
