//! Every public function appears in an example: in the documentation of its type, or in its own.
//!
//! What is public is listed in `docs/api`, so no compiler is needed here. Only examples that rustdoc compiles count.

use std::path::Path;

use crate::tidy;

/// The crates whose functions users reach through `tenure`.
const CRATES: [&str; 6] =
    ["tenure", "tenure-core", "tenure-redis", "tenure-redlock", "tenure-sqlite", "tenure-zookeeper"];

/// Functions, or all functions of a type, that need no example, and why.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "tenure_core::ledger::LedgerStore",
    "its documentation points to the memory store, which implements it",
)];

/// Lists the public functions that no example shows.
///
/// # Errors
/// When the files cannot be listed.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>, String> {
    let tracked = tidy::tracked(root)?;
    let mut faults = Vec::new();
    let mut unused = EXCEPTIONS.map(|(what, _)| what).to_vec();
    for name in CRATES {
        let source = format!("crates/{name}/src/");
        let rust = tracked.iter().filter(|file| file.starts_with(&source) && file.ends_with(".rs"));
        let files = rust.filter_map(|path| {
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(File { path: path.clone(), examples: examples(&text), text })
        });
        let files: Vec<File> = files.collect();
        let listed = format!("docs/api/{name}.txt");
        let surface = std::fs::read_to_string(root.join(&listed)).map_err(|e| format!("{listed}: {e}"))?;
        for path in missing(&surface, &files) {
            let is_excepted = |what: &str| path.strip_prefix(what).is_some_and(is_boundary);
            match EXCEPTIONS.iter().find(|(what, _)| is_excepted(what)) {
                Some((what, _)) => unused.retain(|other| other != what),
                None => faults.push(format!("{listed}: {path} is in no example")),
            }
        }
    }
    faults.extend(unused.iter().map(|what| format!("xtask/src/examples.rs: {what} is no exception")));
    Ok(faults)
}

fn is_boundary(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with("::")
}

struct File {
    path: String,
    text: String,
    /// The code of its examples.
    examples: String,
}

/// Returns the functions of `surface` that no example of these files shows.
fn missing(surface: &str, files: &[File]) -> Vec<String> {
    let functions = functions(surface);
    functions
        .iter()
        .filter(|function| !function.is_shown(files))
        .map(|function| function.path.clone())
        .collect()
}

/// A public function, method or associated function.
#[derive(Debug, PartialEq)]
struct Function {
    /// Without generic arguments, beginning with the crate.
    path: String,
    has_self: bool,
}

impl Function {
    fn is_shown(&self, files: &[File]) -> bool {
        let parts: Vec<&str> = self.path.split("::").collect();
        let [modules @ .., owner, name] = &parts[1..] else {
            return shown_in(files.iter().filter(|file| file.declares("fn", parts[1])), "", parts[1]);
        };
        let is_type = owner.starts_with(char::is_uppercase);
        let module = if is_type { modules } else { &parts[1..parts.len() - 1] };
        let mut of_module =
            files.iter().filter(|file| module.iter().all(|part| file.path.contains(&format!("/{part}"))));
        if !is_type {
            return shown_in(of_module.filter(|file| file.declares("fn", name)), "", name);
        }
        let names = names_of(owner, files);
        if self.has_self {
            let own = |file: &&File| names.iter().any(|name| file.is_about(name));
            return shown_in(of_module.filter(own), ".", name);
        }
        of_module.any(|file| names.iter().any(|owner| contains(&file.examples, &format!("{owner}::"), name)))
    }
}

fn shown_in<'a>(mut files: impl Iterator<Item = &'a File>, before: &str, name: &str) -> bool {
    files.any(|file| contains(&file.examples, before, name))
}

/// The name of a type, and those of its aliases.
fn names_of(owner: &str, files: &[File]) -> Vec<String> {
    let lines = files.iter().flat_map(|file| file.text.lines());
    let alias = |line: &str| {
        let (name, of) = line.strip_prefix("pub type ")?.split_once(" = ")?;
        of.strip_prefix(owner).filter(|rest| rest.starts_with('<')).map(|_| name.to_owned())
    };
    std::iter::once(owner.to_owned()).chain(lines.filter_map(alias)).collect()
}

impl File {
    fn declares(&self, keyword: &str, name: &str) -> bool {
        self.text.lines().any(|line| {
            let line = line.strip_prefix("pub ").map(|line| line.trim_start_matches("async "));
            line.and_then(|line| line.strip_prefix(keyword)?.strip_prefix(' '))
                .is_some_and(|rest| starts_with_word(rest, name))
        })
    }

