//! The workloads in which tasks take turns, in one table.

use crate::servers::Store;
use crate::sides::{
    BARE_HASH, BARE_SET, BARE_ZOOKEEPER, CURATOR, ETCD, FAIR, PERMITS, PLAIN, PLAIN_REMOTE, PYTHON, QUORUM,
    READ, REDISSON, REDISSON_FAIR, REDISSON_PERMITS, REDISSON_READ, REDISSON_WRITE, REDSYNC, RSLOCK, Side,
    TENURE, TENURE_REMOTE, WRITE, ZOOKEEPER, ZOOKEEPER_REMOTE,
};

/// Tasks of some processes that acquire, stay inside, release, and stay away, over and over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) store: Store,
    pub(crate) sides: &'static [Side],
    /// What is locked, in the words of the drivers.
    pub(crate) kind: &'static str,
    /// Whether each task has a name of its own.
    pub(crate) own: bool,
    pub(crate) processes: usize,
    pub(crate) tasks: usize,
    /// µs.
    pub(crate) hold: u64,
    pub(crate) pause: u64,
    /// Milliseconds of a round, and how many rounds there are.
    pub(crate) millis: u64,
    pub(crate) rounds: usize,
}

/// One task on a name of its own.
const ALONE: Workload = Workload {
    name: "W1",
    what: "one task",
    store: Store::Redis,
    sides: &[TENURE, PLAIN, BARE_HASH, BARE_SET, RSLOCK, REDSYNC, PYTHON, REDISSON],
    kind: "plain",
    own: true,
    processes: 1,
    tasks: 1,
    hold: 0,
    pause: 0,
    millis: 250,
    rounds: 15,
};

const MANY: Workload = Workload { name: "W2", what: "64 tasks, 64 names", tasks: 64, millis: 300, ..ALONE };

const CONTENDED: Workload = Workload {
    name: "W3",
    what: "one name, 2 processes of 8 tasks, as fast as possible",
    sides: &[TENURE, TENURE_REMOTE, PLAIN, PLAIN_REMOTE, RSLOCK, REDSYNC, PYTHON, REDISSON],
    own: false,
    processes: 2,
    tasks: 8,
    millis: 800,
    ..ALONE
};

/// As a service works under a lock, and then elsewhere.
const SERVICE: Workload = Workload {
    name: "W3b",
    what: "one name, 2 processes of 8 tasks, 1 ms inside, 5 ms away",
    hold: 1000,
    pause: 5000,
    millis: 1500,
    ..CONTENDED
};

const ON_ZOOKEEPER: Workload = Workload {
    name: "W8 one task",
    what: "ZooKeeper, one task",
    store: Store::ZooKeeper,
    sides: &[ZOOKEEPER, BARE_ZOOKEEPER, CURATOR, ETCD],
    ..ALONE
};

pub(crate) const WORKLOADS: &[Workload] = &[
    ALONE,
    MANY,
    CONTENDED,
    SERVICE,
    // Counts differ little from round to round.
    Workload { name: "W4 pair", what: "server commands of a pair", millis: 100, rounds: 7, ..ALONE },
    Workload {
        name: "W4 contended",
        what: "server commands of an acquisition as in W3b",
        millis: 500,
        rounds: 7,
        ..SERVICE
    },
    Workload {
        name: "W9",
        what: "kinds, 64 tasks on a name each, or 64 readers of one lock",
        sides: &[
            TENURE,
            FAIR,
            READ,
            WRITE,
            PERMITS,
            REDISSON,
            REDISSON_FAIR,
            REDISSON_READ,
            REDISSON_WRITE,
            REDISSON_PERMITS,
        ],
        millis: 250,
        ..MANY
    },
    Workload {
        name: "W7",
        what: "a majority of 5 servers, one task",
        store: Store::Quorum,
        sides: &[QUORUM, BARE_SET, REDSYNC, RSLOCK],
        ..ALONE
    },
    ON_ZOOKEEPER,
    Workload {
        name: "W8 64 tasks",
        what: "ZooKeeper, 64 tasks, 64 names",
        tasks: 64,
        millis: 400,
        ..ON_ZOOKEEPER
    },
    Workload {
        name: "W8 one name",
        what: "ZooKeeper, one name, 2 processes of 8 tasks, as fast as possible",
        sides: &[ZOOKEEPER, ZOOKEEPER_REMOTE, CURATOR, ETCD],
        own: false,
        processes: 2,
        tasks: 8,
        millis: 800,
        ..ON_ZOOKEEPER
    },
];
