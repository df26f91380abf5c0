//! Locks shared with Redisson.

mod case;
mod counting;
mod deaths;
mod defects;
mod driver;
mod fair;
mod fenced;
mod latch;
mod lock;
mod multi;
mod mutual;
mod permits;
mod rwlock;
mod stage;
mod world;

use std::sync::Arc;

use case::Case;
use interop::trials::Suite;
use stage::Stage;
use world::{Place, Worlds};

/// All that is shared with Redisson, and its driver by itself.
pub(crate) fn add(suite: &mut Suite) {
    let at_places = |case: Case| places(&case).iter().map(move |place| (*place, case.clone()));
    let worlds = Arc::new(Worlds::default());
    suite.add("Redisson", cases().into_iter().flat_map(at_places).collect(), move |place, name| {
        let worlds = worlds.clone();
        async move { Ok(Stage::new(worlds.get(place).await?, &name)) }
    });
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

fn places(case: &Case) -> &'static [Place] {
    match case.kind {
        _ if case.one_server => &[Place::Single],
        "lock" => &[Place::Single, Place::Cluster, Place::Sentinel],
        "fair" | "read/write" | "latch" | "semaphore" => &[Place::Single, Place::Cluster],
        _ => &[Place::Single],
    }
}
