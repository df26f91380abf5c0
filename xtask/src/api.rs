//! The public surface of the published crates: one file per crate in `docs/api`, in the form of `cargo public-api`.
//!
//! rustdoc writes the surface as JSON, and the crate `public-api` renders it. The format of that JSON is unstable and
//! changes between releases of Rust, so a toolchain that writes another version is skipped with a note.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::process::Command;

use crate::check::{documentation, ran, target};
use crate::root;

/// The version of rustdoc's JSON that `public-api` reads, and a release of Rust that writes it.
const FORMAT: u32 = 57;
const RUST: &str = "1.95";

const JSON: &str = "-Z unstable-options --output-format json";

const CRATES: [&str; 7] = [
    "tenure",
    "tenure-core",
    "tenure-macros",
    "tenure-redis",
    "tenure-redlock",
    "tenure-sqlite",
    "tenure-zookeeper",
];

/// The surface of a crate, one item per line; or the version of rustdoc's JSON, if it is another one than [`FORMAT`].
type Surface = Result<String, u32>;

/// Fails if the documentation has faults, or if a surface differs from its file.
pub(crate) fn check() -> Result<(), String> {
    let mut faults = Vec::new();
    for (name, surface) in surfaces()? {
        let now = match surface {
            Ok(now) => now,
            Err(format) => {
                println!("The public surface is not checked: {}.", needs(format));
                return Ok(());
            }
        };
        let recorded = std::fs::read_to_string(file(name)).unwrap_or_default();
        if recorded != now {
            let changes = changes(&recorded, &now).join("\n");
            faults.push(format!("docs/api/{name}.txt does not match the crate:\n{changes}"));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    let advice = "If this is intended, run `cargo xtask api` and commit the files that it writes.";
    Err(format!("{}\n{advice}", faults.join("\n")))
}

/// Writes all files.
pub(crate) fn write() -> Result<(), String> {
    for (name, surface) in surfaces()? {
        let (file, items) = (file(name), surface.map_err(needs)?);
        let folder = root().join("docs/api");
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, items));
        written.map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

fn needs(format: u32) -> String {
    format!(
        "it needs rustdoc's JSON in format {FORMAT} (Rust {RUST}), and this toolchain writes format {format}"
    )
}

fn file(name: &str) -> PathBuf {
    root().join("docs/api").join(name).with_extension("txt")
}

/// Documents the workspace as JSON. rustdoc checks links and examples as it does for pages, so one run serves both the
/// documentation and the surface.
fn surfaces() -> Result<Vec<(&'static str, Surface)>, String> {
    let mut command = documentation();
    command.env("RUSTDOC", unstable_rustdoc()?).env("RUSTDOCFLAGS", format!("-D warnings {JSON}"));
    ran(command)?;
    let json = |name: &str| target().join("doc").join(name.replace('-', "_")).with_extension("json");
    CRATES.into_iter().map(|name| Ok((name, surface(&json(name))?))).collect()
}

/// A rustdoc that accepts unstable options.
pub(crate) fn unstable_rustdoc() -> Result<PathBuf, String> {
    let rustdoc = target().join("api/rustdoc");
    write_wrapper(&rustdoc).map_err(|e| format!("{}: {e}", rustdoc.display()))?;
    Ok(rustdoc)
}

/// Writes a rustdoc that accepts unstable options. Setting the variable for all of cargo would make build scripts run
/// again, which look at it, and their dependents compile again.
fn write_wrapper(to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to.parent().unwrap_or(to))?;
    std::fs::write(to, format!("#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec '{}' \"$@\"\n", rustdoc().display()))?;
    std::fs::set_permissions(to, PermissionsExt::from_mode(0o755))
}

fn rustdoc() -> PathBuf {
    std::env::var_os("RUSTDOC").unwrap_or_else(|| OsString::from("rustdoc")).into()
}

/// # Errors
/// When the file is missing or unreadable.
fn surface(json: &Path) -> Result<Surface, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", json.display());
    let text = std::fs::read_to_string(json).map_err(|e| failed(&e))?;
    match format_of(&text) {
        Some(format) if format == FORMAT => {}
        Some(other) => return Ok(Err(other)),
        None => return Err(failed(&"it names no format_version")),
    }
    let api =
        public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).omit_auto_trait_impls(true);
    Ok(Ok(api.build().map_err(|e| failed(&e))?.to_string()))
}

/// The version of the format. Inside of a text its name would be escaped.
fn format_of(json: &str) -> Option<u32> {
    let (_, rest) = json.rsplit_once("\"format_version\":")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The lines that only one of both has, marked as in a diff.
fn changes(recorded: &str, now: &str) -> Vec<String> {
    let [recorded, now] = [recorded, now].map(|text| text.lines().collect::<BTreeSet<_>>());
    let gone = recorded.difference(&now).map(|line| format!("- {line}"));
    gone.chain(now.difference(&recorded).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// The surface of a crate with this source, by the rustdoc of this toolchain.
    fn surface_of(source: &str) -> Surface {
        let scratch = Scratch::new("surface").expect("a folder");
        let folder = scratch.path();
        let lib = folder.join("lib.rs");
        std::fs::write(&lib, source).expect("a file");
        let mut command = Command::new(rustdoc());
        command.env("RUSTC_BOOTSTRAP", "1").args(JSON.split(' ')).args(["--crate-name", "planted"]);
        let status = command.arg("--out-dir").arg(folder).arg(&lib).status().expect("rustdoc starts");
        assert!(status.success());
        surface(&folder.join("planted.json")).expect("a surface")
    }

    #[test]
    fn a_planted_breach_is_reported() {
        const SOURCE: &str = "
            pub struct Lock { pub name: String, secret: u8 }
            impl Lock { pub fn id(&self) -> u8 { self.secret } }
            fn hidden() {}
        ";
        let added = format!("{SOURCE} pub fn added(lock: &Lock) -> u8 {{ lock.id() }}");
        let hidden = format!("{SOURCE} fn also_hidden() {{}}");
        let changed = SOURCE.replace("-> u8", "-> impl Into<u8>");
        let all = [SOURCE, &added, &hidden, &changed].map(surface_of);
        // Another toolchain.
        let [Ok(recorded), Ok(added), Ok(hidden), Ok(changed)] = all else { return };
        assert!(recorded.contains("pub planted::Lock::name: alloc::string::String"), "{recorded}");
        assert!(!recorded.contains("secret") && !recorded.contains("hidden"), "{recorded}");
        assert_eq!(changes(&recorded, &added), ["+ pub fn planted::added(&planted::Lock) -> u8"]);
        assert_eq!(hidden, recorded);
        let changed = changes(&recorded, &changed);
        assert_eq!(changed[0], "- pub fn planted::Lock::id(&self) -> u8");
        assert_eq!(changed.len(), 2, "{changed:?}");
    }

    #[test]
    fn another_format_is_not_read() {
        let scratch = Scratch::new("format").expect("a folder");
        let json = scratch.path().join("api.json");
        std::fs::write(&json, r#"{"docs":"a \"format_version\":57","format_version":3}"#).expect("a file");
        assert_eq!(surface(&json), Ok(Err(3)));
        std::fs::write(&json, "{}").expect("a file");
        assert!(surface(&json).is_err());
        assert!(needs(3).contains("writes format 3"), "{}", needs(3));
    }
}
