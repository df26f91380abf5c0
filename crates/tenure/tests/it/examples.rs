//! The examples, which the tests run as one program.

use std::path::{Path, PathBuf};

/// That program. `cargo test` builds it when it is asked for all tests, but not when for some.
pub(crate) fn program() -> PathBuf {
    let me = std::env::current_exe().expect("a path");
    let program = me.ancestors().nth(2).expect("the folder of the build").join("examples/all");
    assert!(program.exists(), "build it first: cargo build -p tenure --example all");
    program
}

#[test]
fn all_are_in_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(files.len() > 10);
    for file in files {
        let path = format!("\"../../../examples/{}\"", file.to_str().unwrap());
        assert!(include_str!("../../examples/all.rs").contains(&path), "{path} is not in all.rs");
    }
}
