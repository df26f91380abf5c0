//! The same locks shared with a library that keeps each as one key with a token in it, in both directions. At the end
//! a table says what was shared.
//!
//! All trials of a place share its servers and two processes of each side; what they lock has the trial's own name.

mod deaths;
mod leases;
mod minority;
mod mutual;
mod owners;
pub(crate) mod side;
pub(crate) mod stage;
mod world;

use std::process::ExitCode;
use std::sync::Arc;

use interop::trials::Way;
use stage::Stage;
pub(crate) use world::Library;
use world::{Place, Worlds};

pub(crate) type Case = interop::trials::Case<Stage>;

/// What is shared: these libraries have no other kind.
pub(crate) const KIND: &str = "lock";

/// Runs what holds for all such libraries, and `more` that holds for this one at one server.
pub(crate) fn run(library: Library, more: Vec<Case>) -> ExitCode {
    let all = [mutual::cases(), owners::cases(), leases::cases(), deaths::cases()].concat();
    let mut cases = Vec::new();
    for &place in library.places() {
        cases.extend(all.iter().map(|case| (place, case.clone())));
    }
    if library.quorum {
        cases.extend(minority::cases().into_iter().map(|case| (Place::Quorum, case)));
    }
    cases.extend(more.into_iter().map(|case| (Place::Single, case)));
    let (name, worlds) = (library.name, Arc::new(Worlds::new(library)));
    interop::trials::run(name, cases, move |place, name| {
        let worlds = worlds.clone();
        async move { Ok(Stage::new(worlds.get(place).await?, &name)) }
    })
}
