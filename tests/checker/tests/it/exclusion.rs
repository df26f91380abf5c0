//! Overlaps: locks, re-entry, readers and writers, permits, detached and forced holds, unknown answers.

use checker::{Answer, Call, Check, Class, Granted, Kind, Store, Target, What};

use crate::build::{LOCK, Log, MS, Want, of};

#[test]
fn two_guards_that_say_held_at_one_time_overlap() {
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &LOCK).hold((40, 80), 2, 1, 8, &LOCK);
    let report = log.report(Store::Redis);
    let overlap = report.of(Check::Overlap).expect("one");
    assert_eq!((overlap.span, report.violations.len()), ((40 * MS, 50 * MS), 1));
    assert_eq!(overlap.ops.iter().map(|op| op.process).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn holds_that_follow_each_other_do_not_overlap() {
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &LOCK).hold((50, 80), 2, 1, 8, &LOCK).hold((80, 90), 1, 2, 9, &LOCK);
    assert!(log.found(Store::Redis).is_empty());
}

#[test]
fn a_guard_that_nobody_asked_is_certain_of_nothing() {
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &LOCK).acquire(20, 2, 1, &LOCK);
    // The process stood still between the grant and the reading of the clock: the guard may be over by then.
    log.answer(40, 2, 1, Answer::Granted(Granted { fence: Some(8), hold: None, remaining: Some(0) }));
    log.not_held(41, 2, 1);
    assert!(log.found(Store::Redis).is_empty());
    // Had it said held at that moment, it would be two.
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &LOCK).acquire(20, 2, 1, &LOCK).granted(40, 2, 1, 8).not_held(41, 2, 1);
    assert_eq!(log.found(Store::Redis), [Check::Overlap]);
}

#[test]
fn calls_without_a_known_answer_exclude_nobody() {
    let mut log = Log::default();
    log.acquire(5, 1, 1, &LOCK).answer(30, 1, 1, Answer::Unknown { error: "cut".into() });
    log.acquire(5, 3, 1, &LOCK); // never answered
    log.hold((10, 50), 2, 1, 7, &LOCK);
    // A release of unknown outcome is held until the last word of its guard.
    log.acquire(54, 2, 2, &LOCK).granted(55, 2, 2, 8).held(60, 2, 2).call(65, 2, 9, Call::Release { of: 2 });
    log.answer(70, 2, 9, Answer::Unknown { error: "cut".into() });
    log.hold((62, 80), 4, 1, 9, &LOCK);
    assert!(log.found(Store::Redis).is_empty());
}

#[test]
fn a_lost_guard_is_held_until_its_last_word() {
    let mut log = Log::default();
    log.acquire(0, 1, 1, &LOCK).granted(1, 1, 1, 7).held(20, 1, 1).not_held(900, 1, 1);
    log.hold((500, 800), 2, 1, 8, &LOCK);
    assert!(log.found(Store::Redis).is_empty());
    log.held(600, 1, 1);
    assert_eq!(log.found(Store::Redis), [Check::Overlap]);
}

#[test]
fn an_owner_overlaps_itself_and_no_other() {
    let me = Want { owner: Some("me"), ..LOCK };
    let mut log = Log::default();
    log.hold((10, 90), 1, 1, 7, &me).hold((20, 60), 1, 2, 7, &me);
    assert!(log.found(Store::Redis).is_empty());
    // The owners of another process are others, whatever they are called.
    log.hold((30, 40), 2, 1, 8, &me);
    assert!(log.found(Store::Redis).contains(&Check::Overlap));
}

#[test]
fn readers_overlap_and_writers_do_not() {
    let (read, write) = (of(Kind::Read), of(Kind::Write));
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &read).hold((20, 60), 2, 1, 8, &read).hold((60, 90), 3, 1, 9, &write);
    assert!(log.found(Store::Redis).is_empty());
    log.hold((40, 45), 3, 2, 10, &write);
    assert!(log.found(Store::Redis).contains(&Check::Overlap));
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &write).hold((20, 60), 2, 1, 8, &read);
    assert_eq!(log.found(Store::Redis), [Check::Overlap]);
    // An owner may read under its own write.
    let [read, write] = [read, write].map(|want| Want { owner: Some("me"), ..want });
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &write).hold((20, 60), 1, 2, 7, &read);
    assert!(log.found(Store::Redis).is_empty());
}

#[test]
fn permits_are_never_more_than_there_are() {
    let permits = |n| of(Kind::Permits { n, limit: 3 });
    let mut log = Log::default();
    log.hold((10, 50), 1, 1, 7, &permits(2)).hold((20, 60), 2, 1, 8, &permits(1));
    log.hold((50, 90), 3, 1, 9, &permits(2));
    assert!(log.found(Store::Redis).is_empty());
    log.hold((55, 58), 4, 1, 10, &permits(1));
    assert_eq!(log.found(Store::Redis), [Check::Overlap]);
}

