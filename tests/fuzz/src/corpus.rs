//! The kept inputs: files in `corpus/TARGET`, read in the order of their names.

use std::path::{Path, PathBuf};

/// The folder of a target's inputs.
pub(crate) fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// All kept inputs of a target, by file name.
///
/// # Panics
/// If there are none, or one cannot be read.
pub(crate) fn load(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = folder(target);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let path = file.expect("a readable folder").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        })
        .collect();
    assert!(!inputs.is_empty(), "{} has no inputs", folder.display());
    inputs.sort();
    inputs
}
