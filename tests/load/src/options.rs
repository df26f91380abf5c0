//! The command line.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::store::Store;

pub(crate) const USAGE: &str = "\
Usage: load [--store STORE,…] [--scenario SCENARIO,…] [--seconds N] [--scale PERCENT]

  --store STORE,…        memory, sqlite, redis, zookeeper; all of them if none is named
  --scenario SCENARIO,…  waiters, fair, names, connects, clients; all of them if none is named
  --seconds N            how long clients connect, 200 a second, and how long a lease is at most; 60
  --scale PERCENT        of 10,000 waiters, 100,000 names, 12,000 connects and 1,000 clients; 100. Of waiters for a fair
                         lock on SQLite there are 3,000.

Exit code: 0 all figures are within their bounds, 1 one is not or a scenario failed, 2 wrong usage.
";

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scenario {
    /// Tasks of one client wait for one lock.
    Waiters,
    /// Tasks of one client wait for one fair lock.
    Fair,
    /// One client holds many names.
    Names,
    /// Clients come and go.
    Connects,
    /// Many clients in one process hold one lock each and wait for another.
    Clients,
}

impl Scenario {
    pub(crate) const ALL: [Self; 5] = [Self::Waiters, Self::Fair, Self::Names, Self::Connects, Self::Clients];

    /// How many there are of what it is about, at full scale.
    fn full(self, store: Store, time: Duration) -> u64 {
        match self {
            // All of them are in one row, which each change reads and writes: ten thousand take too long.
            Self::Fair if store == Store::Sqlite => 3_000,
            Self::Waiters | Self::Fair => 10_000,
            Self::Names => 100_000,
            Self::Connects => PER_SECOND * time.as_secs(),
            Self::Clients => 1_000,
        }
    }

    pub(crate) fn of_what(self) -> &'static str {
        match self {
            Self::Waiters | Self::Fair => "waiters",
            Self::Names => "names",
            Self::Connects => "connects",
            Self::Clients => "clients",
        }
    }
}

/// How many clients connect each second.
pub(crate) const PER_SECOND: u64 = 200;

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiters => "waiters",
            Self::Fair => "fair",
            Self::Names => "names",
            Self::Connects => "connects",
            Self::Clients => "clients",
        })
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) stores: Vec<Store>,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) time: Duration,
    scale: u64,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            stores: Store::ALL.to_vec(),
            scenarios: Scenario::ALL.to_vec(),
            time: Duration::from_secs(60),
            scale: 100,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--store" => options.stores = listed(&value()?, &Store::ALL)?,
                "--scenario" => options.scenarios = listed(&value()?, &Scenario::ALL)?,
                "--seconds" => options.time = Duration::from_secs(number(&word, &value()?)?.max(1)),
                "--scale" => options.scale = number(&word, &value()?)?,
                _ => return Err(format!("no option is called {word}")),
            }
        }
        Ok(options)
    }

    /// How many at this scale; enough to compare the tenth with the last.
    pub(crate) fn number_of(&self, scenario: Scenario, store: Store) -> u64 {
        (scenario.full(store, self.time) * self.scale / 100).max(20)
    }
}

fn listed<T: Copy + fmt::Display>(words: &str, all: &[T]) -> Result<Vec<T>, String> {
    let names = || all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let find = |word: &str| all.iter().copied().find(|one| one.to_string() == word);
    words.split(',').map(|word| find(word).ok_or_else(|| format!("{word} is none of {}", names()))).collect()
}

fn number(word: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{word} needs a number, not {value}"))
}
