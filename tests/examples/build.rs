//! Collects the Rust blocks of the documentation into one source file, so that the compiler checks them all at once.
//!
//! Each block becomes the body of an async function with a `client: Client`. What else it needs, and what its reader
//! does not, stands in comments of the page right before and after it:
//!
//! ````text
//! <!-- before: let guard = client.lock("a").acquire().await?; -->
//! ```rust
//! guard.release().await?;
//! ```
//! <!-- after: let done = true; -->
//! ````
//!
//! `{ … }` is a body that the page leaves out.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace");
    let mut pages = vec![root.join("README.md"), root.join("README.zh-CN.md")];
    collect(&root.join("docs"), &mut pages);
    pages.sort();
    let mut source = String::new();
    for page in &pages {
        println!("cargo::rerun-if-changed={}", page.display());
        let text = std::fs::read_to_string(page).expect("a page");
        let name = page.strip_prefix(&root).expect("below the root").display().to_string();
        for block in blocks(&text) {
            add(&mut source, &name, &block);
        }
    }
    println!("cargo::rerun-if-changed={}", root.join("docs").display());
    let to = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("blocks.rs");
    std::fs::write(to, source).expect("the blocks");
}

fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

struct Block {
    line: usize,
    before: String,
    code: String,
    after: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim() != "```rust" {
            at += 1;
            continue;
        }
        let end = at + lines[at..].iter().position(|line| line.trim() == "```").expect("the end of a block");
        let before = at.checked_sub(1).and_then(|above| comment(lines[above], "before"));
        let after = lines.get(end + 1).and_then(|below| comment(below, "after"));
        blocks.push(Block {
            line: at + 1,
            before: before.unwrap_or_default().to_owned(),
            code: lines[at + 1..end].join("\n").replace("{ … }", "{ panic!() }"),
            after: after.unwrap_or_default().to_owned(),
        });
        at = end + 1;
    }
    blocks
}

fn comment<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim().strip_prefix(word)?.strip_prefix(':')
}

fn add(source: &mut String, page: &str, Block { line, before, code, after }: &Block) {
    let name: String = page.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    // A whole program is a module of its own.
    let (open, close) = if code.contains("fn main()") {
        ("", "")
    } else {
        ("async fn block(client: Client) -> Result<(), Failure> {", "\nOk(())\n}")
    };
    writeln!(
        source,
        "// {page}, line {line}\nmod {name}_{line} {{ use super::*; {open}\n{before}\n{code}\n{after}{close} }}\n"
    )
    .expect("text");
}
