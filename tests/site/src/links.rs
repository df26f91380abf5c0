//! Broken links in the pages of a site, those to a part of a page included.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// Lists the links between files below `folder` that lead nowhere.
pub(crate) fn broken(folder: &Path) -> io::Result<Vec<String>> {
    let mut pages = Vec::new();
    files(folder, "html", &mut pages)?;
    let read = |page: PathBuf| Ok((page.canonicalize()?, std::fs::read_to_string(&page)?));
    let texts: HashMap<PathBuf, String> = pages.into_iter().map(read).collect::<io::Result<_>>()?;
    let ids = |text: &str| values(text, " id=\"").map(str::to_owned).collect();
    let parts: HashMap<&PathBuf, HashSet<String>> =
        texts.iter().map(|(page, text)| (page, ids(text))).collect();
    let mut broken = Vec::new();
    for (page, text) in &texts {
        // This page is shown in the place of any other, so its links have no fixed base.
        if page.ends_with("404.html") {
            continue;
        }
        for link in values(text, " href=\"").chain(values(text, " src=\"")) {
            if let Some(why) = fault(page, link, &parts) {
                let page = page.strip_prefix(folder.canonicalize()?).unwrap_or(page).display();
                broken.push(format!("{page}: {link} {why}"));
            }
        }
    }
    broken.sort();
    broken.dedup();
    Ok(broken)
}

/// Why a link on `page` leads nowhere.
fn fault(page: &Path, link: &str, parts: &HashMap<&PathBuf, HashSet<String>>) -> Option<&'static str> {
    if ["https:", "http:", "mailto:", "data:"].iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    let (path, part) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_owned() } else { page.parent()?.join(decoded(path)) };
    let Ok(target) = target.canonicalize() else { return Some("does not exist") };
    let is_there = match parts.get(&target) {
        Some(ids) => part.is_empty() || ids.contains(&decoded(part)),
        None => part.is_empty(),
    };
    (!is_there).then_some("has no such part")
}

/// What stands in quotes after each `attribute`, in HTML that was written by mdBook.
fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(attribute).skip(1).filter_map(|rest| rest.split_once('"')).map(|(value, _)| value)
}

/// Without percent-encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Collects the files below `folder` whose names end so.
pub(crate) fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            files(&path, ending, found)?;
        } else if path.extension().is_some_and(|extension| extension == ending) {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn broken_links_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let page = "<h1 id=\"top\"></h1><a href=\"#top\"></a><a href=\"b.html#%E4%B8%AD\"></a><a href=\"https://c.d\"></a>\
                <a href=\"c.html\"></a><a href=\"b.html#gone\"></a><img src=\"d.png\">";
    std::fs::write(folder.path().join("a.html"), page).unwrap();
    std::fs::write(folder.path().join("b.html"), "<h1 id=\"中\"></h1>").unwrap();
    let broken = broken(folder.path()).unwrap();
    assert_eq!(
        broken,
        [
            "a.html: b.html#gone has no such part",
            "a.html: c.html does not exist",
            "a.html: d.png does not exist"
        ]
    );
}
