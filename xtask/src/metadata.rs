//! The manifests of the workspace and of its dependencies, from `cargo metadata`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo;

/// A package, with the fields of its manifest.
pub(crate) struct Package(Value);

/// The packages of the workspace.
pub(crate) fn members() -> Result<Vec<Package>, String> {
    taken(&mut metadata(&["--no-deps"])?)
}

/// The packages of the workspace that can be published.
pub(crate) fn published() -> Result<Vec<Package>, String> {
    Ok(members()?.into_iter().filter(Package::is_published).collect())
}

/// The packages from elsewhere that a user compiles: all dependencies of the published crates with all features on this
/// platform, without those of their tests.
pub(crate) fn shipped() -> Result<Vec<Package>, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = std::process::Command::new(rustc).arg("-vV").output().map_err(|e| format!("rustc: {e}"))?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let mut metadata = metadata(&["--all-features", "--filter-platform", host])?;
    let packages = taken(&mut metadata)?;
    let used = used(&metadata["resolve"]["nodes"], packages);
    Ok(used.into_iter().filter(|package| !package.0["source"].is_null()).collect())
}

/// The published packages, and all that they depend on.
fn used(graph: &Value, packages: Vec<Package>) -> Vec<Package> {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let nodes = list(graph);
    let roots = packages.iter().filter(|package| package.0["source"].is_null() && package.is_published());
    let mut todo: Vec<String> = roots.map(|package| package.text("id").to_owned()).collect();
    let mut used = BTreeSet::new();
    while let Some(id) = todo.pop() {
        let Some(node) = nodes.iter().find(|node| node["id"] == *id) else { continue };
        if used.insert(id) {
            let not_for_tests =
                |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|k| k["kind"] != "dev");
            let dependencies = list(&node["deps"]).into_iter().filter(not_for_tests);
            todo.extend(dependencies.filter_map(|one| Some(one["pkg"].as_str()?.to_owned())));
        }
    }
    packages.into_iter().filter(|package| used.contains(package.text("id"))).collect()
}

fn metadata(words: &[&str]) -> Result<Value, String> {
    let mut command = cargo(&["metadata", "--quiet", "--format-version=1"]);
    let said = command.args(words).output().map_err(|e| format!("cargo metadata: {e}"))?;
    if !said.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&said.stderr).trim()));
    }
    serde_json::from_slice(&said.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

fn taken(metadata: &mut Value) -> Result<Vec<Package>, String> {
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages.into_iter().map(Package).collect()),
        _ => Err("cargo metadata: no packages".into()),
    }
}

impl Package {
    /// A text field; empty if it is missing.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.text("name")
    }

    /// The number of values in a list.
    pub(crate) fn count(&self, field: &str) -> usize {
        self.0[field].as_array().map_or(0, Vec::len)
    }

    /// `publish = false` is an empty list of registries.
    pub(crate) fn is_published(&self) -> bool {
        self.0["publish"].is_null()
    }

    pub(crate) fn is_library(&self) -> bool {
        let kinds = self.0["targets"].as_array().into_iter().flatten().map(|target| &target["kind"][0]);
        kinds.into_iter().any(|kind| kind == "lib" || kind == "proc-macro")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        Path::new(self.text("manifest_path")).parent().map(Path::to_owned).unwrap_or_default()
    }

    /// Without `default`.
    pub(crate) fn features(&self) -> Vec<&str> {
        let features = self.0["features"].as_object().into_iter().flat_map(|all| all.keys());
        features.map(String::as_str).filter(|name| *name != "default").collect()
    }

    /// Whether docs.rs documents all features, with a badge at each.
    pub(crate) fn has_docs_settings(&self) -> bool {
        let settings = &self.0["metadata"]["docs"]["rs"];
        settings["all-features"] == true && settings["rustdoc-args"] == serde_json::json!(["--cfg", "docsrs"])
    }

    /// Dependencies that are a folder here: name, required version, whether only for tests.
    pub(crate) fn path_dependencies(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        let all = self.0["dependencies"].as_array().into_iter().flatten();
        all.filter(|one| one["path"].is_string()).map(|one| {
            let text = |field: &str| one[field].as_str().unwrap_or_default();
            (text("name"), text("req"), text("kind") == "dev")
        })
    }

    #[cfg(test)]
    pub(crate) fn of(json: Value) -> Self {
        Self(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_that_only_tests_use_are_not_shipped() {
        let packages = json!([
            {"id": "ours", "source": null, "publish": null},
            {"id": "tool", "source": null, "publish": []},
            {"id": "a", "source": "registry"}, {"id": "b", "source": "registry"},
            {"id": "for-tests", "source": "registry"}, {"id": "for-tools", "source": "registry"},
        ]);
        let on = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let graph = json!([
            {"id": "ours", "deps": [on("a", json!(null)), on("for-tests", json!("dev"))]},
            {"id": "a", "deps": [on("b", json!("build")), on("ours", json!("dev"))]},
            {"id": "tool", "deps": [on("for-tools", json!(null))]},
            {"id": "b", "deps": []}, {"id": "for-tests", "deps": []}, {"id": "for-tools", "deps": []},
        ]);
        let used = used(&graph, taken(&mut json!({"packages": packages})).unwrap());
        assert_eq!(used.iter().map(|package| package.text("id")).collect::<Vec<_>>(), ["ours", "a", "b"]);
    }
}
