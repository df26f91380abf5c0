//! The manifests of the workspace and of its dependencies, from `cargo metadata`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo;

/// A package, with the fields of its manifest.
pub(crate) struct Package(Value);

/// The packages of the workspace.
pub(crate) fn members() -> Result<Vec<Package>, String> {
    packages(&["--no-deps"])
}

/// The packages of the workspace that can be published.
pub(crate) fn published() -> Result<Vec<Package>, String> {
    Ok(members()?.into_iter().filter(Package::is_published).collect())
}

/// All packages that are built with all features on this platform, for tests too.
pub(crate) fn all() -> Result<Vec<Package>, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = std::process::Command::new(rustc).arg("-vV").output().map_err(|e| format!("rustc: {e}"))?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    packages(&["--all-features", "--filter-platform", host])
}

fn packages(words: &[&str]) -> Result<Vec<Package>, String> {
    let mut command = cargo(&["metadata", "--quiet", "--format-version=1"]);
    let said = command.args(words).output().map_err(|e| format!("cargo metadata: {e}"))?;
    if !said.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&said.stderr).trim()));
    }
    let mut all: Value = serde_json::from_slice(&said.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    match all["packages"].take() {
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

    /// Whether it comes from a registry, and not from this workspace.
    pub(crate) fn is_foreign(&self) -> bool {
        !self.0["source"].is_null()
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
