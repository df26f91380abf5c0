//! Locks shared with Curator.

mod deaths;
mod driver;
mod environment;
mod fixture;
mod leader;
mod lock;
mod multi;
mod mutual;
mod order;
mod permits;
mod revocation;
mod rwlock;
mod sessions;
mod side;

use std::sync::Arc;

use environment::{Deployment, Environment};
use fixture::Fixture;
pub(crate) use interop::trials::Direction;
use interop::trials::{Environments, Suite};

pub(crate) type Case = interop::trials::Case<Fixture>;

/// All that is shared with Curator, and its driver by itself.
pub(crate) fn add(suite: &mut Suite) {
    let at_deployments =
        |case: Case| deployments(&case).iter().map(move |deployment| (*deployment, case.clone()));
    let environments = Arc::new(Environments::default());
    suite.add("Curator", cases().into_iter().flat_map(at_deployments).collect(), move |deployment, name| {
        let environments = environments.clone();
        async move {
            let start = async || Environment::start(deployment);
            Ok(Fixture::new(environments.get(deployment, start).await?, &name))
        }
    });
}

fn cases() -> Vec<Case> {
    let all = [
        mutual::cases(),
        order::cases(),
        deaths::cases(),
        sessions::cases(),
        lock::cases(),
        rwlock::cases(),
        permits::cases(),
        leader::cases(),
        multi::cases(),
        revocation::cases(),
        driver::cases(),
    ];
    all.into_iter().flatten().collect()
}

/// What several servers could do otherwise: news reaches their clients at different times.
fn deployments(case: &Case) -> &'static [Deployment] {
    match case.kind {
        _ if case.one_server => &[Deployment::Single],
        "lock" | "fair" | "read/write" | "semaphore" | "leader" => {
            &[Deployment::Single, Deployment::Ensemble]
        }
        _ => &[Deployment::Single],
    }
}
