//! Wrong use is a compile error at the right place, with a sentence that helps.

#[test]
fn wrong_use() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
