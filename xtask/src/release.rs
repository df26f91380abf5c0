//! `cargo xtask release`: all that must hold before the crates are published. Uploads nothing.

use std::process::ExitCode;

use crate::check::{self, Check, ran};
use crate::metadata::{self, Package};
use crate::{api, cargo, licences, publishable};

const CHECKS: &[(&str, Check)] = &[
    ("manifests and files", publishable::check),
    ("licences and Rust versions of dependencies", licences::check),
    ("each feature alone", features),
    ("minimum Rust version", minimum_rust),
    ("documentation as on docs.rs", documentation),
    ("packages", packages),
];

pub(crate) fn release() -> ExitCode {
    let code = check::all(CHECKS);
    if let Ok(fields) = publishable::placeholders()
        && !fields.is_empty()
    {
        println!("Before an upload, replace in Cargo.toml: {}", fields.join(", "));
    }
    code
}

/// Every feature alone, none and all, without a warning.
fn features() -> Result<(), String> {
    let mut faults = Vec::new();
    for package in metadata::published()? {
        for set in sets(&package.features()) {
            println!("{} with {}", package.name(), if set.is_empty() { "no feature" } else { &set });
            let target = if package.is_library() { "--lib" } else { "--bins" };
            let mut clippy = cargo(&["clippy", "--quiet", "--no-default-features", target]);
            clippy.args(["--package", package.name(), "--features", &set, "--", "-D", "warnings"]);
            if let Err(why) = ran(clippy) {
                faults.push(format!("{} with {set:?}: {why}", package.name()));
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The sets of features to build a crate with.
fn sets(features: &[&str]) -> Vec<String> {
    let mut sets = vec![String::new()];
    sets.extend(features.iter().map(ToString::to_string));
    if features.len() > 1 {
        sets.push(features.join(","));
    }
    sets
}

/// Whether the sources use what is newer than `rust-version`.
fn minimum_rust() -> Result<(), String> {
    let mut clippy = of_published("clippy")?;
    clippy.args(["--all-features", "--lib", "--bins", "--", "-D", "clippy::incompatible_msrv"]);
    ran(clippy)
}

fn documentation() -> Result<(), String> {
    let mut doc = of_published("doc")?;
    doc.args(["--all-features", "--no-deps", "--lib"]);
    doc.env("RUSTDOC", api::unstable_rustdoc()?).env("RUSTDOCFLAGS", "--cfg docsrs -D warnings");
    ran(doc)
}

/// In the order of their dependencies, each is packaged, and built from its package alone.
fn packages() -> Result<(), String> {
    ran(cargo(&["publish", "--workspace", "--dry-run"]))
}

fn of_published(command: &str) -> Result<std::process::Command, String> {
    let mut cargo = cargo(&[command]);
    let published = metadata::published()?;
    cargo.args(published.iter().map(Package::name).flat_map(|name| ["--package", name]));
    Ok(cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_built_alone_and_together() {
        assert_eq!(sets(&[]), [""]);
        assert_eq!(sets(&["a"]), ["", "a"]);
        assert_eq!(sets(&["a", "b"]), ["", "a", "b", "a,b"]);
    }
}
