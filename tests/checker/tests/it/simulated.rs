//! Simulated histories: nothing is found where nothing is wrong, and every known mistake where it is made.

use checker::sim::{Bug, Protocol, Scenario, Simulated, simulate};
use checker::{Check, Expectations, Report, check};

/// How many right histories of each scenario are judged; `TENURE_HISTORIES` for more.
const SEEDS: u64 = 1_000;
/// In how many steps a mistake must show.
const STEPS: usize = 10_000;

fn judged(simulated: &Simulated) -> Report {
    let run = simulated.history.run().expect("it says what it is");
    check(&simulated.history, &Expectations::of_run(run))
}

/// In parallel, since each history is alone.
fn nothing_is_found(scenario: Scenario) {
    let seeds = std::env::var("TENURE_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let grants: usize = std::thread::scope(|scope| {
        let part = |first: u64| {
            let own = (first..seeds).step_by(threads as usize);
            own.map(|seed| grants_of(seed, scenario)).sum::<usize>()
        };
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        running.into_iter().map(|thread| thread.join().expect("nothing was found")).sum()
    });
    assert!(grants > 20 * seeds as usize, "{grants} grants are too few to show anything");
}

fn grants_of(seed: u64, scenario: Scenario) -> usize {
    let simulated = simulate(seed, scenario);
    let report = judged(&simulated);
    let found = report.violations.first().map(|violation| {
        let expected = Expectations::of_run(simulated.history.run().expect("one"));
        let short = checker::shorten(&simulated.history, &expected, violation);
        checker::text(&short, violation)
    });
    assert!(found.is_none(), "seed {seed}: {}", found.unwrap_or_default());
    report.grants
}

#[test]
fn nothing_is_found_in_thousands_of_histories_of_the_protocol() {
    nothing_is_found(Scenario::right(Protocol::Tenure));
}

#[test]
fn nothing_is_found_in_thousands_of_histories_of_a_right_lock_by_hand() {
    nothing_is_found(Scenario::right(Protocol::ByHand));
}

#[test]
fn overlaps_by_a_server_that_forgets_are_counted_and_no_violations() {
    let scenario = Scenario { forgets: true, ..Scenario::right(Protocol::Tenure) };
    nothing_is_found(scenario);
    let overlaps: usize = (0..200).map(|seed| judged(&simulate(seed, scenario)).overlaps.len()).sum();
    assert!(overlaps > 0);
}

#[test]
fn a_history_is_the_same_for_the_same_seed() {
    let scenario = Scenario::right(Protocol::Tenure);
    assert_eq!(simulate(9, scenario).history, simulate(9, scenario).history);
    assert_ne!(simulate(9, scenario).history, simulate(10, scenario).history);
}

/// The mistake shows within so many steps, whichever seed one begins with.
fn is_caught(bug: Bug, by: &[Check]) {
    for begin in [0, 1_000, 2_000, 3_000] {
        let mut steps = 0;
        let found = (begin..).find_map(|seed| {
            let simulated = simulate(seed, Scenario::with(bug));
            steps += simulated.steps;
            assert!(steps <= STEPS, "{bug:?} does not show in {steps} steps from seed {begin} on");
            let report = judged(&simulated);
            by.iter().find_map(|check| report.of(*check)).map(|_| seed)
        });
        assert!(found.is_some());
    }
}

#[test]
fn a_release_without_an_owner_check_is_caught() {
    is_caught(Bug::ReleaseWithoutOwner, &[Check::Overlap]);
}

#[test]
fn an_acquire_that_counts_twice_after_a_lost_reply_is_caught() {
    is_caught(Bug::AcquireCountsTwice, &[Check::Stall, Check::Leftover]);
}

#[test]
fn a_renewal_that_revives_is_caught() {
    is_caught(Bug::RenewalRevives, &[Check::Revived, Check::Overlap]);
}

#[test]
fn a_fence_that_goes_back_is_caught() {
    is_caught(Bug::FenceGoesBack, &[Check::Fence]);
}

#[test]
fn a_queue_that_skips_is_caught() {
    is_caught(Bug::QueueSkips, &[Check::Overtaken]);
}

#[test]
fn a_lost_wake_up_is_caught() {
    is_caught(Bug::WakeUpLost, &[Check::Stall]);
}

#[test]
fn waking_the_dead_is_caught() {
    is_caught(Bug::WakingTheDead, &[Check::Stall]);
}

#[test]
fn by_hand_a_lock_without_a_ttl_is_caught() {
    is_caught(Bug::NoTtl, &[Check::Stall]);
}

#[test]
fn by_hand_a_ttl_that_is_set_by_a_second_command_is_caught() {
    is_caught(Bug::TtlInTwoSteps, &[Check::Stall]);
}

#[test]
fn by_hand_one_value_for_all_is_caught() {
    is_caught(Bug::OneValueForAll, &[Check::Overlap]);
}

#[test]
fn by_hand_a_release_in_three_steps_is_caught() {
    is_caught(Bug::CompareThenDelete, &[Check::Overlap]);
}
