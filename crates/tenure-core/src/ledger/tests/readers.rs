//! Readers that leave while others wait: whom it costs how many looks, and who is told.

use super::*;

/// Lets `n` readers wait for a writer, which leaves. Each then tries, and `leave` ends its hold before the next tries.
fn one_by_one(ledger: &mut Ledger, n: u64, leave: impl Fn(&mut Ledger, u64)) {
    let lease = Duration::from_millis(1);
    assert!(granted(ledger.tries(0, Kind::Write, at(0))));
    (1..=n).for_each(|i| assert!(!granted(ledger.tries(i, READ, at(0)))));
    ledger.release(&claim(0, Kind::Write), 0, at(1));
    for i in 1..=n {
        ledger.effects = Effects::default();
        let reader = Claim { lease, ..claim(i, READ) };
        assert!(granted(ledger.attempt(&reader, &process(), at(1 + i)).unwrap()));
        leave(ledger, i);
        assert!(ledger.effects.admit.len() <= 1, "{:?} are told again", ledger.effects.admit);
    }
    assert!(ledger.is_idle());
}

#[test]
fn readers_that_leave_while_others_wait_cost_no_more_when_there_are_more() {
    assert_linear(|n| {
        looks(|ledger| {
            one_by_one(ledger, n, |ledger, i| {
                assert_eq!(ledger.release(&claim(i, READ), 0, at(1 + i)), Released::Freed);
            });
        })
    });
}

#[test]
fn readers_that_end_while_others_wait_cost_no_more_when_there_are_more() {
    assert_linear(|n| looks(|ledger| one_by_one(ledger, n, |ledger, i| ledger.prune(at(2 + i)))));
}

#[test]
fn the_last_of_many_readers_wakes_a_writer_before_the_readers_behind_it() {
    let mut ledger = Ledger::default();
    (1..=4).for_each(|i| assert!(granted(ledger.tries(i, READ, at(0)))));
    assert!(!granted(ledger.tries(5, Kind::Write, at(1))));
    assert!(!granted(ledger.tries(6, READ, at(1))));
    for i in 1..=4 {
        assert!(ledger.effects.admit.is_empty());
        ledger.release(&claim(i, READ), 0, at(2));
    }
    assert_eq!(ledger.effects.admit, [id(5).client]);
}

/// It was told, and may have died since. Whoever tells it again finds that out, and then tells those behind it.
#[test]
fn the_first_reader_is_told_again_when_the_name_is_free() {
    let mut ledger = Ledger::default();
    assert!(granted(ledger.tries(0, Kind::Write, at(0))));
    assert!(!granted(ledger.tries(1, READ, at(0))));
    assert!(!granted(ledger.tries(2, READ, at(0))));
    assert!(!granted(ledger.tries(3, Kind::Write, at(0))));
    ledger.release(&claim(0, Kind::Write), 0, at(1));
    assert_eq!(ledger.effects.admit, [id(1).client, id(2).client]);
    assert!(granted(ledger.tries(1, READ, at(2))));
    ledger.effects = Effects::default();
    ledger.release(&claim(1, READ), 0, at(3));
    assert_eq!(ledger.effects.admit, [id(2).client]);
    ledger.forget_waiters(&HashSet::from([id(2).client]));
    assert_eq!(ledger.effects.admit, [id(3).client]);
}

#[test]
fn a_reader_that_leaves_takes_no_wake_up_from_those_whom_a_dead_writer_lets_in() {
    let (mut ledger, under) = (Ledger::default(), Kind::Read { under_write: Some(id(3)) });
    assert!(granted(ledger.tries(3, Kind::Write, at(0))));
    assert!(granted(ledger.tries(4, under, at(1000))));
    (5..8).for_each(|i| assert!(!granted(ledger.tries(i, READ, at(9_000)))));
    ledger.effects = Effects::default();
    // The lease of the writer ends at this moment.
    assert_eq!(ledger.release(&claim(4, under), 0, at(10_000)), Released::Freed);
    assert_eq!(ledger.effects.admit, [5, 6, 7].map(|n| id(n).client));
}
