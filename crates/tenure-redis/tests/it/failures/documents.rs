//! Checks that the documents name all tests of this folder, and no test that does not exist.

use std::path::Path;

use testbed::DocumentedTests;

fn tests() -> DocumentedTests {
    DocumentedTests::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/failures"))
}

#[test]
fn every_test_is_named_in_the_documents() {
    tests().assert_all_named(50);
}

#[test]
fn every_pointer_leads_somewhere() {
    tests().assert_named_exist(&[
        "replies::",
        "handover::a_release_passes",
        "fair::",
        "holding::",
        "latch::",
        "permits::",
        "multi::",
        "rwlock::",
        "scenario::",
    ]);
}
