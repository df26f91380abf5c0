//! Checks that `docs/failure-modes.md` and `docs/scenarios.md` name the tests of a folder, and no others.

use std::collections::BTreeSet;
use std::path::Path;

/// The tests of a folder, and the tests that the documents name, each as `file::test`.
#[derive(Debug)]
pub struct DocumentedTests {
    tests: BTreeSet<String>,
    named: BTreeSet<String>,
}

impl DocumentedTests {
    /// Reads the asynchronous tests of all files in `folder`, and the documents of this repository.
    ///
    /// # Panics
    /// When one of them cannot be read.
    pub fn read(folder: &Path) -> Self {
        let mut tests = BTreeSet::new();
        for file in std::fs::read_dir(folder).expect("the folder of the tests") {
            let path = file.expect("an entry of the folder").path();
            let text = std::fs::read_to_string(&path).expect("the source of tests");
            let file = path.file_stem().expect("the name of a file").to_string_lossy();
            let functions = text.split("#[tokio::test").skip(1).filter_map(|t| t.split_once("async fn "));
            tests.extend(functions.filter_map(|(_, t)| Some(format!("{file}::{}", t.split_once('(')?.0))));
        }
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let texts = ["failure-modes.md", "scenarios.md"]
            .map(|name| std::fs::read_to_string(docs.join(name)).expect("a document"));
        let quoted = texts.iter().flat_map(|text| text.split('`').skip(1).step_by(2));
        let named = quoted.filter(|quoted| quoted.contains("::")).map(str::to_owned).collect();
        Self { tests, named }
    }

    /// Asserts that there are more than `least` tests, and that each is named in a document.
    ///
    /// # Panics
    /// When that is not so.
    pub fn assert_all_named(&self, least: usize) {
        assert!(self.tests.len() > least, "only {} tests", self.tests.len());
        let missing: Vec<_> = self.tests.difference(&self.named).collect();
        assert!(missing.is_empty(), "not in docs/failure-modes.md or docs/scenarios.md: {missing:#?}");
    }

    /// Asserts that each test exists that the documents name in a file of this folder. Other suites may have files of
    /// the same name: what begins with one of `others` is theirs.
    ///
    /// # Panics
    /// When one does not exist.
    pub fn assert_named_exist(&self, others: &[&str]) {
        let files: BTreeSet<_> = self.tests.iter().filter_map(|test| test.split("::").next()).collect();
        let is_here = |name: &&String| {
            name.split("::").next().is_some_and(|file| files.contains(file))
                && !others.iter().any(|other| name.starts_with(other))
        };
        let unknown: Vec<_> = self.named.difference(&self.tests).filter(is_here).collect();
        assert!(unknown.is_empty(), "no such test: {unknown:#?}");
    }
}
