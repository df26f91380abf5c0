//! Wrong use is a compile error at the right place, with a sentence that helps: what the compiler says of each file in
//! `tests/ui` stands beside it. `TENURE_BLESS=1` writes it there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Seen from there.
const HERE: &str = "crates/tenure/";

/// Checks a file with the libraries that this test was built with, so that nothing is built for it.
fn rustc(file: &str, tenure: &Path) -> Output {
    let deps = tenure.parent().unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", file]);
    rustc.arg("-L").arg(format!("dependency={}", deps.display())).arg("--out-dir").arg(out.path());
    rustc.arg("--extern").arg(format!("tenure={}", tenure.display()));
    // Where the sources of the libraries are found.
    rustc.current_dir(WORKSPACE).output().expect("rustc starts")
}

/// The newest one with the attribute in it. Others may have been built with other features.
fn tenure() -> PathBuf {
    let me = std::env::current_exe().unwrap();
    let is_tenure = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libtenure-") && name.ends_with(".rlib")
    };
    let mut all: Vec<_> = files(me.parent().unwrap()).into_iter().filter(is_tenure).collect();
    all.sort_by_key(|path| std::cmp::Reverse(path.metadata().and_then(|m| m.modified()).unwrap()));
    let right =
        all.into_iter().find(|path| rustc(&format!("{HERE}tests/it/ui/right.rs"), path).status.success());
    right.expect("a library with the attribute")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Without what differs between machines, and changes with every line of other files.
fn normal(said: &str) -> String {
    let (mut lines, mut elsewhere) = (Vec::new(), false);
    for line in said.lines() {
        if line.starts_with("error: aborting") || line.starts_with("For more information") {
            continue;
        }
        let (gutter, rest) = line.split_at(line.find(|c: char| !c.is_numeric() && c != ' ').unwrap_or(0));
        if let Some(place) = rest.strip_prefix("--> ").or(rest.strip_prefix("::: ")) {
            let place = place.strip_prefix(HERE).filter(|place| place.starts_with("tests/")).unwrap_or(place);
            elsewhere = !place.starts_with("tests/");
            let file = place.split(':').next().unwrap();
            lines.push(match file.strip_prefix("crates/") {
                Some(file) => format!("--> $WORKSPACE/crates/{file}"),
                None => format!("--> {place}"),
            });
        } else if rest.starts_with('|') || rest.starts_with('=') {
            let number = if elsewhere { "" } else { gutter.trim() };
            lines.push(format!("{number} {rest}").trim().to_owned());
        } else {
            lines.push(line.trim().to_owned());
        }
    }
    lines.join("\n").trim().to_owned() + "\n"
}

#[test]
fn wrong_use() {
    let (tenure, mut wrong, mut cases) = (tenure(), Vec::new(), 0);
    for case in files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ui"))) {
        let (name, kept) = (case.file_name().unwrap().display(), case.with_extension("stderr"));
        if case == kept {
            continue;
        }
        cases += 1;
        let done = rustc(&format!("{HERE}tests/ui/{name}"), &tenure);
        let said = normal(&String::from_utf8_lossy(&done.stderr));
        if std::env::var_os("TENURE_BLESS").is_some() {
            fs::write(&kept, &said).unwrap();
        }
        let wanted = fs::read_to_string(&kept).unwrap_or_default();
        if done.status.success() || said != normal(&wanted) {
            wrong.push(format!("{name}:\n{said}\ninstead of\n{wanted}"));
        }
    }
    assert!(cases > 10 && wrong.is_empty(), "{}", wrong.join("\n"));
}
