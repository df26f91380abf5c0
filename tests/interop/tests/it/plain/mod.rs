//! Locks shared with libraries that store each lock as one key with a token: redsync, node-redlock, redis-py.

mod deaths;
mod environment;
mod fixture;
mod leases;
mod minority;
mod mutual;
mod owners;
pub(crate) mod redis_py;
mod side;

use environment::{Deployment, Environment, Library, Start};
use fixture::Fixture;
use interop::Plain;
use interop::trials::{Direction, Suite};

use crate::fixture::add_cases;

type Case = interop::trials::Case<Fixture>;

/// The only kind that these libraries have.
const KIND: &str = "lock";

pub(crate) fn redsync(suite: &mut Suite) {
    let start: Start = |servers| Box::pin(async move { Plain::redsync(&servers).await });
    add(suite, Library { name: "redsync", quorum: true, start }, Vec::new());
}

pub(crate) fn node_redlock(suite: &mut Suite) {
    let start: Start = |servers| Box::pin(async move { Plain::node_redlock(&servers).await });
    add(suite, Library { name: "node-redlock", quorum: true, start }, Vec::new());
}

/// Adds the cases for all such libraries, and `more` for this one on a single server.
fn add(suite: &mut Suite, library: Library, more: Vec<Case>) {
    let all = [mutual::cases(), owners::cases(), leases::cases(), deaths::cases()].concat();
    let mut cases = Vec::new();
    for &deployment in library.deployments() {
        cases.extend(all.iter().map(|case| (deployment, case.clone())));
    }
    if library.quorum {
        cases.extend(minority::cases().into_iter().map(|case| (Deployment::Quorum, case)));
    }
    cases.extend(more.into_iter().map(|case| (Deployment::Single, case)));
    add_cases(suite, library.name, cases, move |deployment| Environment::start(library, deployment));
}
