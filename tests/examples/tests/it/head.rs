//! What an example says of itself at its head.
//!
//! `//! Prints:` begins the lines of a run on the memory store; ``//! Prints with `--words`:`` those of one more run.
//! `//! Needs: redis-server` is for one that starts a server of its own, and gets no store. `…` in a line stands for
//! anything.

use std::path::Path;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Example {
    pub(crate) name: String,
    pub(crate) needs_server: bool,
    pub(crate) runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) words: Vec<String>,
    pub(crate) prints: Vec<String>,
}

pub(crate) fn read(file: &Path) -> Example {
    let name = file.file_stem().unwrap().to_str().unwrap();
    parse(name, &std::fs::read_to_string(file).unwrap())
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

pub(crate) fn heads_are_read() {
    let source = "//! What it is.\n//!\n//!     cargo run\n//!\n//! Prints:\n//!     one …\n//!     two\n//!\n\
                  //! Prints with `--a b`:\n//!     three\n//!\n//! Needs: redis-server\n\n//! Prints:\n";
    let run = |words: &[&str], prints: &[&str]| Run {
        words: words.iter().map(ToString::to_string).collect(),
        prints: prints.iter().map(ToString::to_string).collect(),
    };
    let runs = vec![run(&[], &["one …", "two"]), run(&["--a", "b"], &["three"])];
    assert_eq!(parse("x", source), Example { name: "x".into(), needs_server: true, runs });
    // One that promises nothing is run and fails.
    assert_eq!(parse("x", "//! Only words.\n\nfn main() {}").runs, [Run::default()]);
}

pub(crate) fn lines_are_compared() {
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
