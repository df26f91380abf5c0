//! The same locks shared with Redisson, in both directions. At the end a table says what was shared.
//!
//! A trial is `PLACE::KIND::CASE`. All trials of a place share its servers and two processes of each side; what they
//! lock has the trial's own name.

mod case;
mod counting;
mod deaths;
mod defects;
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

use std::process::ExitCode;
use std::sync::Arc;

use case::Case;
use stage::Stage;
use world::{Place, Worlds};

fn main() -> ExitCode {
    let at_places = |case: Case| places(&case).iter().map(move |place| (*place, case.clone()));
    let worlds = Arc::new(Worlds::default());
    interop::trials::run("Redisson", cases().into_iter().flat_map(at_places).collect(), move |place, name| {
        let worlds = worlds.clone();
        async move { Ok(Stage::new(worlds.get(place).await?, &name)) }
    })
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
