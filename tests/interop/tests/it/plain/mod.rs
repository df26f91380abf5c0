//! Locks shared with libraries that store each lock as one key with a token as its value: redsync, node-redlock, redis-py.

mod deaths;
mod leases;
mod minority;
mod mutual;
mod owners;
pub(crate) mod redis_py;
mod side;
mod stage;
mod world;

use std::sync::Arc;

use interop::Plain;
use interop::trials::{Suite, Way};
use stage::Stage;
use world::{Library, Place, Start, Worlds};

type Case = interop::trials::Case<Stage>;

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
    for &place in library.places() {
        cases.extend(all.iter().map(|case| (place, case.clone())));
    }
    if library.quorum {
        cases.extend(minority::cases().into_iter().map(|case| (Place::Quorum, case)));
    }
    cases.extend(more.into_iter().map(|case| (Place::Single, case)));
    let (name, worlds) = (library.name, Arc::new(Worlds::new(library)));
    suite.add(name, cases, move |place, name| {
        let worlds = worlds.clone();
        async move { Ok(Stage::new(worlds.get(place).await?, &name)) }
    });
}
