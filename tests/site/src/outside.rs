//! Pages made from files outside of `docs`: the examples, and what stands at the root of the repository.

use std::error::Error;
use std::path::{Component, Path, PathBuf};

use mdbook_driver::book::{Book, BookItem, Chapter};

/// A file of the repository, and the page that it becomes.
struct Outside {
    file: String,
    page: PathBuf,
    title: String,
}

/// Files at the root: file, page, title.
const AT_ROOT: [(&str, &str, &str); 3] = [
    ("CONTRIBUTING.md", "contributing.md", "Contributing"),
    ("CHANGELOG.md", "changelog.md", "Changes"),
    ("SECURITY.md", "security-policy.md", "Reporting a vulnerability"),
];

/// Adds the pages to the end of the book, and makes all links to these files lead to them.
pub(crate) fn add(book: &mut Book, root: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let all = list(root)?;
    book.push_item(BookItem::PartTitle("Examples and the project".into()));
    for outside in &all {
        let text = std::fs::read_to_string(root.join(&outside.file))?;
        let text = if outside.file.ends_with(".rs") {
            format!("# {}\n\n```rust\n{text}```\n", outside.title)
        } else {
            text
        };
        let mut chapter = Chapter::new(&outside.title, text, &outside.page, Vec::new());
        chapter.content = relinked(&chapter.content, Path::new(&outside.file), &outside.page, &all);
        book.push_item(chapter);
    }
    book.for_each_chapter_mut(|chapter| {
        // Pages of `docs`: those above have been done.
        if let Some(page) = chapter.source_path.clone()
            && !all.iter().any(|outside| outside.page == page)
        {
            chapter.content = relinked(&chapter.content, &Path::new("docs").join(&page), &page, &all);
        }
    });
    Ok(())
}

fn list(root: &Path) -> std::io::Result<Vec<Outside>> {
    let mut all = Vec::new();
    for entry in root.join("examples").read_dir()? {
        let title = entry?.file_name().to_string_lossy().into_owned();
        let page = Path::new("examples").join(&title).with_extension("md");
        all.push(Outside { file: format!("examples/{title}"), page, title });
    }
    all.sort_by(|a, b| a.file.cmp(&b.file));
    let at_root = |(file, page, title): (&str, &str, &str)| Outside {
        file: file.into(),
        page: page.into(),
        title: title.into(),
    };
    all.extend(AT_ROOT.map(at_root));
    Ok(all)
}

/// The text of the page, whose links are relative to `file`, with links as seen from `page`.
fn relinked(text: &str, file: &Path, page: &Path, all: &[Outside]) -> String {
    let mut parts = text.split("](");
    let mut done = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        done.push_str("](");
        let (link, rest) = part.split_once(')').unwrap_or((part, ""));
        match new_link(link, file, page, all) {
            Some(new) => done.push_str(&format!("{new}){rest}")),
            None => done.push_str(part),
        }
    }
    done
}

fn new_link(link: &str, file: &Path, page: &Path, all: &[Outside]) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() || path.contains(':') {
        return None;
    }
    let target = normal(&file.parent()?.join(path));
    let new = match all.iter().find(|outside| Path::new(&outside.file) == target) {
        Some(outside) => outside.page.clone(),
        // mdBook writes the first page of a folder as its index, but leaves links to it as they are.
        None if target.ends_with("README.md") => target.strip_prefix("docs").ok()?.with_file_name("index.md"),
        None => target.strip_prefix("docs").ok()?.to_owned(),
    };
    let up = "../".repeat(page.components().count() - 1);
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    Some(format!("{up}{}{anchor}", new.display()))
}

/// Without `..`, which lead from one folder of the repository to another.
fn normal(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn links_lead_to_pages() {
    let example =
        Outside { file: "examples/lock.rs".into(), page: "examples/lock.md".into(), title: "".into() };
    let relinked = |text, file: &str, page: &str| relinked(text, Path::new(file), Path::new(page), &[]);
    assert_eq!(relinked("[a](docs/b.md#c) [d](#e)", "CHANGELOG.md", "changelog.md"), "[a](b.md#c) [d](#e)");
    assert_eq!(relinked("[a](../guide.md)", "docs/adr/1.md", "adr/1.md"), "[a](../guide.md)");
    assert_eq!(relinked("[a](../README.md)", "docs/adr/1.md", "adr/1.md"), "[a](../index.md)");
    assert_eq!(relinked("[a](https://b.c/d)", "docs/a.md", "a.md"), "[a](https://b.c/d)");
    let (file, page) = (Path::new("docs/zh-CN/a.md"), Path::new("zh-CN/a.md"));
    let new = new_link("../../examples/lock.rs", file, page, &[example]);
    assert_eq!(new.as_deref(), Some("../examples/lock.md"));
}
