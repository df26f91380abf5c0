//! The examples: what each says of itself at its head is what is run and what it must print.
//!
//! `//! Prints:` begins the lines of a run on the memory store; ``//! Prints with `--words`:`` those of one more run.
//! `//! Needs: redis-server` is for one that starts a server of its own, and gets no store. `…` in a line stands for
//! anything.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::packages::{Need, REDIS};
use crate::parts::{Count, Part, Step};
use crate::root;

const LIMIT: Duration = Duration::from_secs(60);
const NOTHING: &str = "nothing that it prints is said at its head, after `//! Prints:`";

#[derive(Debug, Default, PartialEq)]
struct Example {
    name: String,
    needs_server: bool,
    runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Default, PartialEq)]
struct Run {
    words: Vec<String>,
    prints: Vec<String>,
}

/// All of them, or those that need no server.
pub(crate) fn part(bin: &Path, quick: bool) -> Part {
    let all: Vec<Example> = files(&root()).iter().filter_map(|file| read(file)).collect();
    let wanted = all.iter().filter(|example| !(quick && example.needs_server));
    let needs: &[Need] = if quick { &[] } else { REDIS };
    let steps = wanted.flat_map(|example| steps(example, bin)).collect();
    Part { name: "examples".into(), needs, alone: false, steps }
}

fn steps(example: &Example, bin: &Path) -> Vec<Step> {
    let step = |run: &Run| {
        let mut command = Command::new(bin.join("examples").join(&example.name));
        if !example.needs_server {
            command.arg("memory:");
        }
        command.args(&run.words).current_dir(root());
        // One that promises nothing shows nothing: it fails.
        let prints = if run.prints.is_empty() { vec![NOTHING.to_owned()] } else { run.prints.clone() };
        Step { command, limit: LIMIT, counts: Count::One, prints }
    };
    example.runs.iter().map(step).collect()
}

fn files(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join("examples")).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        entries.map(|e| e.path()).filter(|path| path.extension().is_some_and(|e| e == "rs")).collect();
    files.sort();
    files
}

fn read(file: &Path) -> Option<Example> {
    let name = file.file_stem()?.to_str()?;
    Some(parse(name, &std::fs::read_to_string(file).ok()?))
}

fn parse(name: &str, source: &str) -> Example {
    let mut example = Example { name: name.to_owned(), ..Example::default() };
    let mut printing = false;
    for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
        let text = line.strip_prefix(' ').unwrap_or(line);
        if let Some(head) = text.strip_prefix("Prints").and_then(|rest| rest.strip_suffix(':')) {
            let words = head.split('`').nth(1).unwrap_or_default().split_whitespace();
            example.runs.push(Run { words: words.map(str::to_owned).collect(), prints: Vec::new() });
            printing = true;
        } else if let Some(line) = text.strip_prefix("    ").filter(|_| printing) {
            example.runs.last_mut().into_iter().for_each(|run| run.prints.push(line.to_owned()));
        } else {
            printing = false;
            example.needs_server |= text == "Needs: redis-server";
        }
    }
    if example.runs.is_empty() {
        example.runs.push(Run::default());
    }
    example
}

/// Whether `said` is as `wanted`.
pub(crate) fn is_like(said: &str, wanted: &str) -> bool {
    let mut parts = wanted.split('…');
    let Some(mut rest) = said.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let source = "//! What it is.\n//!\n//!     cargo run\n//!\n//! Prints:\n//!     one …\n//!     two\n//!\n\
                      //! Prints with `--a b`:\n//!     three\n//!\n//! Needs: redis-server\n\n//! Prints:\n";
        let run = |words: &[&str], prints: &[&str]| Run {
            words: words.iter().map(ToString::to_string).collect(),
            prints: prints.iter().map(ToString::to_string).collect(),
        };
        let runs = vec![run(&[], &["one …", "two"]), run(&["--a", "b"], &["three"])];
        assert_eq!(parse("x", source), Example { name: "x".into(), needs_server: true, runs });
    }

    #[test]
    fn one_that_promises_nothing_is_run_and_fails() {
        let example = parse("x", "//! Only words.\n\nfn main() {}");
        let steps = steps(&example, Path::new("bin"));
        assert_eq!((steps.len(), &steps[0].prints[..]), (1, &[NOTHING.to_owned()][..]));
    }

    #[test]
    fn lines_are_compared() {
        for (said, wanted) in
            [("a", "a"), ("fence 7", "fence …"), ("fence 7 and 8", "fence … and …"), ("x: y", "…y"), ("", "")]
        {
            assert!(is_like(said, wanted), "{said:?} {wanted:?}");
        }
        for (said, wanted) in
            [("ab", "a"), ("a", "ab"), ("fence 7", "fence … and …"), ("x: y", "…x"), ("b a", "…a…b")]
        {
            assert!(!is_like(said, wanted), "{said:?} {wanted:?}");
        }
    }

    #[test]
    fn all_examples_say_what_they_print() {
        let files = files(&root());
        assert!(files.len() > 10);
        for example in files.iter().filter_map(|file| read(file)) {
            assert!(example.runs.iter().all(|run| !run.prints.is_empty()), "{}: {NOTHING}", example.name);
        }
        let manifest = std::fs::read_to_string(root().join("crates/tenure/Cargo.toml")).unwrap();
        for file in files {
            let path = format!("path = \"../../examples/{}\"", file.file_name().unwrap().to_str().unwrap());
            assert!(manifest.contains(&path), "{path} is not in the manifest");
        }
    }
}
