//! `cargo xtask test`: builds all test programs, then runs them as parts, independent of each other's result. Tests
//! mostly wait, so as many parts as there are cores run in parallel, and each shows its output at its end.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::args::Wanted;
use crate::binaries::Binary;
use crate::burn::Burners;
use crate::packages;
use crate::parts::{Part, Step, build, needs, parts};
use crate::peers;
use crate::run::{Ended, Show, run};
use crate::summary::{Counts, Outcome, closing};
use crate::{FAILED, MISSING, cores, verdict};

pub(crate) fn test(wanted: &Wanted) -> ExitCode {
    let begun = Instant::now();
    // Compiling needs neither servers nor peers, so these are installed meanwhile.
    let (provided, (built, binaries)) = std::thread::scope(|scope| {
        let provided = scope.spawn(|| {
            packages::provide(needs(wanted))?;
            if wanted.has_peers() {
                peers::fetch();
            }
            Ok::<(), String>(())
        });
        let built = built(build(wanted));
        (provided.join(), built)
    });
    if let Ok(Err(why)) = provided {
        eprintln!("{why}");
        return MISSING.into();
    }
    let mut outcomes = vec![built];
    if outcomes[0].is_good() {
        let burners = wanted.stress.then(Burners::start).transpose();
        if let Err(why) = &burners {
            eprintln!("{why}");
            return FAILED.into();
        }
        outcomes.extend(side_by_side(parts(wanted, &binaries), !wanted.filter.is_empty()));
    }
    let ran: u32 = outcomes.iter().map(|o| o.counts.passed + o.counts.failed).sum();
    if ran == 0 {
        eprintln!("no test has run");
    }
    println!("\n{}", closing(&outcomes, begun.elapsed()));
    verdict(ran > 0 && outcomes.iter().all(Outcome::is_good))
}

fn built(step: Step) -> (Outcome, Vec<Binary>) {
    println!("=== build");
    let begin = Instant::now();
    let found = Arc::new(Mutex::new(Vec::new()));
    let to = found.clone();
    let ended = run(step.command, step.limit, Show::Never, move |line| {
        to.lock().unwrap().extend(Binary::of_line(line));
    });
    let counts = Counts { failed: u32::from(ended != Ended::Well), ..Counts::default() };
    let trouble = match ended {
        Ended::Well => None,
        Ended::Badly(why) => Some(why),
    };
    let binaries = std::mem::take(&mut *found.lock().unwrap());
    (Outcome { name: "build".into(), counts, took: begin.elapsed(), trouble }, binaries)
}

/// Runs all parts, as many at a time as there are cores. Returns the outcomes in the order of the parts.
fn side_by_side(parts: Vec<Part>, may_be_empty: bool) -> Vec<Outcome> {
    let show = if parts.len() > 1 { Show::Later } else { Show::Now };
    let todo = Mutex::new(parts.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                loop {
                    let Some((at, part)) = todo.lock().unwrap().next() else { return };
                    let outcome = outcome(part, show, may_be_empty);
                    done.lock().unwrap().push((at, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

fn outcome(part: Part, show: Show, may_be_empty: bool) -> Outcome {
    println!("=== {}", part.name);
    let begin = Instant::now();
    let said = Arc::new(Mutex::new((Counts::default(), String::new())));
    let to = said.clone();
    let ended = run(part.step.command, part.step.limit, show, move |line| {
        let (counts, text) = &mut *to.lock().unwrap();
        if let Some(more) = Counts::of_line(line) {
            *counts += more;
        }
        if show == Show::Later {
            text.push_str(line);
            text.push('\n');
        }
    });
    let (counts, text) = std::mem::take(&mut *said.lock().unwrap());
    if show == Show::Later {
        println!("\n=== {}\n{text}", part.name);
    }
    let (counts, trouble) = judge(counts, ended, may_be_empty);
    Outcome { name: part.name, counts, took: begin.elapsed(), trouble }
}

/// Returns the counts of a part and what is wrong with it. An end in error without a failed test counts as one.
fn judge(mut counts: Counts, ended: Ended, may_be_empty: bool) -> (Counts, Option<String>) {
    match ended {
        Ended::Well if counts.passed + counts.failed == 0 && !may_be_empty => {
            (counts, Some("no test has run".into()))
        }
        Ended::Well => (counts, None),
        Ended::Badly(why) => {
            counts.failed = counts.failed.max(1);
            (counts, Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    fn part(script: &str) -> Part {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Part { name: script.into(), step: Step { command, limit: Duration::from_secs(120) } }
    }

    const TWO: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";

    #[test]
    fn results_of_tests_are_counted() {
        let outcome = outcome(part(&format!("{TWO}; {TWO}")), Show::Now, false);
        assert_eq!(outcome.counts, Counts { passed: 4, failed: 0, ignored: 0 });
        assert!(outcome.is_good());
    }

    #[test]
    fn a_bad_end_counts_once() {
        let outcome = outcome(part(&format!("{TWO}; exit 7")), Show::Later, false);
        assert_eq!(outcome.counts, Counts { passed: 2, failed: 1, ignored: 0 });
        assert!(outcome.trouble.is_some_and(|why| why.contains("status: 7")));
        let said = Counts { passed: 1, failed: 2, ignored: 0 };
        assert_eq!(judge(said, Ended::Badly("101".into()), false), (said, Some("101".into())));
    }

    #[test]
    fn parts_at_once_keep_their_order() {
        // Each part waits for a file that the next one creates: run one by one they would hang.
        let folder = crate::scratch::Scratch::new("parts").unwrap();
        let at = |n: usize| folder.path().join(n.to_string()).display().to_string();
        let n = cores().max(2);
        let script = |i: usize| match i {
            _ if cores() == 1 => TWO.to_owned(),
            i => format!("touch {}; while [ ! -e {} ]; do sleep 0.02; done; {TWO}", at(i), at((i + 1) % n)),
        };
        let outcomes = side_by_side((0..n).map(|i| part(&script(i))).collect(), false);
        assert!(outcomes.len() == n && outcomes.iter().all(|o| o.is_good() && o.counts.passed == 2));
        assert!((0..n).all(|i| outcomes[i].name == script(i)));
    }

    #[test]
    fn a_part_in_which_nothing_runs_is_bad() {
        assert!(!outcome(part("true"), Show::Now, false).is_good());
        assert!(outcome(part("true"), Show::Now, true).is_good());
    }
}
