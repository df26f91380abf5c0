//! The outcome of a test run: counts parsed from the tests' output, and the final lines.

use std::fmt;
use std::time::Duration;

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) ignored: u32,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.ignored += more.ignored;
    }
}

impl Counts {
    /// Parses a line `test result: ok. 3 passed; 0 failed; 1 ignored; …`, as both test harnesses print it.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let number = |what: &str| {
            let number = counts.split(';').find_map(|part| part.trim().strip_suffix(what))?;
            number.trim().parse().ok()
        };
        Some(Self { passed: number("passed")?, failed: number("failed")?, ignored: number("ignored")? })
    }
}

/// The outcome of a part.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) counts: Counts,
    pub(crate) took: Duration,
    /// What went wrong besides failed tests.
    pub(crate) trouble: Option<String>,
}

impl Outcome {
    pub(crate) fn is_good(&self) -> bool {
        self.counts.failed == 0 && self.trouble.is_none()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { passed, failed, ignored } = self.counts;
        write!(f, "{:<20} {passed:>5} passed {failed:>4} failed", self.name)?;
        match ignored {
            0 => write!(f, "{:13}", "")?,
            n => write!(f, " {n:>4} ignored")?,
        }
        write!(f, " {:>7.1} s", self.took.as_secs_f64())?;
        self.trouble.iter().try_for_each(|trouble| write!(f, "\n    {trouble}"))
    }
}

/// The final lines; the last one is also for machines. Parts ran in parallel, so the total time is less than their sum.
pub(crate) fn closing(outcomes: &[Outcome], took: Duration) -> String {
    let mut total = Counts::default();
    let mut text = String::new();
    for outcome in outcomes {
        total += outcome.counts;
        text += &format!("{outcome}\n");
    }
    text += &format!("{:<58} {:>7.1} s\n", "in all", took.as_secs_f64());
    text + &format!("{} passed, {} failed", total.passed, total.failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        let std =
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.52s";
        assert_eq!(Counts::of_line(std), Some(Counts { passed: 12, failed: 0, ignored: 1 }));
        let bad = "test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(Counts::of_line(bad), Some(Counts { passed: 7, failed: 2, ignored: 0 }));
        for other in [
            "",
            "test result: soon",
            "running 3 tests",
            "test a::b ... ok",
            "test result: ok. x passed; 1 failed",
        ] {
            assert_eq!(Counts::of_line(other), None, "{other}");
        }
    }

    #[test]
    fn the_last_line_is_plain() {
        let of = |name: &str, passed, failed, ignored, trouble: Option<&str>| Outcome {
            name: name.into(),
            counts: Counts { passed, failed, ignored },
            took: Duration::from_millis(1234),
            trouble: trouble.map(str::to_owned),
        };
        let outcomes =
            [of("tenure it", 40, 0, 2, None), of("conformance", 3, 1, 0, Some("exit status: 101"))];
        assert!(outcomes[0].is_good() && !outcomes[1].is_good());
        let text = closing(&outcomes, Duration::from_millis(1500));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "tenure it               40 passed    0 failed    2 ignored     1.2 s");
        assert_eq!(lines[1], "conformance              3 passed    1 failed                  1.2 s");
        assert_eq!(lines[2], "    exit status: 101");
        assert_eq!(lines[3], "in all                                                         1.5 s");
        assert_eq!(lines[4], "43 passed, 1 failed");
    }
}
