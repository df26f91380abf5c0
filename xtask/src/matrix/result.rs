//! What came of the tests on one version, as it is kept.

use std::fmt;
use std::path::Path;

use super::rows::KNOWN;
use crate::summary::Counts;

#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) counts: Counts,
    pub(crate) failed: Vec<String>,
    pub(crate) seconds: u64,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Result {
    /// The row.
    pub(crate) name: String,
    /// What was tested, with its version.
    pub(crate) version: String,
    pub(crate) parts: Vec<Part>,
}

impl Result {
    /// Keeps it, in place of that of an earlier run.
    pub(crate) fn keep(&self, folder: &Path) -> std::result::Result<(), String> {
        let file = folder.join(format!("{}.result", self.name));
        std::fs::write(&file, self.text()).map_err(|e| format!("{}: {e}", file.display()))
    }

    /// The kept result of a row.
    pub(crate) fn load(folder: &Path, name: &str) -> Option<Self> {
        Self::parse(name, &std::fs::read_to_string(folder.join(format!("{name}.result"))).ok()?)
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.version);
        for Part { name, counts: Counts { passed, failed, ignored }, failed: tests, seconds } in &self.parts {
            text += &format!("part {name} {passed} {failed} {ignored} {seconds}\n");
            tests.iter().for_each(|test| text += &format!("failed {test}\n"));
        }
        text
    }

    fn parse(name: &str, text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut result = Self { name: name.to_owned(), version: lines.next()?.to_owned(), parts: Vec::new() };
        for line in lines {
            if let Some(test) = line.strip_prefix("failed ") {
                result.parts.last_mut()?.failed.push(test.to_owned());
                continue;
            }
            let mut words = line.strip_prefix("part ")?.split(' ');
            let name = words.next()?.to_owned();
            let mut number = || words.next()?.parse::<u32>().ok();
            let counts = Counts { passed: number()?, failed: number()?, ignored: number()? };
            result.parts.push(Part { name, counts, failed: Vec::new(), seconds: number()?.into() });
        }
        Some(result)
    }

    pub(crate) fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// The tests that failed without a reason that is known.
    pub(crate) fn unexplained(&self, row: &str) -> Vec<&str> {
        let is_known = |test: &str| reason(row, test).is_some();
        self.parts
            .iter()
            .flat_map(|part| &part.failed)
            .map(String::as_str)
            .filter(|test| !is_known(test))
            .collect()
    }
}

/// Why this test fails on this version, if that is known.
pub(crate) fn reason(row: &str, test: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(of, start, _)| *of == row && test.starts_with(start)).map(|(.., why)| *why)
}

impl fmt::Display for Result {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.version)?;
        for Part { name, counts, failed, seconds } in &self.parts {
            write!(f, "\n    {name}: {} passed, {} failed, {seconds} s", counts.passed, counts.failed)?;
            failed.iter().try_for_each(|test| write!(f, "\n        {test}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let part = |name: &str, failed: &[&str]| Part {
            name: name.to_owned(),
            counts: Counts { passed: 7, failed: failed.len() as u32, ignored: 1 },
            failed: failed.iter().map(ToString::to_string).collect(),
            seconds: 9,
        };
        let parts = vec![part("conformance", &["redis::lock::a"]), part("interop", &[])];
        let kept = Result { name: "redis-6.0".into(), version: "Redis 6.0.16".into(), parts };
        assert_eq!(Result::parse("redis-6.0", &kept.text()), Some(kept));
    }
}
