//! Runs many seeds, on all cores.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::server::Plant;

/// A seed that breaks a promise.
#[derive(Debug)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// What is broken.
    pub words: Vec<String>,
}

/// What came out of many seeds.
#[derive(Debug)]
pub struct Searched {
    /// Those that break a promise, in their order.
    pub found: Vec<Found>,
    /// How many ran.
    pub seeds: u64,
    /// How many calls they made, and how many of them were granted something.
    pub operations: usize,
    /// The grants.
    pub grants: usize,
    /// How long it took.
    pub took: Duration,
}

impl Searched {
    /// The seeds of a second.
    pub fn rate(&self) -> f64 {
        self.seeds as f64 / self.took.as_secs_f64()
    }

    /// What came out, in a line.
    pub fn summary(&self) -> String {
        format!(
            "{} seeds in {:.1} s, {:.0} per second: {} calls, {} grants, {} seeds break a promise",
            self.seeds,
            self.took.as_secs_f64(),
            self.rate(),
            self.operations,
            self.grants,
            self.found.len()
        )
    }
}

/// Runs these seeds, until so many of them have broken a promise.
pub fn search(seeds: Range<u64>, plant: Option<Plant>, most: usize) -> Searched {
    let (began, next, found) = (Instant::now(), AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let (operations, grants, ran) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicU64::new(0));
    let work = || {
        while found.lock().unwrap_or_else(|e| e.into_inner()).len() < most {
            let seed = next.fetch_add(1, SeqCst);
            if seed >= seeds.end {
                return;
            }
            let outcome = crate::run(seed, plant);
            operations.fetch_add(outcome.report.operations, SeqCst);
            grants.fetch_add(outcome.report.grants, SeqCst);
            ran.fetch_add(1, SeqCst);
            if !outcome.is_good() {
                let one = Found { seed, words: outcome.words() };
                found.lock().unwrap_or_else(|e| e.into_inner()).push(one);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().unwrap_or_else(|e| e.into_inner());
    found.sort_by_key(|one: &Found| one.seed);
    Searched {
        found,
        seeds: ran.into_inner(),
        operations: operations.into_inner(),
        grants: grants.into_inner(),
        took: began.elapsed(),
    }
}
