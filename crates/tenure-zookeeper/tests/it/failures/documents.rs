//! The documents and these tests point to each other.

use std::collections::BTreeSet;
use std::path::Path;

/// The tests here, as `file::test`.
fn tests() -> BTreeSet<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/failures");
    let mut all = BTreeSet::new();
    for file in std::fs::read_dir(here).unwrap() {
        let path = file.unwrap().path();
        if path.ends_with("documents.rs") {
            continue;
        }
        let (name, text) =
            (path.file_stem().unwrap().to_str().unwrap(), std::fs::read_to_string(&path).unwrap());
        let after = text.split("#[tokio::test").skip(1).filter_map(|t| t.split_once("async fn "));
        all.extend(after.map(|(_, t)| format!("{name}::{}", t.split('(').next().unwrap())));
    }
    all
}

/// All that stands between backquotes and looks like `file::test`.
fn pointers() -> BTreeSet<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let texts = ["failure-modes.md", "scenarios.md"].map(|f| std::fs::read_to_string(docs.join(f)).unwrap());
    let quoted = texts.iter().flat_map(|text| text.split('`').skip(1).step_by(2));
    quoted.filter(|q| q.contains("::")).map(str::to_owned).collect()
}

#[test]
fn every_test_is_named_in_the_documents() {
    let (tests, pointers) = (tests(), pointers());
    assert!(tests.len() > 30);
    let missing: Vec<_> = tests.difference(&pointers).collect();
    assert!(missing.is_empty(), "not in docs/failure-modes.md or docs/scenarios.md: {missing:#?}");
}

#[test]
fn every_pointer_leads_somewhere() {
    let (tests, pointers) = (tests(), pointers());
    let ours = |p: &&String| {
        let file = p.split("::").next().unwrap();
        tests.iter().any(|t| t.starts_with(&format!("{file}::")))
    };
    let lost: Vec<_> = pointers.iter().filter(ours).filter(|p| !tests.contains(*p)).collect();
    assert!(lost.is_empty(), "no such test: {lost:#?}");
}
