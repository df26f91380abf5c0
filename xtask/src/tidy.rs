//! Checks that no other tool does: long files, stubs, layers, broken links between documents.

use std::path::Path;
use std::process::Command;

use crate::layers;

/// Longer files probably contain more than one idea.
const LINES: usize = 600;

/// Split in two, or this file would match itself.
const STUBS: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];

/// Lists what is wrong in the tracked files below `root`.
///
/// # Errors
/// When the files cannot be listed.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    for file in tracked(root)? {
        // Skip files that are deleted but not committed yet, or no text.
        let Ok(text) = std::fs::read_to_string(root.join(&file)) else { continue };
        let found = match file.rsplit_once('.') {
            Some((_, "rs")) => in_rust(&text).into_iter().chain(layers::breaches(&file, &text)).collect(),
            Some((_, "md")) => {
                let folder = root.join(&file).parent().map(Path::to_owned).unwrap_or_default();
                in_markdown(&text, |link| folder.join(link).exists())
            }
            _ => Vec::new(),
        };
        faults.extend(found.into_iter().map(|what| format!("{file}: {what}")));
    }
    Ok(faults)
}

pub(crate) fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|e| format!("git does not start: {e}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn in_rust(text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let long = (lines > LINES).then(|| format!("{lines} lines, more than {LINES}: it holds two ideas"));
    let stubs = text.lines().enumerate().flat_map(|(n, line)| {
        let stub = STUBS.iter().find(|stub| line.contains(**stub));
        stub.map(|stub| format!("line {}: {stub}…)", n + 1))
    });
    long.into_iter().chain(stubs).collect()
}

/// Finds broken links to files, as `[text](path#part)`, outside of code.
fn in_markdown(text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut code = false;
    let mut broken = Vec::new();
    for (n, line) in text.lines().enumerate() {
        code ^= line.trim_start().starts_with("```");
        if code || line.starts_with("    ") {
            continue;
        }
        let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (link, _) in links {
            let path = link.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") && !path.starts_with("mailto:") && !exists(path) {
                broken.push(format!("line {}: {path} does not exist", n + 1));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_stubs_are_found() {
        assert!(in_rust(&"//\n".repeat(LINES)).is_empty());
        assert_eq!(in_rust(&"//\n".repeat(LINES + 1)).len(), 1);
        assert_eq!(in_rust(&format!("fn f() {{\n    {}\n}}", STUBS[0])), [format!("line 2: {}…)", STUBS[0])]);
    }

    #[test]
    fn broken_links_are_found() {
        let text =
            "[a](there.md) [b](gone.md#part)\n```\n[c](gone.md)\n```\n[d](https://example.org) [e](#here)";
        assert_eq!(in_markdown(text, |link| link == "there.md"), ["line 1: gone.md does not exist"]);
    }
}
