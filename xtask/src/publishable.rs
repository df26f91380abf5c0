//! Whether the crates could be published, as far as this can be said without building: complete manifests, the files in
//! the packages, and documented features.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::metadata::{self, Package};
use crate::{cargo, root};

/// Written by cargo into each package.
const GENERATED: [&str; 4] = [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml", "Cargo.toml.orig"];

/// Starts servers for tests and examples, and is not published: what uses it is of no use in a package.
const UNPUBLISHED: &str = "testbed::";

/// Where the features of `tenure` are explained.
const EXPLAINED: [&str; 3] = ["README.md", "README.zh-CN.md", "crates/tenure/src/lib.rs"];

/// A domain that nobody can own.
const PLACEHOLDER: &str = ".example";

/// # Errors
/// What is missing.
pub(crate) fn check() -> Result<(), String> {
    let members = metadata::members()?;
    let published: Vec<&Package> = members.iter().filter(|package| package.is_published()).collect();
    let mut faults = Vec::new();
    for package in &published {
        let named = |what: String| format!("{}: {what}", package.name());
        faults.extend(in_manifest(package).into_iter().map(named));
        faults.extend(in_dependencies(package, &published).into_iter().map(named));
    }
    // Each call of cargo mostly waits for git.
    let lists: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = published.iter().map(|package| scope.spawn(|| in_files(package))).collect();
        running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("panicked".into()))).collect()
    });
    for (package, list) in published.iter().zip(lists) {
        faults.extend(list?.into_iter().map(|what| format!("{}: {what}", package.name())));
    }
    for package in published.iter().filter(|package| package.name() == "tenure") {
        for file in EXPLAINED {
            let text = std::fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))?;
            let missing = unexplained(&text, &package.features());
            faults
                .extend(missing.into_iter().map(|name| format!("{file}: no table has the feature `{name}`")));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The fields that still have a placeholder.
pub(crate) fn placeholders() -> Result<Vec<String>, String> {
    let published = metadata::published()?;
    let fields = published.iter().flat_map(|package| {
        ["homepage", "repository"].map(|field| format!("{field} = {:?}", package.text(field)))
    });
    let found: BTreeSet<String> = fields.filter(|field| field.contains(PLACEHOLDER)).collect();
    Ok(found.into_iter().collect())
}

fn in_manifest(package: &Package) -> Vec<String> {
    let mut faults = Vec::new();
    for field in
        ["description", "license", "repository", "homepage", "documentation", "readme", "rust_version"]
    {
        if package.text(field).is_empty() {
            faults.push(format!("its manifest has no `{field}`"));
        }
    }
    if package.text("documentation") != format!("https://docs.rs/{}", package.name()) {
        faults.push("`documentation` is not its page on docs.rs".into());
    }
    for (field, most) in [("authors", usize::MAX), ("keywords", 5), ("categories", 5)] {
        if !(1..=most).contains(&package.count(field)) {
            faults.push(format!("`{field}` has {} entries", package.count(field)));
        }
    }
    if package.is_library() && !package.has_docs_settings() {
        faults
            .push("docs.rs would not document all features with badges: see the manifest of `tenure`".into());
    }
    faults
}

/// A published crate cannot depend on a folder: it needs a version. A dependency of the tests on an unpublished crate
/// must have none, since cargo leaves those out.
fn in_dependencies(package: &Package, published: &[&Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, version, for_tests) in package.path_dependencies() {
        let is_published = published.iter().any(|one| one.name() == name);
        match version {
            "*" if !for_tests => faults.push(format!("its dependency on {name} has no version")),
            "*" => {}
            _ if !is_published => faults.push(format!("{name} is not published, but has a version")),
            _ => {}
        }
    }
    faults
}

