//! Short histories, and how they are shown.

use checker::sim::{Bug, Scenario, simulate};
use checker::{Check, Expectations, History, Violation, check, shorten, svg, text};

/// The first violation of this check by a mistake, with its history as short as it gets.
fn first(bug: Bug, by: Check) -> (History, History, Violation) {
    let found = (0..).find_map(|seed| {
        let history = simulate(seed, Scenario::with(bug)).history;
        let expected = Expectations::of_run(history.run()?);
        let violation = check(&history, &expected).of(by)?.clone();
        Some((shorten(&history, &expected, &violation), history, violation))
    });
    found.expect("it is found some time")
}

#[test]
fn a_short_history_shows_the_violation_and_little_else() {
    for (bug, by) in [
        (Bug::ReleaseWithoutOwner, Check::Overlap),
        (Bug::WakingTheDead, Check::Stall),
        (Bug::QueueSkips, Check::Overtaken),
        (Bug::FenceGoesBack, Check::Fence),
    ] {
        let (short, long, violation) = first(bug, by);
        let expected = Expectations::of_run(long.run().expect("one"));
        assert!(check(&short, &expected).of(by).is_some(), "{bug:?}");
        let text = text(&short, &violation);
        assert!(
            short.events().len() < 60 && short.events().len() * 4 < long.events().len(),
            "{bug:?}: {text}"
        );
        assert!(text.contains(&format!("seed {}", long.run().expect("one").seed)), "{text}");
    }
}

#[test]
fn a_picture_has_a_row_for_each_worker_and_marks_the_violation() {
    let (short, _, violation) = first(Bug::ReleaseWithoutOwner, Check::Overlap);
    let picture = svg(&short, &violation);
    for op in &violation.ops {
        assert!(picture.contains(&format!("process {} ·", op.process)), "{picture}");
        assert!(picture.contains(&format!(">{op} ·")), "{picture}");
    }
    assert!(picture.contains("stroke-dasharray") && picture.ends_with("</svg>\n"));
    // Folders for pictures to look at: TENURE_PICTURES=/some/folder.
    if let Some(folder) = std::env::var_os("TENURE_PICTURES") {
        for (bug, by) in [
            (Bug::ReleaseWithoutOwner, Check::Overlap),
            (Bug::WakingTheDead, Check::Stall),
            (Bug::QueueSkips, Check::Overtaken),
            (Bug::FenceGoesBack, Check::Fence),
            (Bug::RenewalRevives, Check::Revived),
            (Bug::NoTtl, Check::Stall),
            (Bug::CompareThenDelete, Check::Overlap),
            (Bug::OneValueForAll, Check::Overlap),
        ] {
            let (short, _, violation) = first(bug, by);
            let file = std::path::Path::new(&folder).join(format!("{bug:?}.svg"));
            std::fs::write(&file, svg(&short, &violation)).unwrap();
            std::fs::write(file.with_extension("txt"), text(&short, &violation)).unwrap();
        }
    }
}
