//! The mutants: known bugs in the files `xtask/mutants/*.txt`, each an edit of one file and the test that must fail
//! with it.
//!
//! ```text
//! mutant lost-wake-up
//! bug    a release does not wake the next waiter
//! file   crates/tenure-core/src/mailbox.rs
//! catch  conformance memory::lock::release_lets_the_next_in
//! -            waker.wake();
//! +            drop(waker);
//! ```
//!
//! The edit is the body of a hunk as `git diff` prints it: removed, added and context lines. The removed text must
//! occur in the file exactly once. It need not begin at the start of a line.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::args::STORES;

/// One known bug.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mutant {
    /// The file that lists it, without its ending.
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) bug: String,
    /// Path from the root of the workspace.
    pub(crate) file: String,
    pub(crate) catch: Catch,
    /// Lines of the edit.
    pub(super) old: Vec<String>,
    pub(super) new: Vec<String>,
}

/// The tests that must catch it: a test binary, and the tests in it whose names contain `filter`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Catch {
    pub(crate) part: Part,
    pub(crate) filter: String,
}

/// A test binary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The unit tests of a crate.
    Unit(String),
    /// The integration tests of a crate.
    It(String),
    /// The conformance suite on a store.
    Conformance(String),
}

impl Default for Part {
    fn default() -> Self {
        Self::Unit(String::new())
    }
}

impl Catch {
    fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (part, filter) = match words[..] {
            ["unit", krate, filter] => (Part::Unit(krate.into()), filter),
            ["it", krate, filter] => (Part::It(krate.into()), filter),
            ["conformance", filter] => {
                let store = filter.split("::").next().unwrap_or_default().trim_end_matches("+faults");
                if !STORES.contains(&store) {
                    return Err(format!("conformance has no store `{store}`"));
                }
                (Part::Conformance(store.into()), filter)
            }
            _ => {
                return Err(format!(
                    "`{text}` is not `unit CRATE TEST`, `it CRATE TEST` or `conformance TEST`"
                ));
            }
        };
        Ok(Self { part, filter: filter.into() })
    }

    /// The source folder of the test.
    fn folder(&self) -> String {
        match &self.part {
            Part::Unit(krate) => format!("crates/{krate}/src"),
            // Of the crates that are published, or of those for tests alone.
            Part::It(krate) if krate.starts_with("tenure") => format!("crates/{krate}/tests"),
            Part::It(krate) => format!("tests/{krate}/tests"),
            Part::Conformance(_) => "tests/conformance/src".into(),
        }
    }
}

impl std::fmt::Display for Catch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.part {
            Part::Unit(krate) => write!(f, "unit {krate} {}", self.filter),
            Part::It(krate) => write!(f, "it {krate} {}", self.filter),
            Part::Conformance(_) => write!(f, "conformance {}", self.filter),
        }
    }
}

impl Mutant {
    /// Whether its name, file or test contains `text`.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.name.contains(text) || self.file.contains(text) || self.catch.to_string().contains(text)
    }

    /// Returns the text with the bug applied.
    ///
    /// # Errors
    /// When the text to replace does not occur exactly once.
    pub(crate) fn apply(&self, text: &str) -> Result<String, String> {
        let (old, new) = (self.old.join("\n"), self.new.join("\n"));
        match text.matches(&old).count() {
            1 => Ok(text.replacen(&old, &new, 1)),
            0 => Err("the text it changes is not there any more".into()),
            n => Err(format!("the text it changes is there {n} times")),
        }
    }

    fn check(&self) -> Result<(), String> {
        let fields = [("bug", &self.bug), ("file", &self.file), ("catch", &self.catch.filter)];
        if let Some((word, _)) = fields.iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("no `{word}`"));
        }
        if self.old.iter().all(|line| line.trim().is_empty()) {
            return Err("it replaces nothing: no line that begins with `-`".into());
        }
        if self.old == self.new { Err("it changes nothing".into()) } else { Ok(()) }
    }
}

/// Returns the mutants in one file, and the errors in it.
fn parse(text: &str) -> (Vec<Mutant>, Vec<String>) {
    let (mut all, mut wrong): (Vec<Mutant>, Vec<String>) = (Vec::new(), Vec::new());
    for (n, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("mutant ") {
            all.push(Mutant { name: name.trim().into(), ..Mutant::default() });
            continue;
        }
        let Some(mutant) = all.last_mut() else {
            wrong.push(format!("line {}: before the first `mutant`", n + 1));
            continue;
        };
        let mut fault = None;
        match line.split_at_checked(1) {
            Some(("-", rest)) => mutant.old.push(rest.into()),
            Some(("+", rest)) => mutant.new.push(rest.into()),
            Some((" ", rest)) => {
                mutant.old.push(rest.into());
                mutant.new.push(rest.into());
            }
            _ => match line.split_once(' ').map(|(word, value)| (word, value.trim())) {
                Some(("bug", value)) => mutant.bug = value.into(),
                Some(("file", value)) => mutant.file = value.into(),
                Some(("catch", value)) => match Catch::parse(value) {
                    Ok(catch) => mutant.catch = catch,
                    Err(why) => fault = Some(why),
                },
                _ => fault = Some(format!("`{line}` is neither a field nor a part of a diff")),
            },
        }
        wrong.extend(fault.map(|why| format!("line {}: {why}", n + 1)));
    }
    wrong.extend(all.iter().filter_map(|m| m.check().err().map(|why| format!("{}: {why}", m.name))));
    (all, wrong)
}

