//! What comes with the published crates: the licences of their dependencies, and the Rust that these need.

use crate::metadata::{self, Package};

/// Licences as the manifests spell them. All of them permit use in a program under any terms. A new one is read by a
/// person before it is added.
const ALLOWED: &[&str] = &[
    "(MIT OR Apache-2.0) AND Unicode-3.0",
    "Apache-2.0 AND ISC",
    "Apache-2.0 OR ISC OR MIT",
    "Apache-2.0 OR MIT",
    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT OR Apache-2.0",
    "MIT/Apache-2.0",
    "Unlicense OR MIT",
    "Zlib",
];

/// # Errors
/// The dependencies with another licence, and those that need a newer Rust than the workspace.
pub(crate) fn check() -> Result<(), String> {
    let ours = metadata::published()?.first().map(|package| package.text("rust_version").to_owned());
    let ours = ours.ok_or("no crate is published")?;
    let shipped = metadata::shipped()?;
    let faults: Vec<String> = shipped.iter().flat_map(|package| faults(package, &ours)).collect();
    println!("{} dependencies", shipped.len());
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn faults(package: &Package, ours: &str) -> Vec<String> {
    let (name, licence, rust) = (package.name(), package.text("license"), package.text("rust_version"));
    let mut faults = Vec::new();
    if !ALLOWED.contains(&licence) {
        faults.push(format!("{name}: the licence {licence:?} is not in the list of xtask/src/licences.rs"));
    }
    if version(rust) > version(ours) {
        faults.push(format!("{name} needs Rust {rust}, and the workspace promises {ours}"));
    }
    faults
}

fn version(text: &str) -> [u32; 3] {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or_default());
    [(); 3].map(|()| numbers.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_unknown_licence_and_a_newer_rust_are_named() {
        let of = |licence: serde_json::Value, rust: &str| {
            let package = json!({"name": "x", "license": licence, "rust_version": rust});
            faults(&Package::of(package), "1.89").len()
        };
        assert_eq!(of(json!("MIT"), "1.9"), 0);
        assert_eq!(of(json!("MIT"), "1.89.0"), 0);
        assert_eq!(of(json!("GPL-3.0-only"), ""), 1);
        assert_eq!(of(json!(null), "1.89.1"), 2);
    }
}
