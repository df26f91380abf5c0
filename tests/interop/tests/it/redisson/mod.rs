//! Locks shared with Redisson.

mod case;
mod counting;
mod deaths;
mod defects;
mod driver;
mod environment;
mod fair;
mod fenced;
mod fixture;
mod latch;
mod lock;
mod multi;
mod mutual;
mod permits;
mod rwlock;

use case::Case;
use environment::{Deployment, Environment};
use interop::trials::Suite;

use crate::fixture::add_cases;

/// Adds the cases shared with Redisson, and those of its driver alone.
pub(crate) fn add(suite: &mut Suite) {
    let at_deployments =
        |case: Case| deployments(&case).iter().map(move |deployment| (*deployment, case.clone()));
    let cases = cases().into_iter().flat_map(at_deployments).collect();
    add_cases(suite, "Redisson", cases, |deployment| async move { Environment::start(deployment) });
}

fn cases() -> Vec<Case> {
    let all = [
        mutual::cases(),
        deaths::cases(),
        lock::cases(),
        fair::cases(),
        rwlock::cases(),
        fenced::cases(),
        counting::cases(),
        permits::cases(),
        latch::cases(),
        multi::cases(),
        defects::cases(),
        driver::cases(),
    ];
    all.into_iter().flatten().collect()
}

fn deployments(case: &Case) -> &'static [Deployment] {
    match case.kind {
        _ if case.one_server => &[Deployment::Single],
        "lock" => &[Deployment::Single, Deployment::Cluster, Deployment::Sentinel],
        "fair" | "read/write" | "latch" | "semaphore" => &[Deployment::Single, Deployment::Cluster],
        _ => &[Deployment::Single],
    }
}
