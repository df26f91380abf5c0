//! The test programs that cargo has built, and how cargo would start them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One test program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binary {
    /// The crate that it belongs to.
    pub(crate) krate: String,
    /// The target in it: `lib`, or the name of a program or of an integration test.
    pub(crate) target: String,
    path: PathBuf,
    folder: PathBuf,
}

impl Binary {
    /// Parses one line of cargo's JSON messages. `None` if it is not about a test program.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let profile = between(line, "\"profile\":{", "}")?;
        if !line.contains("\"reason\":\"compiler-artifact\"") || !profile.contains("\"test\":true") {
            return None;
        }
        let path = PathBuf::from(between(line, "\"executable\":\"", "\"")?);
        let folder = Path::new(between(line, "\"manifest_path\":\"", "\"")?).parent()?.to_owned();
        let target = between(line, "\"target\":{", "}")?;
        let kind = between(target, "\"kind\":[\"", "\"")?;
        let name = between(target, "\"name\":\"", "\"")?;
        let target = if matches!(kind, "lib" | "proc-macro") { "lib" } else { name }.to_owned();
        Some(Self { krate: folder.file_name()?.to_str()?.to_owned(), target, path, folder })
    }

    /// The command that cargo would run.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        // Unit tests of a macro crate are linked against the compiler's own libraries.
        if let Some(libraries) = compilers_libraries() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }
}

/// Paths here contain no quotes or backslashes, so nothing has to be unescaped.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

fn compilers_libraries() -> Option<&'static str> {
    static FOUND: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let find = || {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let said = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?.stdout;
        Some(format!("{}/lib", String::from_utf8(said).ok()?.trim()))
    };
    FOUND.get_or_init(find).as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///p/crates/tenure-core#0.1.0","manifest_path":"/p/crates/tenure-core/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"it","src_path":"/p/crates/tenure-core/tests/it/main.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"0","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["/p/target/debug/deps/it-1"],"executable":"/p/target/debug/deps/it-1","fresh":false}"#;

    #[test]
    fn test_programs_are_found() {
        let found = Binary::of_line(LINE).unwrap();
        assert_eq!((&*found.krate, &*found.target), ("tenure-core", "it"));
        assert_eq!(found.path, Path::new("/p/target/debug/deps/it-1"));
        assert_eq!(found.command().get_current_dir(), Some(Path::new("/p/crates/tenure-core")));
        let lib = LINE.replace(r#""kind":["test"]"#, r#""kind":["lib"]"#);
        assert_eq!(Binary::of_line(&lib).unwrap().target, "lib");
    }

    #[test]
    fn all_else_is_passed_over() {
        let program = LINE.replace(r#""test":true},"features""#, r#""test":false},"features""#);
        let library = LINE.replace(r#""executable":"/p/target/debug/deps/it-1""#, r#""executable":null"#);
        let message = LINE.replace("compiler-artifact", "compiler-message");
        for line in [&*program, &library, &message, "", "{}", "   Compiling tenure v0.1.0"] {
            assert_eq!(Binary::of_line(line), None, "{line}");
        }
    }
}
