//! Locks shared with libraries that store each lock as one key with a token as its value: redsync, node-redlock, redis-py.

mod deaths;
mod environment;
mod fixture;
mod leases;
mod minority;
mod mutual;
mod owners;
pub(crate) mod redis_py;
mod side;

use std::sync::Arc;

use environment::{Deployment, Environment, Library, Start};
use fixture::Fixture;
use interop::Plain;
use interop::trials::{Direction, Environments, Suite};

type Case = interop::trials::Case<Fixture>;

/// What is shared: these libraries have no other kind.
const KIND: &str = "lock";

pub(crate) fn redsync(suite: &mut Suite) {
    let start: Start = |servers| Box::pin(async move { Plain::redsync(&servers).await });
    add(suite, Library { name: "redsync", quorum: true, start }, Vec::new());
}

pub(crate) fn node_redlock(suite: &mut Suite) {
    let start: Start = |servers| Box::pin(async move { Plain::node_redlock(&servers).await });
    add(suite, Library { name: "node-redlock", quorum: true, start }, Vec::new());
}

/// What holds for all such libraries, and `more` that holds for this one at one server.
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
    let environments = Arc::new(Environments::default());
    suite.add(library.name, cases, move |deployment, name| {
        let environments = environments.clone();
        async move {
            let start = async || Environment::start(library, deployment).await;
            Ok(Fixture::new(environments.get(deployment, start).await?, &name))
        }
    });
}
