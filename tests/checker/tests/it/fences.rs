//! Fences: their order, re-entry, terms of leaders, and resources that check them.

use checker::{Access, Action, Answer, Check, Class, Granted, Kind, Store, Target, What};

use crate::build::{LOCK, Log, Want, of};

#[test]
fn a_fence_that_does_not_grow_is_found() {
    for (first, second, is_good) in [(7, 8, true), (7, 7, false), (8, 7, false)] {
        let mut log = Log::default();
        log.hold((10, 20), 1, 1, first, &LOCK).hold((30, 40), 2, 1, second, &LOCK);
        assert_eq!(log.report(Store::Redis).of(Check::Fence).is_none(), is_good, "{first} {second}");
        // Nobody looks at what is not promised.
        assert!(log.found(Store::Redlock).is_empty());
    }
}

#[test]
fn a_waiter_is_granted_after_those_who_excluded_it() {
    // Its call is earlier than the answer of the other, its grant is not.
    let mut log = Log::default();
    log.acquire(5, 2, 1, &LOCK).hold((10, 20), 1, 1, 8, &LOCK).granted(30, 2, 1, 7).release(40, 41, 2, 1);
    assert_eq!(log.found(Store::Redis), [Check::Fence]);
    // Where exclusion can break, it may have been granted before.
    log.fault((12, 13), Class::RestartEmpty, Target::Store);
    assert!(log.found(Store::Redis).is_empty());
}

#[test]
fn readers_who_ask_at_the_same_time_have_any_order_and_no_two_the_same() {
    let read = of(Kind::Read);
    let mut log = Log::default();
    log.acquire(5, 1, 1, &read).acquire(5, 2, 1, &read);
    log.granted(10, 1, 1, 8).granted(11, 2, 1, 7).release(20, 21, 1, 1).release(22, 23, 2, 1);
    assert!(log.found(Store::Redis).is_empty());
    let mut log = Log::default();
    log.acquire(5, 1, 1, &read).acquire(5, 2, 1, &read);
    log.granted(10, 1, 1, 7).granted(11, 2, 1, 7).release(20, 21, 1, 1).release(22, 23, 2, 1);
    assert_eq!(log.found(Store::Redis), [Check::Fence]);
}

#[test]
fn a_reentry_has_the_fence_of_its_hold() {
    let me = Want { owner: Some("me"), ..LOCK };
    for (fence, is_good) in [(7, true), (8, false)] {
        let mut log = Log::default();
        log.hold((10, 90), 1, 1, 7, &me).hold((20, 60), 1, 2, fence, &me);
        assert_eq!(log.found(Store::Redis).is_empty(), is_good, "{fence}");
    }
}

#[test]
fn an_entry_after_a_loss_is_a_new_hold() {
    let me = Want { owner: Some("me"), ..LOCK };
    for (fence, is_good) in [(7, false), (8, true)] {
        let mut log = Log::default();
        log.acquire(5, 1, 1, &me).granted(10, 1, 1, 7).held(20, 1, 1).not_held(30, 1, 1);
        log.hold((40, 60), 1, 2, fence, &me);
        assert_eq!(log.found(Store::Redis).is_empty(), is_good, "{fence}");
    }
}

#[test]
fn a_read_under_ones_own_write_has_the_fence_of_the_write() {
    let [read, write] = [Kind::Read, Kind::Write].map(|kind| Want { owner: Some("me"), kind, ..LOCK });
    for (fence, is_good) in [(7, true), (8, false)] {
        let mut log = Log::default();
        log.hold((10, 90), 1, 1, 7, &write).hold((20, 60), 1, 2, fence, &read);
        assert_eq!(log.found(Store::Zookeeper).is_empty(), is_good, "{fence}");
    }
}

#[test]
fn a_grant_without_a_fence_is_found() {
    let granted = |hold: Option<String>| {
        let mut log = Log::default();
        log.acquire(5, 1, 1, &LOCK).answer(10, 1, 1, Answer::Granted(Granted { hold, ..Granted::default() }));
        log
    };
    let ours = granted(Some("c1:1".into()));
    assert_eq!(ours.found(Store::Sqlite), [Check::Fence]);
    assert!(ours.found(Store::RedisPlain).is_empty());
    // Another library has neither.
    assert!(granted(None).found(Store::Redis).is_empty());
}

#[test]
fn fences_of_a_wiped_server_may_begin_anew() {
    let mut log = Log::default();
    log.fault((20, 25), Class::RestartEmpty, Target::Store);
    log.hold((10, 15), 1, 1, 1_000, &LOCK).hold((30, 40), 2, 1, 3, &LOCK);
    assert!(log.found(Store::Zookeeper).is_empty());
    assert_eq!(log.found(Store::Redis), [Check::Fence]); // the clock goes on
}

#[test]
fn an_observer_sees_terms_grow() {
    let leader = of(Kind::Leader);
    let observed = |at, term| (at, What::Observed { observer: 1, name: "a".into(), term });
    let mut log = Log::default();
    log.hold((10, 20), 1, 1, 7, &leader).hold((30, 40), 2, 1, 9, &leader);
    for (at, what) in [observed(12, 7), observed(35, 9), observed(50, 9)] {
        log.event(at, 3, what);
    }
    assert!(log.found(Store::Redis).is_empty());
    let (at, what) = observed(60, 7);
    assert_eq!(log.event(at, 3, what).found(Store::Redis), [Check::Term]);
    let (at, what) = observed(25, 9);
    let mut log = Log::default();
    log.hold((30, 40), 2, 1, 9, &leader).event(at, 3, what);
    assert_eq!(log.found(Store::Redis), [Check::Term], "before anybody campaigned for it");
}

fn access(seq: u64, fence: u64, accepted: bool, action: Action) -> What {
    let fence = (fence > 0).then_some(fence);
    What::Access(Access { register: "account".into(), seq, of: Some(1), fence, accepted, action })
}

#[test]
fn an_old_fence_that_is_accepted_is_found() {
    let write = |value, based_on| Action::Write { value, based_on };
    let mut log = Log::default();
    log.event(1, 1, access(1, 33, true, write(1, 0)));
    log.event(2, 2, access(2, 34, true, write(2, 1)));
    log.event(3, 1, access(3, 33, false, write(2, 1)));
    let report = log.report(Store::Redis);
    assert_eq!((report.is_good(), report.lost_updates), (true, 0));
    log.event(4, 1, access(4, 33, true, write(3, 2)));
    assert_eq!(log.found(Store::Redis), [Check::Register]);
}

#[test]
fn lost_updates_are_counted_without_fences_and_impossible_with_them() {
    for (fence, is_good) in [(0, true), (33, false)] {
        let mut log = Log::default();
        log.event(1, 1, access(1, fence, true, Action::Read { value: 0 }));
        log.event(2, 2, access(2, fence, true, Action::Read { value: 0 }));
        log.event(3, 1, access(3, fence, true, Action::Write { value: 1, based_on: 0 }));
        let other = if fence > 0 { fence + 1 } else { 0 };
        log.event(4, 2, access(4, other, true, Action::Write { value: 1, based_on: 0 }));
        let report = log.report(Store::Redis);
        assert_eq!((report.lost_updates, report.is_good()), (1, is_good));
    }
}