#[test]
fn a_resize_counts_for_those_who_come_after_it() {
    let permits = of(Kind::Permits { n: 1, limit: 1 });
    let mut log = Log::default();
    log.hold((10, 90), 1, 1, 7, &permits);
    log.call(20, 9, 1, Call::Resize { name: "a".into(), to: 2 }).answer(
        22,
        9,
        1,
        Answer::Done { value: None },
    );
    log.hold((30, 90), 2, 1, 8, &permits);
    log.call(40, 9, 2, Call::Resize { name: "a".into(), to: 1 }).answer(
        42,
        9,
        2,
        Answer::Done { value: None },
    );
    // Those inside stay, although they are too many now.
    assert!(log.found(Store::Redis).is_empty());
    log.hold((100, 120), 1, 2, 9, &permits).hold((110, 130), 2, 2, 10, &permits);
    assert_eq!(log.found(Store::Redis), [Check::Overlap]);
}

#[test]
fn a_detached_hold_blocks_until_its_lease_ends() {
    let detach = |log: &mut Log, remaining: u64| {
        log.acquire(0, 1, 1, &LOCK).granted(1, 1, 1, 7);
        log.event(10, 1, What::Detached { of: 1, remaining: remaining * MS });
    };
    let mut log = Log::default();
    detach(&mut log, 500);
    log.hold((600, 610), 2, 1, 8, &LOCK);
    assert!(log.found(Store::Redis).is_empty());
    log.hold((400, 410), 3, 1, 9, &LOCK);
    assert!(log.found(Store::Redis).contains(&Check::Overlap));
    // Released by its id, it is free.
    let mut log = Log::default();
    detach(&mut log, 500);
    log.call(300, 2, 1, Call::ReleaseBy { hold: "c1:1".into() }).answer(
        310,
        2,
        1,
        Answer::Done { value: Some(1) },
    );
    log.hold((400, 410), 3, 1, 9, &LOCK);
    assert!(log.found(Store::Redis).is_empty());
}

#[test]
fn who_is_driven_out_by_force_may_not_know_yet() {
    let mut log = Log::default();
    log.call(20, 9, 1, Call::Force { name: "a".into() }).answer(25, 9, 1, Answer::Done { value: Some(1) });
    log.hold((10, 50), 1, 1, 7, &LOCK).hold((40, 80), 2, 1, 8, &LOCK);
    let report = log.report(Store::Redis);
    assert_eq!((report.violations.len(), report.overlaps.len()), (0, 1));
}

#[test]
fn overlaps_are_counted_where_exclusion_is_not_promised() {
    for (class, store, is_promised) in [
        (Class::RestartWithData, Store::Redis, true),
        (Class::RestartEmpty, Store::Redis, false),
        (Class::Failover, Store::RedisSentinel, false),
        (Class::RestartEmpty, Store::Redlock, true),
        (Class::Eviction, Store::RedisPlain, false),
        (Class::Failover, Store::Zookeeper, true),
    ] {
        let mut log = Log::default();
        log.fault((20, 30), class, Target::Node(0));
        log.hold((10, 50), 1, 1, 7, &LOCK).hold((40, 80), 2, 1, 8, &LOCK);
        let report = log.report(store);
        assert_eq!(report.of(Check::Overlap).is_some(), is_promised, "{store} {class}");
        assert_eq!(report.overlaps.is_empty(), is_promised, "{store} {class}");
    }
}

#[test]
fn a_fault_excuses_nothing_before_it_and_nothing_a_lease_after_it() {
    for (at, is_excused) in [(15, false), (40, true), (1_400, true), (3_000, false)] {
        let mut log = Log::default();
        log.fault((20, 30), Class::RestartEmpty, Target::Store);
        log.hold((10, 5_000), 1, 1, 7, &LOCK).hold((at, at + 2), 2, 1, 8, &LOCK);
        assert_eq!(log.report(Store::Redis).of(Check::Overlap).is_none(), is_excused, "{at}");
    }
}

#[test]
fn a_quorum_breaks_only_if_most_of_its_nodes_are_hit() {
    for (nodes, is_excused) in [(&[0, 1][..], false), (&[0, 1, 2], true), (&[2, 2, 2], false)] {
        let mut log = Log::default();
        for node in nodes {
            log.fault((20, 30), Class::RestartEmpty, Target::Node(*node));
        }
        log.hold((10, 50), 1, 1, 7, &LOCK).hold((40, 80), 2, 1, 8, &LOCK);
        let expected = crate::build::expected(Store::Zookeeper).with_nodes(5);
        let report = checker::check(&log.history(), &expected);
        assert_eq!(report.is_good(), is_excused, "{nodes:?}");
    }
}
