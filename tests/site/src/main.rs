//! Builds the documentation site: `cargo xtask docs` calls it with the folder to write to.
//!
//! The pages are those of `docs/SUMMARY.md`. Files outside of `docs` that pages link to, such as the examples, become
//! pages of their own. Afterwards every link of every page is checked.

mod links;
mod outside;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mdbook_driver::MDBook;

fn main() -> ExitCode {
    let Some(to) = std::env::args_os().nth(1) else {
        eprintln!("which folder should the site be written to?");
        return ExitCode::FAILURE;
    };
    match build(Path::new(&to)) {
        Ok(broken) if broken.is_empty() => ExitCode::SUCCESS,
        Ok(broken) => {
            eprintln!("{}", broken.join("\n"));
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the site into `to`, and lists its broken links.
fn build(to: &Path) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let mut book = MDBook::load(root.join("docs"))?;
    book.config.build.build_dir = std::path::absolute(to)?;
    outside::add(&mut book.book, &root)?;
    book.build()?;
    let mut broken = unlisted(&book, &root.join("docs"))?;
    broken.extend(links::broken(to)?);
    Ok(broken)
}

/// Pages that `SUMMARY.md` does not list would not be part of the site.
fn unlisted(book: &MDBook, docs: &Path) -> std::io::Result<Vec<String>> {
    let listed: Vec<PathBuf> = book.book.chapters().filter_map(|page| page.source_path.clone()).collect();
    let mut pages = Vec::new();
    links::files(docs, "md", &mut pages)?;
    let names = pages.iter().filter_map(|page| page.strip_prefix(docs).ok());
    let missing = names.filter(|name| *name != Path::new("SUMMARY.md") && !listed.iter().any(|l| l == name));
    Ok(missing.map(|name| format!("docs/SUMMARY.md does not list {}", name.display())).collect())
}

#[test]
fn the_site_is_built_and_no_link_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let broken = build(folder.path()).unwrap();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(folder.path().join("examples/lock.html").exists());
}
