//! What each call and each guard promises for itself.

use checker::{Answer, Check, Class, Store, Target, Wait, What};

use crate::build::{LOCK, Log, MS, Want};

#[test]
fn lost_stays_lost() {
    let mut log = Log::default();
    log.acquire(5, 1, 1, &LOCK).granted(10, 1, 1, 7).held(20, 1, 1).not_held(30, 1, 1);
    assert!(log.report(Store::Redis).is_good());
    assert_eq!(log.held(31, 1, 1).found(Store::Redis), [Check::Revived]);
    let mut log = Log::default();
    log.hold((10, 20), 1, 1, 7, &LOCK).held(30, 1, 1);
    assert_eq!(log.found(Store::Redis), [Check::Revived], "after its release");
}

#[test]
fn a_fixed_lease_ends() {
    let leased = Want { lease: Some(100), ..LOCK };
    let mut log = Log::default();
    log.acquire(5, 1, 1, &leased).granted(10, 1, 1, 7).held(110, 1, 1);
    assert!(log.report(Store::Redis).is_good());
    assert_eq!(log.held(111, 1, 1).found(Store::Redis), [Check::Revived]);
}

#[test]
fn nothing_is_granted_or_busy_while_the_store_is_away() {
    let log = |span: (u64, u64), class| {
        let mut log = Log::default();
        log.fault((50, 200), class, Target::Store).acquire(span.0, 1, 1, &LOCK).granted(span.1, 1, 1, 7);
        log.release(300, 301, 1, 1);
        log
    };
    assert_eq!(log((60, 100), Class::ServerPaused).found(Store::Redis), [Check::Unavailable]);
    assert!(log((40, 100), Class::ServerPaused).report(Store::Redis).is_good(), "it may have come before");
    assert!(log((60, 210), Class::ServerPaused).report(Store::Redis).is_good(), "it may have come after");
    assert!(log((60, 100), Class::ScriptFlush).report(Store::Redis).is_good());
    let mut log = Log::default();
    log.fault((50, 200), Class::ConnectionCut, Target::Process(1));
    log.acquire(60, 1, 1, &LOCK).answer(100, 1, 1, Answer::Busy);
    log.acquire(60, 2, 1, &LOCK).answer(100, 2, 1, Answer::Busy);
    let report = log.report(Store::Redis);
    let found: Vec<u32> = report.violations.iter().map(|violation| violation.ops[0].process).collect();
    assert_eq!(found, [1], "only one of them is cut off");
}

#[test]
fn a_quorum_needs_most_of_its_nodes() {
    let expected = crate::build::expected(Store::Redlock).with_nodes(5);
    for (down, is_good) in [(2, true), (3, false)] {
        let mut log = Log::default();
        for node in 0..down {
            log.fault((50, 200), Class::ServerPaused, Target::Node(node));
        }
        log.acquire(60, 1, 1, &LOCK).granted(100, 1, 1, 0).release(150, 151, 1, 1);
        assert_eq!(checker::check(&log.history(), &expected).is_good(), is_good, "{down}");
    }
}

#[test]
fn limits_are_kept() {
    let log = |limit: u64, took: u64| {
        let mut log = Log::default();
        log.started(1).started(2).acquire(0, 2, 1, &LOCK).granted(0, 2, 1, 7);
        log.acquire(0, 1, 1, &Want { wait: Wait::For(limit * MS), ..LOCK });
        log.answer(took, 1, 1, Answer::TimedOut);
        log
    };
    // Within the slack of 500 ms after the limit, and never before it.
    assert!(log(1_000, 1_400).report(Store::Redis).is_good());
    assert_eq!(log(1_000, 1_400).report(Store::Redis).overrun, 400 * MS);
    assert_eq!(log(1_000, 1_501).found(Store::Redis), [Check::Limit]);
    assert_eq!(log(1_000, 900).found(Store::Redis), [Check::Limit]);
    assert!(log(0, 700).report(Store::Redis).is_good(), "the store has 200 ms in any case");
    let mut late = log(1_000, 5_000);
    late.fault((900, 4_900), Class::ClientPaused, Target::Process(1));
    assert!(late.report(Store::Redis).is_good(), "nothing of it ran");
}

#[test]
fn panics_and_contradictions_are_found() {
    let mut log = Log::default();
    log.event(5, 1, What::Panicked { message: "index out of bounds".into() });
    assert_eq!(log.found(Store::Redis), [Check::Panic]);
    let mut log = Log::default();
    log.answer(5, 1, 1, Answer::Busy).held(6, 1, 2).acquire(7, 1, 3, &LOCK).acquire(8, 1, 3, &LOCK);
    assert_eq!(log.found(Store::Redis), [Check::Log; 3]);
}
