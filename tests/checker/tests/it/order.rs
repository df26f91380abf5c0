//! Fair order.

use checker::{Check, Class, Kind, Store, Target, Wait, What};

use crate::build::{Log, Want, of};

/// Process 1 is in the queue since 20, and served at 400; process 2 asks at `called`, and is served at 200.
fn overtaking(called: u64, kinds: [Kind; 2]) -> Log {
    let mut log = Log::default();
    log.started(1).started(2).acquire(10, 1, 1, &of(kinds[0])).event(20, 1, What::Queued { of: 1 });
    log.acquire(called, 2, 1, &of(kinds[1])).granted(200, 2, 1, 7).release(300, 301, 2, 1);
    log.granted(400, 1, 1, 8).release(500, 501, 1, 1);
    log
}

#[test]
fn who_comes_later_and_is_served_first_has_overtaken() {
    let fair = [Kind::Fair, Kind::Fair];
    assert_eq!(overtaking(30, fair).found(Store::Redis), [Check::Overtaken]);
    assert!(overtaking(15, fair).report(Store::Redis).is_good(), "it may have come before");
    assert!(overtaking(30, [Kind::Lock, Kind::Lock]).report(Store::Redis).is_good(), "barging is allowed");
    assert!(overtaking(30, [Kind::Fair, Kind::Lock]).report(Store::Redis).is_good(), "as are plain ones");
}

#[test]
fn readers_overtake_readers_and_no_writers() {
    assert!(overtaking(30, [Kind::Read, Kind::Read]).report(Store::Redis).is_good());
    assert_eq!(overtaking(30, [Kind::Write, Kind::Read]).found(Store::Redis), [Check::Overtaken]);
    assert_eq!(overtaking(30, [Kind::Read, Kind::Write]).found(Store::Redis), [Check::Overtaken]);
}

#[test]
fn a_fault_may_cost_a_position() {
    let mut log = overtaking(30, [Kind::Fair, Kind::Fair]);
    log.fault((25, 28), Class::RestartWithData, Target::Store);
    assert!(log.report(Store::Redis).is_good());
}

#[test]
fn a_waiter_counts_as_queued_after_the_slack() {
    let fair = of(Kind::Fair);
    let log = |called: u64| {
        let mut log = Log::default();
        log.started(1).started(2).started(3).hold((5, 799), 3, 1, 6, &fair).acquire(10, 1, 1, &fair);
        log.acquire(called, 2, 1, &fair).granted(850, 2, 1, 7).release(900, 901, 2, 1);
        log.granted(950, 1, 1, 8).release(960, 961, 1, 1);
        log
    };
    assert!(log(500).report(Store::Redis).is_good());
    assert_eq!(log(520).found(Store::Redis), [Check::Overtaken]);
}

#[test]
fn who_may_be_inside_already_does_not_overtake() {
    let mut log = Log::default();
    let me = Want { owner: Some("me"), ..of(Kind::Fair) };
    log.started(1).started(2).acquire(4, 2, 1, &me).granted(5, 2, 1, 7);
    log.acquire(10, 1, 1, &of(Kind::Fair)).event(20, 1, What::Queued { of: 1 });
    log.acquire(30, 2, 2, &Want { wait: Wait::Try, ..me }).granted(31, 2, 2, 7);
    log.release(40, 41, 2, 2).release(42, 43, 2, 1).granted(50, 1, 1, 8).release(60, 61, 1, 1);
    assert!(log.report(Store::Redis).is_good());
}
