//! The corpus of every target, and some thousands of new inputs from a fresh seed. `cargo run -p fuzz` goes on for
//! longer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fuzz::{Limit, NAMES, named, run};

/// The new inputs of each target: as many as come in that time, which never decides whether a test passes.
const LIMIT: Limit = Limit { inputs: 20_000, time: Duration::from_millis(1300) };

/// One at a time, since memory is counted for all of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn fuzz(name: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = fastrand::u64(..);
    match run(&mut *named(name), seed, LIMIT) {
        Ok(report) => println!("{name}: seed {seed}, {report:?}"),
        Err(failure) => panic!("seed {seed}: {failure}"),
    }
}

macro_rules! targets {
    ($($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            fuzz($name);
        })*

        #[test]
        fn no_target_is_left_out() {
            assert_eq!(NAMES, [$($name),*]);
        }
    };
}

targets! {
    replies_of_redis "resp"
    frames_of_zookeeper "jute"
    addresses "address"
    configuration_files "config"
    durations "duration"
    ledgers "ledger"
    rows_of_sqlite "rows"
    a_redis_that_lies "redis-server"
    a_zookeeper_that_lies "zookeeper-server"
}