    /// Whether it declares this type or has methods of it.
    fn is_about(&self, name: &str) -> bool {
        let has_methods = |line: &str| {
            let line = line.strip_prefix("impl")?;
            let line = line.split_once("> ").filter(|_| line.starts_with('<')).map_or(line, |(_, rest)| rest);
            let line = line.trim_start().trim_start_matches("dyn ");
            (!line.contains(" for ")).then(|| starts_with_word(line, name))
        };
        ["struct", "enum", "trait"].iter().any(|keyword| self.declares(keyword, name))
            || self.text.lines().any(|line| has_methods(line) == Some(true))
    }
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_word))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `code` calls `name`, with `before` directly before it.
fn contains(code: &str, before: &str, name: &str) -> bool {
    let called = format!("{before}{name}");
    code.match_indices(&called).any(|(at, _)| {
        let begins = before == "." || !code[..at].ends_with(|c: char| is_word(c) || c == '.');
        let rest = &code[at + called.len()..];
        begins && (rest.starts_with('(') || rest.starts_with("::<"))
    })
}

/// The functions in a file of `docs/api`, except those of implemented traits.
fn functions(surface: &str) -> Vec<Function> {
    let mut found: Vec<Function> = Vec::new();
    let mut own = true;
    for line in surface.lines() {
        let line = line.rsplit_once("] pub ").map_or(line, |(_, item)| item).trim_start_matches("pub ");
        if line.starts_with("impl") {
            own = !line.contains(" for ");
        } else if ["struct ", "enum ", "trait ", "mod "].iter().any(|item| line.starts_with(item)) {
            own = true;
        }
        let item = line.trim_start_matches("async ").trim_start_matches("const ");
        if let Some(function) = item.strip_prefix("fn ").and_then(function)
            && (own || !function.is_of_a_type())
            && !found.contains(&function)
        {
            found.push(function);
        }
    }
    found
}

impl Function {
    fn is_of_a_type(&self) -> bool {
        self.path.rsplit("::").nth(1).is_some_and(|owner| owner.starts_with(char::is_uppercase))
    }
}

/// Parses `path<generics>(arguments) -> result`.
fn function(item: &str) -> Option<Function> {
    let mut depth = 0;
    let mut path = String::new();
    for (at, c) in item.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => {
                let first = item[at + 1..].split([',', ')']).next().unwrap_or_default();
                let has_self =
                    first.split([' ', '&']).next_back() == Some("self") || first.contains("<Self>");
                return Some(Function { path, has_self });
            }
            c if depth == 0 => path.push(c),
            _ => {}
        }
    }
    None
}

/// The code of the examples in the documentation comments of a file.
fn examples(text: &str) -> String {
    /// The words after the fence of code that is compiled.
    const COMPILED: [&str; 4] = ["", "rust", "no_run", "should_panic"];
    let mut code = String::new();
    let mut fence = None;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(line) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            fence = None;
            continue;
        };
        match (line.trim().strip_prefix("```"), fence) {
            (Some(words), None) => fence = Some(words.split(',').all(|word| COMPILED.contains(&word))),
            (Some(_), Some(_)) => fence = None,
            (None, Some(true)) => code = code + line.split(" // ").next().unwrap_or(line) + "\n",
            (None, _) => {}
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURFACE: &str = "\
pub mod planted
pub mod planted::inner
pub struct planted::inner::Lock<S>
impl<S: core::marker::Send> planted::inner::Lock<S>
pub fn planted::inner::Lock<S>::acquire(&self) -> bool
pub fn planted::inner::Lock<S>::of<T: core::convert::Into<u8>>(T) -> Self
impl<S> core::clone::Clone for planted::inner::Lock<S>
pub fn planted::inner::Lock<S>::clone(&self) -> Self
pub async fn planted::connect(&str) -> u8";

    fn missing_in(source: &str) -> Vec<String> {
        let path = "crates/planted/src/inner.rs".to_owned();
        missing(SURFACE, &[File { path, text: source.to_owned(), examples: examples(source) }])
    }

    #[test]
    fn every_public_function_is_in_an_example() {
        assert_eq!(faults(&crate::root()), Ok(Vec::new()));
    }

    #[test]
    fn what_no_example_shows_is_reported() {
        let source = |code: &str, word: &str| {
            format!(
                "//! ```\n//! planted::connect(\"x\");\n//! ```\n\n/// ```{word}\n/// {code}\n/// ```\n\
                 pub struct Lock<S>(S);\nimpl<S> Lock<S> {{\n    pub fn acquire(&self) {{ self.other.acquire() }}\n}}\n\
                 pub type Plain = Lock<u8>;\npub async fn connect() {{}}\n"
            )
        };
        let (acquire, of) = ("planted::inner::Lock::acquire", "planted::inner::Lock::of");
        assert!(missing_in(&source("Lock::of(1).acquire();", "")).is_empty());
        assert!(missing_in(&source("Plain::of::<u8>(1).acquire();", "no_run")).is_empty());
        assert_eq!(missing_in(&source("Lock::of(1).try_acquire();", "")), [acquire]);
        assert_eq!(missing_in(&source("Other::of(1).acquire();", "")), [of]);
        assert_eq!(missing_in(&source("Lock::of(1).acquire();", "ignore")), [acquire, of]);
        assert_eq!(missing_in("pub struct Lock<S>(S);\npub async fn connect() {}").len(), 3);
    }
}
