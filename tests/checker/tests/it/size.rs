//! The cost of a check grows with the length of a history, and with nothing else.

use std::time::Instant;

use checker::{Check, Kind, Store};

use crate::build::{LOCK, Log, Want, of};

/// Holds that follow each other, of three kinds, with readers beside each other and waiters in a queue.
fn long(turns: u64) -> Log {
    let mut log = Log::default();
    for process in 1..=4 {
        log.started(process);
    }
    for turn in 0..turns {
        let (at, op) = (turn * 100 + 10, turn * 10);
        log.hold((at, at + 40), 1, op, turn + 1, &LOCK);
        for reader in 2..=4 {
            let read = Want { name: "read", ..of(Kind::Read) };
            log.hold((at + u64::from(reader), at + 60), reader, op, turn * 10 + u64::from(reader), &read);
        }
        let fair = Want { name: "fair", ..of(Kind::Fair) };
        log.acquire(at, 2, op + 1, &fair).acquire(at + 1, 3, op + 1, &fair);
        log.granted(at + 2, 2, op + 1, turn * 2 + 1).release(at + 20, at + 21, 2, op + 1);
        log.granted(at + 22, 3, op + 1, turn * 2 + 2).release(at + 40, at + 41, 3, op + 1);
    }
    log
}

/// Both run in turn on a machine that may be busy, so their ratio is compared and not their time: a check that looks at
/// all pairs would take 64 times as long for eight times as much.
#[test]
fn eight_times_as_many_events_take_about_eight_times_as_long() {
    let (short, long) = (long(500).history(), long(4_000).history());
    let expected = crate::build::expected(Store::Redis);
    let mut times = [f64::MAX; 2];
    for _ in 0..5 {
        for (history, best) in [&short, &long].into_iter().zip(&mut times) {
            let begin = Instant::now();
            assert!(checker::check(history, &expected).is_good());
            *best = best.min(begin.elapsed().as_secs_f64());
        }
    }
    let ratio = times[1] / times[0];
    assert!(
        ratio < 24.0,
        "{ratio:.1} times as long for {} and {} events",
        short.events().len(),
        long.events().len()
    );
}

/// Each hold overlaps all that follow. Each is reported once, not each pair.
#[test]
fn holds_that_all_overlap_are_reported_once_each() {
    let mut log = Log::default();
    let holds = 2_000;
    for hold in 0..holds {
        log.hold((10 + hold, 100_000), 1, hold, hold + 1, &LOCK);
    }
    let report = log.report(Store::Redis);
    let overlaps = report.violations.iter().filter(|violation| violation.check == Check::Overlap).count();
    assert_eq!(overlaps as u64, holds - 1);
}
