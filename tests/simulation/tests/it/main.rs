//! Thousands of seeds keep every promise; each is the same again; a planted mistake is found.

use std::process::Command;

use simulation::{Found, Plant, Searched, run, search};

/// How many seeds are run: `TENURE_SEEDS`, or as many as take half a minute.
fn seeds() -> u64 {
    std::env::var("TENURE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

fn replay(found: &Found) -> String {
    format!(
        "seed {}: {}\n    cargo run -p simulation -- --replay {}",
        found.seed,
        found.words.join("; "),
        found.seed
    )
}

#[test]
fn every_promise_is_kept_in_thousands_of_seeds() {
    let searched: Searched = search(0..seeds(), None, 10);
    println!("{}", searched.summary());
    let broken: Vec<String> = searched.found.iter().map(replay).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let (grants, seeds) = (searched.grants as u64, searched.seeds);
    assert!(grants > 10 * seeds, "{grants} grants in {seeds} seeds are too few to tell");
}

/// The release of a fair lock that arrives twice, in the same millisecond in which somebody else got it: one seed in
/// thousands shows it.
#[test]
fn a_planted_race_is_found_and_is_the_same_again() {
    let searched = search(0..50_000, Some(Plant), 1);
    let found = searched.found.first().expect("one of the seeds shows it");
    println!("found with seed {}: {}", found.seed, found.words.join("; "));
    let first = run(found.seed, Some(Plant));
    assert_eq!(first.words(), found.words);
    assert_eq!(run(found.seed, Some(Plant)).to_text(), first.to_text());
    assert!(run(found.seed, None).is_good(), "it is the planted mistake that breaks a promise");
    let (text, is_good) = in_another_process(&[&format!("--replay={}", found.seed), "--plant"]);
    assert!(!is_good && text.contains(&first.to_text()), "{text}");
}

#[test]
fn a_seed_has_the_same_history_in_another_process() {
    for seed in 1..30 {
        let (text, is_good) = in_another_process(&[&format!("--replay={seed}")]);
        assert!(is_good, "{text}");
        assert!(text.contains(&run(seed, None).to_text()), "seed {seed} has another history");
    }
    assert_ne!(run(1, None).to_text(), run(2, None).to_text());
}

/// What the program prints, and whether it succeeds.
fn in_another_process(words: &[&str]) -> (String, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulation"));
    let output = command.args(words).arg("--history").output().expect("the program runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}