/// Compares what cargo would package with the files of the folder.
fn in_files(package: &Package) -> Result<Vec<String>, String> {
    let mut list = cargo(&["package", "--quiet", "--list", "--allow-dirty", "--package", package.name()]);
    let list = lines(&mut list)?;
    let folder = package.folder();
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(&folder);
    let ours = lines(&mut git)?.into_iter().flat_map(|file| files(&folder, &file));
    let mut expected: BTreeSet<String> = ours.filter(|file| is_packaged(&folder, file)).collect();
    expected.extend(
        [GENERATED.as_slice(), &["LICENSE-APACHE", "LICENSE-MIT", "README.md"]]
            .concat()
            .iter()
            .map(|s| s.to_string()),
    );
    let absent = expected.difference(&list).map(|file| format!("{file} is not in the package"));
    let extra = list.difference(&expected).map(|file| format!("{file} does not belong into the package"));
    Ok(absent.chain(extra).collect())
}

fn is_packaged(folder: &Path, file: &str) -> bool {
    let uses_servers =
        || std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text.contains(UNPUBLISHED));
    !file.starts_with("tests/") && (file.starts_with("src/") || !uses_servers())
}

/// A tracked file, or the files of a tracked link to a folder. Nothing if it has been deleted.
fn files(folder: &Path, file: &str) -> Vec<String> {
    let path = folder.join(file);
    let Ok(entries) = path.read_dir() else {
        return path.exists().then(|| file.to_owned()).into_iter().collect();
    };
    entries.flatten().map(|entry| format!("{file}/{}", entry.file_name().display())).collect()
}

fn lines(command: &mut Command) -> Result<BTreeSet<String>, String> {
    let name = command.get_program().display().to_string();
    let said = command.output().map_err(|e| format!("{name}: {e}"))?;
    if !said.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&said.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect())
}

/// The features that no row of a table begins with.
fn unexplained<'a>(text: &str, features: &[&'a str]) -> Vec<&'a str> {
    let rows = || text.lines().map(|line| line.trim_start_matches("//!").trim_start());
    let has = |name: &str| rows().any(|row| row.starts_with(&format!("| `{name}`")));
    features.iter().copied().filter(|name| !has(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn complete() -> serde_json::Value {
        json!({
            "name": "tenure-x", "description": "d", "license": "MIT", "repository": "r", "homepage": "h",
            "documentation": "https://docs.rs/tenure-x", "readme": "README.md", "rust_version": "1.89",
            "authors": ["a"], "keywords": ["k"], "categories": ["c"], "targets": [{"kind": ["lib"]}],
            "metadata": {"docs": {"rs": {"all-features": true, "rustdoc-args": ["--cfg", "docsrs"]}}},
        })
    }

    #[test]
    fn each_missing_field_is_named() {
        assert_eq!(in_manifest(&Package::of(complete())), [""; 0]);
        for field in
            complete().as_object().unwrap().keys().filter(|key| !["name", "targets"].contains(&key.as_str()))
        {
            let mut without = complete();
            without.as_object_mut().unwrap().remove(field);
            let faults = in_manifest(&Package::of(without)).join(" ");
            assert!(
                faults.contains(field.as_str()) || (field == "metadata" && faults.contains("docs.rs")),
                "{field}: {faults}"
            );
        }
    }

    #[test]
    fn dependencies_have_a_version_if_they_are_published() {
        let of = |name: &str, req: &str, kind: serde_json::Value| {
            let published = Package::of(json!({"name": "tenure-core"}));
            let package = Package::of(json!({"dependencies": [
                {"name": name, "req": req, "kind": kind, "path": "/p"},
                {"name": "tokio", "req": "^1", "kind": null},
            ]}));
            in_dependencies(&package, &[&published]).len()
        };
        assert_eq!(of("tenure-core", "^0.1.0", json!(null)), 0);
        assert_eq!(of("tenure-core", "*", json!(null)), 1);
        assert_eq!(of("tenure-core", "*", json!("dev")), 0);
        assert_eq!(of("testbed", "*", json!("dev")), 0);
        assert_eq!(of("testbed", "^0.1.0", json!("dev")), 1);
    }

    #[test]
    fn a_feature_without_a_row_is_found() {
        let text = "//! | `redis` | a |\n| `macros` (default) | b |\nand `sqlite`";
        assert_eq!(unexplained(text, &["macros", "redis", "sqlite"]), ["sqlite"]);
    }
}
