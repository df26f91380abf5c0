//! Stalls, and what is left in the store.

use checker::{Answer, Call, Check, Class, Store, Target, Wait, What};

use crate::build::{LOCK, Log, MS, Want};

/// The bound without a fault: a poll cap of 200 ms, and 500 ms of slack.
const BOUND: u64 = 700;

/// Released at 100, waited for since 50, granted at `granted`.
fn handed_over(granted: u64) -> Log {
    let mut log = Log::default();
    log.started(1).started(2).hold((10, 99), 1, 1, 7, &LOCK);
    log.acquire(50, 2, 1, &LOCK).granted(granted, 2, 1, 8).release(granted + 5, granted + 6, 2, 1);
    log
}

#[test]
fn a_free_name_that_nobody_gets_is_a_stall() {
    let report = handed_over(100 + BOUND).report(Store::Redis);
    assert_eq!((report.is_good(), report.stall_after_healing.nanos), (true, BOUND * MS));
    let report = handed_over(101 + BOUND).report(Store::Redis);
    assert_eq!(report.of(Check::Stall).expect("one").span, (100 * MS, (101 + BOUND) * MS));
}

#[test]
fn what_lies_within_a_fault_is_shown_and_no_violation() {
    let mut log = handed_over(5_000);
    log.fault((200, 4_500), Class::ServerPaused, Target::Store);
    let report = log.report(Store::Redis);
    assert!(report.is_good(), "{report:?}");
    assert_eq!(report.stall_under_faults.nanos, 4_300 * MS);
    assert_eq!(report.stall_after_healing.nanos, 500 * MS);
    let mut log = handed_over(5_000);
    log.fault((200, 4_000), Class::ServerPaused, Target::Store);
    assert_eq!(log.found(Store::Redis), [Check::Stall], "too long after it was healed");
}

#[test]
fn a_worker_that_stands_still_or_is_dead_does_not_wait() {
    let mut log = handed_over(5_000);
    log.fault((101, 4_900), Class::ClientPaused, Target::Process(2));
    assert!(log.report(Store::Redis).is_good());
    let mut log = Log::default();
    log.started(1).started(2).hold((10, 99), 1, 1, 7, &LOCK).acquire(50, 2, 1, &LOCK);
    log.event(200, 2, What::Killed).hold((5_000, 5_010), 1, 2, 8, &LOCK);
    assert!(log.report(Store::Redis).is_good());
}

#[test]
fn a_name_of_the_dead_is_free_after_a_lease() {
    let log = |granted: u64| {
        let mut log = Log::default();
        log.started(1).started(2).acquire(5, 1, 1, &LOCK).granted(10, 1, 1, 7).event(100, 1, What::Killed);
        log.fault((100, 100), Class::ClientKilled, Target::Process(1));
        log.acquire(50, 2, 1, &LOCK).granted(granted, 2, 1, 8).release(granted + 1, granted + 2, 2, 1);
        log
    };
    // A lease of 1 s from the death, four polls of 200 ms, and the slack.
    assert!(log(2_400).report(Store::Redis).is_good());
    assert_eq!(log(2_401).found(Store::Redis), [Check::Stall]);
}

#[test]
fn a_hold_that_may_still_be_there_is_not_free() {
    // The answer of the acquire is unknown: it may hold for a lease.
    let mut log = Log::default();
    log.acquire(5, 1, 1, &LOCK).answer(100, 1, 1, Answer::Unknown { error: "cut".into() });
    log.acquire(50, 2, 1, &LOCK).granted(1_700, 2, 1, 8).release(1_800, 1_801, 2, 1);
    let report = log.report(Store::Redis);
    assert!(report.is_good() && report.stall_after_healing.nanos == 600 * MS, "{report:?}");
}

#[test]
fn tries_that_find_a_free_name_busy_for_long_are_a_stall() {
    let a_try = Want { wait: Wait::Try, ..LOCK };
    let log = |last: u64| {
        let mut log = Log::default();
        log.hold((10, 99), 1, 1, 7, &LOCK);
        for (op, at) in (110..=last).step_by(100).enumerate() {
            log.acquire(at, 2, op as u64, &a_try).answer(at + 5, 2, op as u64, Answer::Busy);
        }
        log
    };
    assert!(log(710).report(Store::Redis).is_good());
    assert_eq!(log(910).report(Store::Redis).of(Check::Stall).map(|stall| stall.span.0), Some(110 * MS));
}

#[test]
fn those_who_wait_at_the_end_are_not_forgotten() {
    let mut log = Log::default();
    log.started(2).hold((10, 99), 1, 1, 7, &LOCK).acquire(50, 2, 1, &LOCK);
    log.event(2_000, 3, What::Exiting);
    assert_eq!(log.found(Store::Redis), [Check::Stall]);
}

#[test]
fn a_restarted_quorum_may_let_its_nodes_wait() {
    let mut log = handed_over(2_500);
    log.fault((101, 102), Class::RestartWithData, Target::Node(1));
    assert_eq!(log.found(Store::Redis), [Check::Stall]);
    assert!(log.report(Store::Redlock).is_good());
}

#[test]
fn what_is_left_by_those_who_ended_is_found() {
    let mut log = Log::default();
    log.started(1).hold((10, 20), 1, 1, 7, &LOCK).inspected(30, &["c1:1"], &[]);
    assert_eq!(log.found(Store::Redis), [Check::Leftover]);
    // Somebody still waits, somebody holds.
    let mut log = Log::default();
    log.started(1).started(2).acquire(5, 1, 1, &LOCK).granted(10, 1, 1, 7).acquire(15, 2, 1, &LOCK);
    log.inspected(30, &["c1:1"], &["c2:1"]);
    assert!(log.report(Store::Redis).is_good());
    // A waiter that gave up.
    let mut log = Log::default();
    log.started(1).started(2).hold((10, 5_000), 1, 1, 7, &LOCK);
    log.acquire(20, 2, 1, &Want { wait: Wait::For(30 * MS), ..LOCK }).answer(60, 2, 1, Answer::TimedOut);
    log.inspected(4_000, &["c1:1"], &["c2:5"]);
    assert_eq!(log.found(Store::Redis), [Check::Leftover]);
    // Something of nobody.
    let mut log = Log::default();
    log.started(1).hold((10, 20), 1, 1, 7, &LOCK).inspected(30, &["c9:1"], &[]);
    assert_eq!(log.found(Store::Redis), [Check::Leftover]);
}

#[test]
fn what_the_dead_leave_is_counted() {
    let mut log = Log::default();
    log.started(1).acquire(5, 1, 1, &LOCK).event(50, 1, What::Killed);
    log.inspected(5_000, &[], &["c1:1"]);
    let report = log.report(Store::Redis);
    assert_eq!((report.is_good(), report.leftovers), (true, 1));
}

#[test]
fn a_release_that_failed_leaves_it_for_a_lease() {
    let log = |at| {
        let mut log = Log::default();
        log.started(1).acquire(5, 1, 1, &LOCK).granted(10, 1, 1, 7).call(20, 1, 2, Call::Release { of: 1 });
        log.answer(25, 1, 2, Answer::Unavailable { error: "down".into() }).inspected(at, &["c1:1"], &[]);
        log
    };
    assert!(log(1_500).report(Store::Redis).is_good());
    assert_eq!(log(1_600).found(Store::Redis), [Check::Leftover]);
}
