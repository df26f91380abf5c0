//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use checker::{Class, Store};

use crate::kinds::Use;

pub(crate) const USAGE: &str = "\
Usage: chaos [--store STORE,…] [--kinds KIND,…] [--faults FAULT,…] [--seconds N] [--seed X] [--jobs N] [--resume]
             [--plant]
       chaos --report [PAGE]

  --store STORE,…  memory, sqlite, redis, redis-plain, redis-sentinel, redis-cluster, redlock, zookeeper; all of them
                   if none is named
  --kinds KIND,…   lock, fair, rwlock, permits, leader, latch; all that the store supports if none is named
  --faults FAULT,… client-paused, client-killed, …; all that the store can suffer if none is named
  --seconds N      how long each store works; 60 if it is not named, and some more to start and to end
  --seed X         draws the faults and the work from it
  --jobs N         how many stores at a time; 2 if it is not named
  --resume         leaves out the stores that have a result of this seed and time
  --plant          deletes keys of Redis behind its back: a bug that must be found
  --report [PAGE]  writes the results of all runs so far into PAGE, docs/reliability.md if none is named

Histories are kept in target/chaos/SEED-STORE; `cargo run -p checker -- FOLDER` judges them again.
Exit code: 0 every promise was kept, 1 one was broken or could not be judged, 2 wrong usage.
";

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) stores: Vec<Store>,
    pub(crate) uses: Vec<Use>,
    pub(crate) time: Duration,
    pub(crate) seed: u64,
    pub(crate) jobs: usize,
    pub(crate) plant: bool,
    /// All, if it is empty.
    pub(crate) faults: Vec<Class>,
    pub(crate) resume: bool,
}

/// Where histories and results are.
pub(crate) fn home() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target")).join("chaos")
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            stores: Store::ALL.to_vec(),
            uses: Use::ALL.to_vec(),
            time: Duration::from_secs(60),
            seed: fastrand::u64(0..1_000_000_000),
            jobs: 2,
            plant: false,
            faults: Vec::new(),
            resume: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--store" => options.stores = listed(&value()?, &Store::ALL)?,
                "--kinds" => options.uses = listed(&value()?, &Use::ALL)?,
                "--seconds" => options.time = Duration::from_secs(number(&word, &value()?)?.max(1)),
                "--seed" => options.seed = number(&word, &value()?)?,
                "--jobs" => options.jobs = number(&word, &value()?)?.max(1) as usize,
                "--faults" => options.faults = listed(&value()?, &Class::ALL)?,
                "--resume" => options.resume = true,
                "--plant" => options.plant = true,
                _ => return Err(format!("no option is called {word}")),
            }
        }
        if options.plant {
            options.stores.retain(|store| *store == Store::Redis);
        }
        Ok(options)
    }

    /// Where the history of this store goes: a new folder, even for the same seed.
    pub(crate) fn folder(&self, store: Store) -> PathBuf {
        let home = home();
        let name = |n: u32| match n {
            1 => format!("{}-{store}", self.seed),
            n => format!("{}-{store}-{n}", self.seed),
        };
        (1..).map(|n| home.join(name(n))).find(|folder| !folder.exists()).unwrap_or(home)
    }
}

fn number(word: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{word} needs a number, not {value}"))
}

fn listed<T: Copy + std::fmt::Display>(value: &str, all: &[T]) -> Result<Vec<T>, String> {
    let one = |word: &str| {
        let found = all.iter().copied().find(|one| one.to_string() == word);
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        found.ok_or(format!("there is no {word}, only {}", names.join(", ")))
    };
    value.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_are_options() {
        let all = parsed("").unwrap();
        assert_eq!((all.stores.len(), all.uses.len(), all.time), (8, 6, Duration::from_secs(60)));
        let one = parsed("--store redis,sqlite --kinds fair --seconds 7 --seed 3 --jobs 1").unwrap();
        assert_eq!((one.stores, one.uses), (vec![Store::Redis, Store::Sqlite], vec![Use::Fair]));
        assert_eq!((one.time, one.seed, one.jobs), (Duration::from_secs(7), 3, 1));
        assert_eq!(parsed("--plant").unwrap().stores, [Store::Redis]);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, says) in [
            ("--store mysql", "no mysql, only memory"),
            ("--kinds", "needs a value"),
            ("--seconds soon", "not soon"),
            ("--fast", "called --fast"),
        ] {
            let wrong = parsed(line).unwrap_err();
            assert!(wrong.contains(says), "{line}: {wrong}");
        }
    }
}
