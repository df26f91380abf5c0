//! Locks shared with Curator.

mod deaths;
mod driver;
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
mod stage;
mod world;

use std::sync::Arc;

use interop::trials::Suite;
pub(crate) use interop::trials::Way;
use stage::Stage;
use world::{Place, Worlds};

pub(crate) type Case = interop::trials::Case<Stage>;

/// All that is shared with Curator, and its driver by itself.
pub(crate) fn add(suite: &mut Suite) {
    let at_places = |case: Case| places(&case).iter().map(move |place| (*place, case.clone()));
    let worlds = Arc::new(Worlds::default());
    suite.add("Curator", cases().into_iter().flat_map(at_places).collect(), move |place, name| {
        let worlds = worlds.clone();
        async move { Ok(Stage::new(worlds.get(place).await?, &name)) }
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
fn places(case: &Case) -> &'static [Place] {
    match case.kind {
        _ if case.one_server => &[Place::Single],
        "lock" | "fair" | "read/write" | "semaphore" | "leader" => &[Place::Single, Place::Ensemble],
        _ => &[Place::Single],
    }
}
