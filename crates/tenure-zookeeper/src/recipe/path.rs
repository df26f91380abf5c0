//! Maps names to paths: a name is the path below the chroot, as a JVM writes it. Characters that ZooKeeper refuses in
//! a path are escaped with `~`; names that would collide with the nodes of a recipe are refused.

use tenure_core::{Error, Name, Result};

use crate::recipe::node;

/// The child with the counters of a name: counts, sizes, and remembered operations. No escaped name equals it.
pub(crate) const COUNTERS: &str = "~tenure";

/// Children of Curator's semaphore.
pub(crate) const LOCKS: &str = "locks";
pub(crate) const LEASES: &str = "leases";

/// Maps names to paths and back.
#[derive(Debug)]
pub(crate) struct Paths {
    prefix: String,
}

impl Paths {
    pub(crate) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    /// The path of a name.
    ///
    /// # Errors
    /// `Config` when one of its segments would be taken for a node of a recipe.
    pub(crate) fn path(&self, name: &Name) -> Result<String> {
        let full_name = format!("{}{name}", self.prefix);
        let mut path = String::with_capacity(full_name.len() + 1);
        for (depth, segment) in full_name.split('/').enumerate() {
            if let Some(why) = collision(depth, segment) {
                let shown: String = segment.chars().take(40).collect();
                return Err(Error::Config(format!("{name}: its segment {shown:?} {why}")));
            }
            path.push('/');
            escape(segment, &mut path);
        }
        Ok(path)
    }

    /// The name of a path, if the path is that of a valid name with our prefix.
    pub(crate) fn name(&self, path: &str) -> Option<Name> {
        let name = Name::new(full_name(path)?.strip_prefix(&self.prefix)?).ok()?;
        (self.path(&name).ok()? == path).then_some(name)
    }

    /// The folder that contains all names with this beginning, as name and as path. Both are empty for the root.
    pub(crate) fn folder_of(&self, beginning: &str) -> (String, String) {
        let full_name = format!("{}{beginning}", self.prefix);
        let Some((folders, _)) = full_name.rsplit_once('/') else { return Default::default() };
        let mut path = String::new();
        for segment in folders.split('/') {
            path.push('/');
            escape(segment, &mut path);
        }
        (folders.to_owned(), path)
    }

    /// A child of a folder, as name and as path, if it can lead to names with this beginning.
    pub(crate) fn in_folder(&self, folder: &str, child: &str, beginning: &str) -> Option<(String, String)> {
        let path = format!("{folder}/{child}");
        let (full_name, wanted) = (full_name(&path)?, format!("{}{beginning}", self.prefix));
        let leads_there = wanted.strip_prefix(&full_name).is_some_and(|rest| rest.starts_with('/'));
        (leads_there || full_name.starts_with(&wanted)).then_some((full_name, path))
    }
}

/// The name with its prefix for a path; `None` if the path is not in escaped form.
fn full_name(path: &str) -> Option<String> {
    let (mut full_name, mut same) = (String::with_capacity(path.len()), String::with_capacity(path.len()));
    for (depth, segment) in path.strip_prefix('/')?.split('/').enumerate() {
        if depth > 0 {
            full_name.push('/');
        }
        let plain = unescape(segment)?;
        full_name.push_str(&plain);
        same.push('/');
        escape(&plain, &mut same);
    }
    (same == path).then_some(full_name)
}

/// Why a segment cannot be part of a name.
fn collision(depth: usize, segment: &str) -> Option<&'static str> {
    if depth == 0 {
        return (segment == "zookeeper").then_some("is reserved for ZooKeeper itself");
    }
    if segment == LOCKS || segment == LEASES {
        return Some("is where a semaphore on the parent name keeps its queue and its permits");
    }
    // Curator sorts every child of a lock, even one that is not a queue node, by the text after its marker.
    let ranked = node::after_marker(segment);
    match (ranked, segment.as_bytes().first()) {
        (Some(text), _) if text.as_bytes().first().is_none_or(|c| *c <= b'9') => {
            Some("looks like a queue node of the parent name")
        }
        // A segment with an escaped first character begins with `~`, which sorts after all digits.
        (None, Some(first))
            if *first < b'0' && segment != "." && segment != ".." && !is_refused(char::from(*first)) =>
        {
            Some(
                "sorts before all sequence numbers: Curator clients that lock the parent name would wait for it",
            )
        }
        _ => None,
    }
}

fn escape(segment: &str, into: &mut String) {
    if segment.is_empty() {
        into.push('~');
    }
    let dots = segment == "." || segment == "..";
    for c in segment.chars() {
        if c == '~' || dots || is_refused(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                into.push_str(&format!("~{byte:02X}"));
            }
        } else {
            into.push(c);
        }
    }
}

fn unescape(segment: &str) -> Option<String> {
    if segment == "~" {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'~' {
            bytes.push(*first);
            continue;
        }
        let (code, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// As ZooKeeper checks it: in UTF-16 units, so that all characters beyond the first plane are refused.
fn is_refused(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths() -> Paths {
        Paths::new(String::new())
    }

    fn path(name: &str) -> Result<String> {
        paths().path(&Name::new(name)?)
    }

    #[test]
    fn a_name_is_its_path() {
        for name in ["a", "orders/42", "shard/0", "a b/c:d", "鍵/鍵", "ACCOUNT:USER:42", "clock-a/b"] {
            assert_eq!(path(name).unwrap(), format!("/{name}"));
        }
        for (name, escaped) in [
            ("a/", "/a/~"),
            ("/a", "/~/a"),
            ("..", "/~2E~2E"),
            ("a~b", "/a~7Eb"),
            ("a\n", "/a~0A"),
            ("🔒", "/~F0~9F~94~92"),
        ] {
            assert_eq!(path(name).unwrap(), escaped, "{name}");
        }
    }

    #[test]
    fn names_that_collide_with_a_recipe_are_refused() {
        for (name, says) in [
            ("a/-x", "sorts before"),
            ("a/!", "sorts before"),
            ("a/locks", "semaphore"),
            ("a/leases/b", "semaphore"),
            ("a/lock-0000000001", "looks like a queue node"),
            ("a/_c_x-latch-", "looks like a queue node"),
            ("a/__READ__0000000001", "looks like a queue node"),
            ("zookeeper/config", "ZooKeeper itself"),
        ] {
            let error = path(name).unwrap_err().to_string();
            assert!(error.contains(says), "{name}: {error}");
        }
        for name in ["locks", "-x", "a/block-b", "leases/a"] {
            path(name).unwrap();
        }
    }

    proptest! {
        #[test]
        fn paths_map_back_to_names(prefix in "[a-z:/~]{0,4}", name in "\\PC{1,20}|[a~/.%\u{1}-\u{1f}🔒]{1,8}") {
            let paths = Paths::new(prefix);
            if let Ok(name) = Name::new(name)
                && let Ok(path) = paths.path(&name)
            {
                prop_assert_eq!(paths.name(&path), Some(name));
                prop_assert!(path.chars().all(|c| !is_refused(c)) && !path.ends_with('/') && !path.contains("//"));
            }
        }
    }
}
