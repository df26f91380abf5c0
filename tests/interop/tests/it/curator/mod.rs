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

use environment::{Deployment, Environment};
use fixture::Fixture;
pub(crate) use interop::trials::Direction;
use interop::trials::Suite;

use crate::fixture::add_cases;

pub(crate) type Case = interop::trials::Case<Fixture>;

/// Adds the cases shared with Curator, and those of its driver alone.
pub(crate) fn add(suite: &mut Suite) {
    let at_deployments =
        |case: Case| deployments(&case).iter().map(move |deployment| (*deployment, case.clone()));
    let cases = cases().into_iter().flat_map(at_deployments).collect();
    add_cases(suite, "Curator", cases, |deployment| async move { Environment::start(deployment) });
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

/// Several servers notify their clients at different times, so that order and wake-ups are tested on an ensemble, too.
fn deployments(case: &Case) -> &'static [Deployment] {
    match case.kind {
        _ if case.one_server => &[Deployment::Single],
        "lock" | "fair" | "read/write" | "semaphore" | "leader" => {
            &[Deployment::Single, Deployment::Ensemble]
        }
        _ => &[Deployment::Single],
    }
}
