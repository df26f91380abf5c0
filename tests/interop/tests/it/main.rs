//! Locks shared with other libraries, in both directions. At the end tables say what was shared.
//!
//! A trial is `PEER::DEPLOYMENT::KIND::CASE`. All trials of a peer at a deployment share its servers and two processes
//! of each side; what they lock has the trial's own name. `TENURE_PEERS=redisson,curator` picks peers: nothing is
//! started or built for the others.

mod curator;
mod driver;
mod fixture;
mod plain;
mod redisson;

use std::process::ExitCode;

use interop::trials::Suite;

type Add = fn(&mut Suite);

const PEERS: [(&str, Add); 5] = [
    ("redisson", redisson::add),
    ("redsync", plain::redsync),
    ("node-redlock", plain::node_redlock),
    ("redis-py", plain::redis_py::add),
    ("curator", curator::add),
];

fn main() -> ExitCode {
    let picked = std::env::var("TENURE_PEERS").ok();
    let picked: Option<Vec<&str>> = picked.as_ref().map(|names| names.split(',').collect());
    for name in picked.iter().flatten() {
        assert!(PEERS.iter().any(|(peer, _)| peer == name), "TENURE_PEERS: no peer is called {name:?}");
    }
    let mut suite = Suite::new();
    for (name, add) in PEERS {
        if picked.as_ref().is_none_or(|picked| picked.contains(&name)) {
            add(&mut suite);
        }
    }
    suite.run()
}
