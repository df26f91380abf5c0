//! Latches.

use checker::{Answer, Call, Check, Store, Wait};

use crate::build::{Log, MS};

fn name() -> String {
    "latch".into()
}

/// A latch of two, certainly closed since 20.
fn latch() -> Log {
    let mut log = Log::default();
    log.started(1).started(2);
    log.call(10, 1, 1, Call::SetCount { name: name(), to: 2 }).answer(
        20,
        1,
        1,
        Answer::Done { value: Some(1) },
    );
    log
}

impl Log {
    fn down(&mut self, span: (u64, u64), op: u64) -> &mut Self {
        self.call(span.0, 1, op, Call::CountDown { name: name() });
        self.answer(span.1, 1, op, Answer::Done { value: None })
    }

    fn count(&mut self, span: (u64, u64), value: u64) -> &mut Self {
        self.call(span.0, 2, span.0, Call::Count { name: name() });
        self.answer(span.1, 2, span.0, Answer::Done { value: Some(value) })
    }

    fn wait(&mut self, span: (u64, u64), opened: u64) -> &mut Self {
        self.call(span.0, 2, span.0, Call::Wait { name: name(), wait: Wait::For(5_000 * MS) });
        self.answer(span.1, 2, span.0, Answer::Done { value: Some(opened) })
    }
}

#[test]
fn a_latch_opens_when_it_is_counted_down() {
    let mut log = latch();
    log.wait((25, 60), 1).down((30, 35), 2).count((40, 45), 1).down((50, 55), 3);
    assert!(log.report(Store::Redis).is_good());
}

#[test]
fn a_latch_that_opens_early_is_found() {
    let mut log = latch();
    log.wait((25, 40), 1).down((30, 35), 2).down((50, 55), 3);
    assert_eq!(log.found(Store::Redis), [Check::Latch]);
    // A second count-down without an answer may have opened it.
    let mut log = latch();
    log.wait((25, 40), 1).down((30, 35), 2).call(32, 1, 3, Call::CountDown { name: name() });
    assert!(log.report(Store::Redis).is_good());
    // One that was on its way when the latch was set may count, too.
    let mut log = latch();
    log.call(5, 1, 3, Call::CountDown { name: name() }).wait((25, 40), 1).down((30, 35), 2);
    assert!(log.report(Store::Redis).is_good());
    // A deletion opens it.
    let mut log = latch();
    log.wait((25, 40), 1).call(30, 1, 3, Call::Delete { name: name() });
    assert!(log.report(Store::Redis).is_good());
}

#[test]
fn a_count_down_that_counts_twice_or_not_at_all_is_found() {
    for (value, is_good) in [(2, false), (1, true), (0, false)] {
        let mut log = latch();
        log.down((30, 35), 2).count((40, 45), value);
        assert_eq!(log.found(Store::Redis).is_empty(), is_good, "{value}");
    }
}

#[test]
fn who_still_waits_at_an_open_latch_is_found() {
    let mut log = latch();
    log.wait((25, 700), 1).down((30, 35), 2).down((50, 55), 3);
    assert!(log.report(Store::Redis).is_good());
    let mut log = latch();
    log.wait((25, 1_000), 1).down((30, 35), 2).down((50, 55), 3);
    assert_eq!(log.found(Store::Redis), [Check::Stall]);
    // It was open, though a new one was set since.
    assert_eq!(set_again(25).found(Store::Redis), [Check::Stall]);
}

/// A wait that is called at this time, a latch that is open from 615, and one that is set anew at 620.
fn set_again(waits: u64) -> Log {
    let mut log = latch();
    log.call(waits, 2, waits, Call::Wait { name: name(), wait: Wait::Forever });
    log.down((600, 605), 2).down((610, 615), 3);
    log.call(620, 1, 9, Call::SetCount { name: name(), to: 1 }).answer(
        625,
        1,
        9,
        Answer::Done { value: Some(1) },
    );
    log.count((3_000, 3_001), 1);
    log
}

#[test]
fn who_may_have_come_after_a_latch_was_open_waits_for_the_next_one() {
    for waits in [590, 612, 615] {
        assert!(set_again(waits).report(Store::Redis).is_good(), "{waits}");
    }
}