/// Returns all mutants, and the errors in their files.
pub(crate) fn load(root: &Path) -> (Vec<Mutant>, Vec<String>) {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    let mut files: Vec<PathBuf> = fs::read_dir(root.join("xtask/mutants"))
        .map(|entries| entries.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    files.retain(|file| file.extension().is_some_and(|e| e == "txt"));
    files.sort();
    for file in files {
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        match fs::read_to_string(&file) {
            Ok(text) => {
                let (mut more, faults) = parse(&text);
                let group = file.file_stem().unwrap_or_default().to_string_lossy();
                more.iter_mut().for_each(|mutant| mutant.group = group.to_string());
                all.extend(more);
                wrong.extend(faults.into_iter().map(|why| format!("{shown}: {why}")));
            }
            Err(e) => wrong.push(format!("{shown}: {e}")),
        }
    }
    (all, wrong)
}

/// Lists mutants that no longer match the tree: those that do not apply, or whose test is gone.
pub(crate) fn faults(root: &Path) -> Vec<String> {
    let (all, mut wrong) = load(root);
    if all.is_empty() {
        wrong.push("xtask/mutants: there are no mutants".into());
    }
    let mut names = HashSet::new();
    for mutant in &all {
        let mut fault = |why: String| wrong.push(format!("mutant {}: {why}", mutant.name));
        if !names.insert(&mutant.name) {
            fault("there are two of this name".into());
        }
        match fs::read_to_string(root.join(&mutant.file)) {
            Ok(text) => drop(mutant.apply(&text).map_err(|why| fault(format!("{}: {why}", mutant.file)))),
            Err(e) => fault(format!("{}: {e}", mutant.file)),
        }
        let test = mutant.catch.filter.rsplit("::").next().unwrap_or_default();
        if !mentions(&root.join(mutant.catch.folder()), test) {
            fault(format!("its test is gone: no `{test}` in {}", mutant.catch.folder()));
        }
    }
    wrong
}

/// Whether a file below `folder` contains this text.
fn mentions(folder: &Path, text: &str) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    entries.into_iter().any(|path| match path.is_dir() {
        true => mentions(&path, text),
        false => fs::read_to_string(&path).is_ok_and(|found| found.contains(text)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
# Of the mailbox.

mutant lost-wake-up
bug    a waiter is not woken
file   src/mailbox.rs
catch  conformance memory+faults::lock::a_case
-    waker.wake();
+    drop(waker);

mutant kept
bug    it stays
file   src/a.rs
catch  unit tenure-core a::tests::b
 if gone {
-    drop(it);
 }
";

    #[test]
    fn mutants_are_read() {
        let (all, wrong) = parse(TWO);
        assert_eq!((all.len(), &wrong[..]), (2, &[][..]));
        assert_eq!((&*all[0].name, &*all[0].file), ("lost-wake-up", "src/mailbox.rs"));
        assert_eq!(all[0].catch.part, Part::Conformance("memory".into()));
        assert_eq!(all[0].catch.to_string(), "conformance memory+faults::lock::a_case");
        assert_eq!(all[1].catch.to_string(), "unit tenure-core a::tests::b");
        assert!(
            ["kept", "a.rs", "unit tenure-core"].iter().all(|text| all[1].has(text)) && !all[1].has("wake")
        );
        assert_eq!((all[1].old.len(), &all[1].new[..]), (3, &["if gone {".to_owned(), "}".to_owned()][..]));
    }

    #[test]
    fn an_edit_is_made_in_one_place_or_not_at_all() {
        let (all, _) = parse(TWO);
        let text = "fn f() {\n    waker.wake();\n}\n";
        assert_eq!(all[0].apply(text).unwrap(), "fn f() {\n    drop(waker);\n}\n");
        assert!(all[0].apply("fn f() {}").unwrap_err().contains("not there"));
        assert!(all[0].apply(&text.repeat(2)).unwrap_err().contains("2 times"));
        let inside = "x\n  if gone {\n    drop(it);\n}";
        assert_eq!(all[1].apply(inside).unwrap(), "x\n  if gone {\n}", "from the middle of a line");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, says) in [
            ("bug x", "before the first"),
            ("mutant a\nbug x\nfile f\ncatch unit c t\n+more", "replaces nothing"),
            ("mutant a\nbug x\nfile f\ncatch unit c t\n-same\n+same", "changes nothing"),
            ("mutant a\nfile f\ncatch unit c t\n-x", "no `bug`"),
            ("mutant a\nbug x\nfile f\n-x", "no `catch`"),
            ("mutant a\nbug x\nfile f\ncatch by hand\n-x", "not `unit CRATE TEST`"),
            ("mutant a\nbug x\nfile f\ncatch conformance mysql::a\n-x", "no store `mysql`"),
            ("mutant a\nbug x\nfile f\ncatch unit c t\n-x\n@@ -1 +1 @@", "neither a field"),
        ] {
            let (_, wrong) = parse(text);
            assert!(wrong.iter().any(|why| why.contains(says)), "{text:?}: {wrong:?}");
        }
    }

    #[test]
    fn all_fit_the_tree() {
        assert_eq!(faults(&crate::root()), Vec::<String>::new());
    }
}
