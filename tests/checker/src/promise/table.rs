//! The cells, from `docs/guarantees.md`: the paragraphs that each comes from are named beside it.

use super::{Cell, Liveness, Safety};
use crate::fault::Class;
use crate::run::Store;

/// None where the fault does not exist.
pub(super) fn cell(store: Store, class: Class) -> Option<Cell> {
    let cell = match class {
        // "Held means held by the own clock", "lost by itself": the guard turns lost before the store grants again. A
        // queue position lasts for three poll caps without a sign of life.
        Class::ClientPaused => dead_holder(),
        // The memory store dies with its process.
        Class::ClientKilled if store == Store::Memory => return None,
        Class::ClientKilled => dead_holder(),
        // "The keeper has its own thread": holds are renewed; a grant that is not collected is given back.
        Class::RuntimeBlocked => dead_holder(),
        // No lease reads the wall clock; on embedded stores fences continue from the last one.
        Class::ClientClockStep => Cell::KEPT,
        _ => return on_server(store, class),
    };
    Some(cell)
}

/// Faults of the store and of the way to it.
fn on_server(store: Store, class: Class) -> Option<Cell> {
    match store {
        Store::Memory => None,
        // "Disk full, file read-only, file busy: `Unavailable`; guards end by their own clock."
        Store::Sqlite => (class == Class::DiskFull).then_some(unavailable()),
        Store::Redis | Store::RedisPlain | Store::RedisSentinel | Store::RedisCluster => {
            on_redis(store, class)
        }
        Store::Redlock => on_redlock(class),
        Store::Zookeeper => on_zookeeper(class),
    }
}

fn on_redis(store: Store, class: Class) -> Option<Cell> {
    let has_replicas = matches!(store, Store::RedisSentinel | Store::RedisCluster);
    // "Can break": the fence still orders the holders, where the layout has one.
    let broken = if store.has_fences() { Safety::Fences } else { Safety::Nothing };
    let can_break = Cell { safety: broken, safety_of_most: broken, ..Cell::KEPT };
    Some(match class {
        Class::ServerPaused | Class::RestartWithData | Class::DiskFull => unavailable(),
        // "Until renewal."
        Class::RestartEmpty | Class::Eviction | Class::ServerClockStep => can_break,
        Class::Failover if has_replicas => can_break,
        Class::Failover => return None,
        Class::ConnectionCut => unavailable(),
        Class::ConnectionDelayed | Class::OneWay | Class::HalfOpen => Cell::KEPT,
        // Failure modes C10, B10 and C19: as any delay.
        Class::ScriptFlush | Class::ClientKill | Class::ClientPause => Cell::KEPT,
        // Failure mode B17: what is connected stays so.
        Class::PasswordRotated => Cell::KEPT,
        // "While a cluster slot migrates, nothing in it can be acquired; holds are still renewed." A move that begins
        // and ends between two calls is not seen, so it does not count as unavailable.
        Class::Resharding if store == Store::RedisCluster => Cell::KEPT,
        _ => return None,
    })
}

fn on_redlock(class: Class) -> Option<Cell> {
    let after_restart = Liveness { restart_delay: true, ..Liveness::CALM };
    Some(match class {
        // "Minority of nodes down: kept. Majority: `Unavailable`."
        Class::ServerPaused | Class::DiskFull | Class::ConnectionCut => unavailable_of_most(),
        Class::RestartWithData => Cell { liveness: after_restart, ..unavailable_of_most() },
        // "Kept if the node waits": `restart_delay`.
        Class::RestartEmpty => Cell { liveness: after_restart, ..unavailable_of_most() },
        Class::ConnectionDelayed | Class::OneWay | Class::HalfOpen => Cell::KEPT,
        Class::ScriptFlush | Class::ClientKill | Class::ClientPause | Class::PasswordRotated => Cell::KEPT,
        // "A node that forgets": with those that did not grant it may be a majority; and there is no fence.
        Class::ServerClockStep | Class::Eviction => {
            Cell { safety: Safety::Nothing, safety_of_most: Safety::Nothing, ..Cell::KEPT }
        }
        _ => return None,
    })
}

fn on_zookeeper(class: Class) -> Option<Cell> {
    Some(match class {
        Class::ServerPaused | Class::RestartWithData | Class::DiskFull | Class::ConnectionCut => {
            unavailable_of_most()
        }
        // "A lone server: can break until it is reached again"; its transaction ids begin anew. In an ensemble, one that
        // comes back empty is filled by the others.
        Class::RestartEmpty => Cell { safety_of_most: Safety::Nothing, ..unavailable_of_most() },
        // "Kept by its quorum."
        Class::Failover => Cell::KEPT,
        Class::ConnectionDelayed | Class::OneWay | Class::HalfOpen => Cell::KEPT,
        // "Not used."
        Class::ServerClockStep => Cell::KEPT,
        Class::PasswordRotated => Cell::KEPT,
        _ => return None,
    })
}

/// Free after one lease, and the queue positions of the dead three poll caps later.
fn dead_holder() -> Cell {
    Cell { liveness: Liveness { after_lease: true, polls: 4, restart_delay: false }, ..Cell::KEPT }
}

fn unavailable() -> Cell {
    Cell { unavailable: true, ..unavailable_of_most() }
}

fn unavailable_of_most() -> Cell {
    Cell { unavailable_of_most: true, ..Cell::KEPT }
}
