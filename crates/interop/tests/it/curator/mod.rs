//! The same locks shared with Curator, in both directions. At the end a table says what was shared.
//!
//! A trial is `PLACE::KIND::CASE`. All trials of a place share its servers and two processes of each side; what they
//! lock has the trial's own name.

mod deaths;
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

use std::process::ExitCode;
use std::sync::Arc;

pub(crate) use interop::trials::Way;
use stage::Stage;
use world::{Place, Worlds};

pub(crate) type Case = interop::trials::Case<Stage>;

fn main() -> ExitCode {
    let at_places = |case: Case| places(&case).iter().map(move |place| (*place, case.clone()));
    let worlds = Arc::new(Worlds::default());
    interop::trials::run("Curator", cases().into_iter().flat_map(at_places).collect(), move |place, name| {
        let worlds = worlds.clone();
        async move { Ok(Stage::new(worlds.get(place).await?, &name)) }
    })
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
