//! `cargo xtask test`: all parts, whatever becomes of the others. Tests wait most of the time: two parts run at once, and
//! each shows what it said when it is over. What is built or measured has the machine for itself.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::args::Wanted;
use crate::examples::is_like;
use crate::packages::{self, Need};
use crate::parts::{Count, Part, Step, parts};
use crate::run::{Ended, Show, run};
use crate::summary::{Counts, Outcome, closing};
use crate::{MISSING, verdict};

pub(crate) fn test(wanted: &Wanted) -> ExitCode {
    // Asked for now: the build may put another file in the place of this program.
    let bin = std::env::current_exe().ok().and_then(|me| me.parent().map(PathBuf::from)).unwrap_or_default();
    let parts = parts(wanted, &bin);
    let needs: Vec<Need> = parts.iter().flat_map(|p| p.needs).copied().collect();
    if let Err(why) = packages::provide(&needs) {
        eprintln!("{why}");
        return MISSING.into();
    }
    let may_be_empty = !wanted.filter.is_empty();
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut together = Vec::new();
    for part in parts {
        if part.alone {
            outcomes.extend(side_by_side(std::mem::take(&mut together), may_be_empty));
            outcomes.push(outcome(part, Show::Now, may_be_empty));
        } else {
            together.push(part);
        }
    }
    outcomes.extend(side_by_side(together, may_be_empty));
    let ran: u32 = outcomes.iter().map(|o| o.counts.passed + o.counts.failed).sum();
    if ran == 0 {
        eprintln!("no test has run");
    }
    println!("\n{}", closing(&outcomes));
    verdict(ran > 0 && outcomes.iter().all(Outcome::is_good))
}

/// All of them, two at a time. Outcomes in their order.
fn side_by_side(parts: Vec<Part>, may_be_empty: bool) -> Vec<Outcome> {
    let show = if parts.len() > 1 { Show::Later } else { Show::Now };
    let n = parts.len();
    let todo = Mutex::new(parts.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..n.min(2) {
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
    match show {
        Show::Now => println!("\n=== {}", part.name),
        Show::Later => println!("=== {} …", part.name),
    }
    let begin = Instant::now();
    let mut counts = Counts::default();
    let mut troubles = Vec::new();
    let (mut counted, mut said) = (false, String::new());
    for step in part.steps {
        counted |= step.counts != Count::None;
        let shown = shown(&step);
        let (more, trouble) = perform(step, show, &mut said);
        counts += more;
        troubles.extend(trouble.map(|why| format!("{shown}: {why}")));
    }
    if counted && !may_be_empty && counts.passed + counts.failed == 0 && troubles.is_empty() {
        troubles.push("no test has run".into());
    }
    if show == Show::Later {
        println!("\n=== {}\n{said}", part.name);
    }
    Outcome { name: part.name, counts, took: begin.elapsed(), troubles }
}

fn shown(step: &Step) -> String {
    let program = PathBuf::from(step.command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let words = step.command.get_args().map(|word| word.to_string_lossy().into_owned());
    std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ")
}

fn perform(step: Step, show: Show, text: &mut String) -> (Counts, Option<String>) {
    let said = Arc::new(Mutex::new((Counts::default(), String::new(), step.prints)));
    let to = said.clone();
    let ended = run(step.command, step.limit, show, move |line| {
        let (counts, text, missing) = &mut *to.lock().unwrap();
        if let Some(more) = Counts::of_line(line) {
            *counts += more;
        }
        missing.retain(|wanted| !is_like(line, wanted));
        if show == Show::Later {
            text.push_str(line);
            text.push('\n');
        }
    });
    let (counts, more, missing) = &*said.lock().unwrap();
    text.push_str(more);
    let ended = match (ended, &missing[..]) {
        (Ended::Well, [first, ..]) => Ended::Badly(format!("it did not print {first:?}")),
        (ended, _) => ended,
    };
    judge(step.counts, *counts, ended)
}

/// What a step adds, and what is wrong with it. A step that ends badly without naming a failed test is one itself.
fn judge(count: Count, said: Counts, ended: Ended) -> (Counts, Option<String>) {
    let mut counts = if count == Count::Tests { said } else { Counts::default() };
    match ended {
        Ended::Well => {
            counts.passed += u32::from(count == Count::One);
            (counts, None)
        }
        Ended::Badly(why) => {
            if counts.failed == 0 {
                counts.failed = 1;
            }
            (counts, Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    fn part(scripts: &[(&str, Count)]) -> Part {
        let step = |&(script, counts): &(&str, Count)| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Step { command, limit: Duration::from_secs(10), counts, prints: Vec::new() }
        };
        Part { name: "a part".into(), needs: &[], alone: true, steps: scripts.iter().map(step).collect() }
    }

    const TWO: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";

    #[test]
    fn counts_add_up_over_steps() {
        let outcome = outcome(
            part(&[(TWO, Count::Tests), (TWO, Count::Tests), ("true", Count::One)]),
            Show::Now,
            false,
        );
        assert_eq!(outcome.counts, Counts { passed: 5, failed: 0, ignored: 0 });
        assert!(outcome.is_good());
    }

    #[test]
    fn a_bad_end_counts_once_and_the_rest_still_runs() {
        let outcome = outcome(
            part(&[("exit 7", Count::Tests), ("exit 8", Count::One), (TWO, Count::Tests)]),
            Show::Now,
            false,
        );
        assert_eq!(outcome.counts, Counts { passed: 2, failed: 2, ignored: 0 });
        assert!(outcome.troubles[0].contains("status: 7"), "{:?}", outcome.troubles);
    }

    #[test]
    fn what_is_not_printed_is_missed() {
        let mut says = part(&[("echo one 1; echo two", Count::One)]);
        says.steps[0].prints = vec!["two".into(), "one …".into()];
        assert!(outcome(says, Show::Now, false).is_good());
        let mut silent = part(&[("echo one", Count::One)]);
        silent.steps[0].prints = vec!["one".into(), "two".into()];
        let outcome = outcome(silent, Show::Later, false);
        assert_eq!(outcome.counts, Counts { passed: 0, failed: 1, ignored: 0 });
        assert!(outcome.troubles[0].contains("did not print \"two\""), "{:?}", outcome.troubles);
    }

    #[test]
    fn failed_tests_are_not_counted_twice() {
        let said = Counts { passed: 1, failed: 2, ignored: 0 };
        assert_eq!(judge(Count::Tests, said, Ended::Badly("101".into())), (said, Some("101".into())));
        assert_eq!(judge(Count::None, said, Ended::Well), (Counts::default(), None));
    }

    #[test]
    fn two_at_once_keep_their_order() {
        let slow = format!("sleep 0.2; {TWO}");
        let begun = Instant::now();
        let parts = (0..4).map(|_| part(&[(&slow, Count::Tests)])).collect();
        let outcomes = side_by_side(parts, false);
        assert!(outcomes.len() == 4 && outcomes.iter().all(|o| o.is_good() && o.counts.passed == 2));
        assert!(begun.elapsed() < Duration::from_millis(750), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_part_in_which_nothing_runs_is_bad() {
        assert!(!outcome(part(&[("true", Count::Tests)]), Show::Now, false).is_good());
        assert!(outcome(part(&[("true", Count::Tests)]), Show::Now, true).is_good());
        assert!(outcome(part(&[("true", Count::None)]), Show::Now, false).is_good());
    }
}
