//! What each figure may be at most, on each store. A figure without a bound is only printed.

use crate::options::Scenario;
use crate::store::Store;

pub(crate) const MEMORY: &str = "KiB of memory for each";
pub(crate) const ALLOCATED: &str = "bytes allocated for each";
pub(crate) const ALLOCATED_AT_MOST: &str = "bytes allocated for each, at most";
pub(crate) const THREADS: &str = "threads of a client";
pub(crate) const DESCRIPTORS: &str = "descriptors of a client";
pub(crate) const CONNECTIONS: &str = "connections of a client";
pub(crate) const OVERLAPS: &str = "two inside at once";
pub(crate) const LOST: &str = "lost holds";
pub(crate) const GROWTH: &str = "MiB of memory more than after the tenth";
pub(crate) const LATE_GROWTH: &str = "MiB of memory more than half way";
pub(crate) const THREADS_GROWTH: &str = "threads more than after the tenth";
pub(crate) const DESCRIPTORS_GROWTH: &str = "descriptors more than after the tenth";
pub(crate) const THREADS_LEFT: &str = "threads left";
pub(crate) const DESCRIPTORS_LEFT: &str = "descriptors left";
pub(crate) const CONNECTIONS_LEFT: &str = "connections left at the server";
pub(crate) const SESSIONS_LEFT: &str = "sessions left at the server";
pub(crate) const LEFT: &str = "names, keys, nodes or files left";

/// What a process may need once, in KiB, however small the scale: buffers, stacks, what the allocator keeps.
const ONCE: f64 = 16.0 * 1024.0;

/// What a process may have allocated of it, in bytes.
const ALLOCATED_ONCE: f64 = 1024.0 * 1024.0;

/// A bound on a figure of some scenarios: on memory, SQLite, Redis and ZooKeeper.
struct Bound {
    scenarios: &'static [Scenario],
    what: &'static str,
    at_most: [f64; 4],
}

const fn bound(scenarios: &'static [Scenario], what: &'static str, at_most: [f64; 4]) -> Bound {
    Bound { scenarios, what, at_most }
}

use Scenario::{Clients, Connects, Fair, Names, Waiters};

const ONE_CLIENT: &[Scenario] = &[Waiters, Fair, Names];
const ALL: &[Scenario] = &Scenario::ALL;

const BOUNDS: &[Bound] = &[
    bound(&[Waiters], MEMORY, [8.0, 8.0, 8.0, 8.0]),
    // On ZooKeeper with several lists of the whole queue, as many as are read and looked at while all come.
    bound(&[Fair], MEMORY, [8.0, 8.0, 8.0, 24.0]),
    bound(&[Names], MEMORY, [3.0, 3.0, 3.0, 5.0]),
    // With its task and its future, which are most of it.
    bound(&[Waiters], ALLOCATED, [7.0e3, 7.0e3, 9.0e3, 7.0e3]),
    // In memory with what the store has of it.
    bound(&[Names], ALLOCATED, [2.5e3, 1.5e3, 1.5e3, 4.0e3]),
    bound(&[Names], ALLOCATED_AT_MOST, [2.5e3, 1.5e3, 1.5e3, 4.0e3]),
    bound(&[Clients], MEMORY, [250.0, 600.0, 400.0, 700.0]),
    // The keeper and the worker; on SQLite one that other processes wake, on ZooKeeper one for the session.
    bound(ONE_CLIENT, THREADS, [2.0, 3.0, 2.0, 3.0]),
    bound(&[Clients], THREADS, [2.0, 3.0, 2.0, 3.0]),
    bound(ONE_CLIENT, CONNECTIONS, [0.0, 0.0, 4.0, 1.0]),
    bound(&[Clients], CONNECTIONS, [0.0, 0.0, 4.0, 1.0]),
    bound(ONE_CLIENT, DESCRIPTORS, [10.0, 20.0, 20.0, 20.0]),
    bound(&[Clients], DESCRIPTORS, [10.0, 20.0, 20.0, 20.0]),
    bound(&[Waiters, Fair], OVERLAPS, [0.0; 4]),
    bound(&[Waiters, Fair, Names, Clients], LOST, [0.0; 4]),
    bound(&[Connects], GROWTH, [16.0; 4]),
    bound(&[Connects], LATE_GROWTH, [2.0; 4]),
    bound(&[Connects], THREADS_GROWTH, [0.0; 4]),
    bound(&[Connects], DESCRIPTORS_GROWTH, [0.0; 4]),
    bound(&[Connects], CONNECTIONS, [0.0; 4]),
    bound(ALL, THREADS_LEFT, [0.0; 4]),
    bound(ALL, DESCRIPTORS_LEFT, [0.0; 4]),
    bound(ALL, CONNECTIONS_LEFT, [0.0; 4]),
    bound(ALL, SESSIONS_LEFT, [0.0; 4]),
    bound(ALL, LEFT, [0.0; 4]),
];

/// The bound on this figure, where there are so many.
pub(crate) fn of(scenario: Scenario, store: Store, what: &str, number: u64) -> Option<f64> {
    let bound = BOUNDS.iter().find(|bound| bound.what == what && bound.scenarios.contains(&scenario))?;
    let at = Store::ALL.iter().position(|other| *other == store)?;
    let once = match what {
        MEMORY => ONCE,
        ALLOCATED | ALLOCATED_AT_MOST => ALLOCATED_ONCE,
        _ => 0.0,
    };
    Some(bound.at_most[at] + once / number as f64)
}
