//! Where the engine gets time, chance and threads from: one value, so that a simulation can replace all three and repeat
//! a run from its seed.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use crate::backend::background::run_on;
use crate::backend::{Clock, random};

/// The sources of time, chance and threads.
///
/// Deadlines and timers are those of tokio, on the runtime that [`Environment::start`] provides: a simulation pauses
/// the clock of its runtime.
///
/// ```
/// # use tenure_core as tenure;
/// # use tenure::backend::{Chance, Clock, Environment};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> std::io::Result<()> {
/// let system = Environment::system();
/// system.start("my-thread", async { println!("on a thread of its own") })?;
///
/// // For a test: time passes by hand, random numbers follow from a seed.
/// let test = Environment::with_clock(Clock::manual()).with_chance(Chance::seeded(7));
/// let client = tenure::Client::new(tenure::Memory::in_environment(test));
///
/// // For a simulation: everything runs on this runtime.
/// let simulated = Environment::simulated(7);
/// let client = tenure::Client::new(tenure::Memory::in_environment(simulated));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Environment {
    /// The clock by which grants are valid.
    pub clock: Clock,
    /// The source of random numbers.
    pub chance: Chance,
    threads: Threads,
}

#[derive(Clone)]
enum Threads {
    /// Each gets a thread and a runtime of its own.
    Own,
    /// Each is a task of this runtime.
    Tasks(Handle),
    /// As `Own`, but those for which it returns `true` cannot be started.
    #[cfg(test)]
    Refused(Arc<dyn Fn(&str) -> bool + Send + Sync>),
}

impl Environment {
    /// Returns the environment of a program: the machine's clock, random numbers of the system, and threads.
    pub fn system() -> Self {
        Self::with_clock(Clock::boot())
    }

    /// Creates an environment as [`Environment::system`], with another clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, chance: Chance::default(), threads: Threads::Own }
    }

    /// Replaces the source of random numbers.
    #[must_use]
    pub fn with_chance(self, chance: Chance) -> Self {
        Self { chance, ..self }
    }

    /// Creates the environment of a simulation: the clock of the current tokio runtime, random numbers that follow from
    /// `seed`, and tasks of that runtime instead of threads. On a runtime with one thread whose clock is paused, a run
    /// can be repeated.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn simulated(seed: u64) -> Self {
        let threads = Threads::Tasks(Handle::current());
        Self { clock: Clock::simulated(1.0), chance: Chance::seeded(seed), threads }
    }

    /// As [`Environment::system`], but threads for whose names `refused` returns `true` cannot be started.
    #[cfg(test)]
    pub(crate) fn without_threads(refused: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { threads: Threads::Refused(Arc::new(refused)), ..Self::system() }
    }

    /// Runs `work` on a thread of its own, or on what takes its place. Returns the runtime that it runs on.
    ///
    /// # Errors
    /// If the thread or its runtime cannot be created.
    pub fn start(&self, name: &str, work: impl Future<Output = ()> + Send + 'static) -> io::Result<Handle> {
        if let Threads::Tasks(handle) = &self.threads {
            handle.spawn(work);
            return Ok(handle.clone());
        }
        #[cfg(test)]
        if let Threads::Refused(refused) = &self.threads
            && refused(name)
        {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        run_on(thread::Builder::new().name(name.into()), runtime, work)?;
        Ok(handle)
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own threads",
            Self::Tasks(_) => "tasks of one runtime",
            #[cfg(test)]
            Self::Refused(_) => "some threads",
        })
    }
}

/// A source of random numbers for delays and ids. Clones of a seeded one draw from one sequence.
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::backend::Chance;
/// let (one, other) = (Chance::seeded(7), Chance::seeded(7));
/// assert_eq!(one.fraction(), other.fraction());
/// assert_eq!(one.jittered(Duration::from_secs(1)), other.jittered(Duration::from_secs(1)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Chance(Option<Arc<AtomicU64>>);

impl Chance {
    /// Creates a source whose numbers follow from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(AtomicU64::new(seed))))
    }

    /// Returns a random number from 0 to 1.
    pub fn fraction(&self) -> f64 {
        match self.next() {
            Some(n) => (n >> 11) as f64 / (1_u64 << 53) as f64,
            None => random(),
        }
    }

    /// Returns a random duration from half to one and a half of `d`.
    pub fn jittered(&self, d: Duration) -> Duration {
        d.mul_f64(0.5 + self.fraction())
    }

    /// Returns the next number of the sequence; `None` if it is not seeded.
    pub(crate) fn next(&self) -> Option<u64> {
        // SplitMix64: a counter whose values are mixed.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut n = self.0.as_ref()?.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Some(n ^ (n >> 31))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ClientId;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let draw = |seed| {
            let chance = Chance::seeded(seed);
            (chance.fraction(), chance.jittered(Duration::from_secs(1)), ClientId::drawn(&chance))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let drawn = Chance::seeded(1);
        let mean = (0..1000).map(|_| drawn.fraction()).sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        assert_ne!(ClientId::drawn(&Chance::default()), ClientId::drawn(&Chance::default()));
    }
}
