//! Layers of the core: a module uses only modules of its own layer and the layers below, and the engine takes time,
//! chance and threads from its environment.

/// A folder of the core, and the top-level modules that its files may use.
const LAYERS: [(&str, &[&str]); 4] = [
    ("backend", &["backend"]),
    ("ledger", &["ledger", "backend"]),
    ("engine", &["engine", "backend"]),
    ("api", &["api", "engine", "backend"]),
];

const CORE: &str = "crates/tenure-core/src/";

/// What the engine and the api get from their environment instead, so that a simulation can replace it.
const SOURCES: [&str; 6] = [
    "std::time::Instant",
    "std::time::{Duration, Instant}",
    "SystemTime",
    "thread::Builder",
    "thread::spawn",
    "RandomState",
];

/// Finds where `text`, the content of `file`, uses a layer above. Tests may: they check a layer from outside.
pub(crate) fn breaches(file: &str, text: &str) -> Vec<String> {
    let Some((layer, rest)) = file.strip_prefix(CORE).and_then(|path| path.split_once('/')) else {
        return Vec::new();
    };
    let Some((_, may)) = LAYERS.iter().find(|(name, _)| *name == layer) else { return Vec::new() };
    if rest.ends_with("tests.rs") {
        return Vec::new();
    }
    // How many `super` stay inside the layer: a file is one level below its folder, `mod.rs` is the folder.
    let depth = rest.split('/').count() - usize::from(rest.ends_with("mod.rs"));
    let code = text
        .lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]") && !line.starts_with("#![cfg(test)]"));
    let code = code.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.flat_map(|(n, line)| {
        let named = line.split("crate::").skip(1).map(first_word);
        let wrong = named.filter(|name| !may.contains(name)).map(|name| format!("crate::{name}"));
        let sources = SOURCES.iter().filter(|_| matches!(layer, "engine" | "api"));
        let sources = sources.filter(|source| line.contains(**source)).map(|source| (*source).to_owned());
        let supers = line.split("super::").count() - 1;
        let out = (supers > depth).then(|| "super::".repeat(supers));
        let above = wrong.chain(out).map(move |what| format!("line {}: {what} is not below {layer}", n + 1));
        let sources = sources.map(move |what| format!("line {}: {what}: use the environment", n + 1));
        above.chain(sources).collect::<Vec<_>>()
    })
    .collect()
}

fn first_word(path: &str) -> &str {
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_engine(text: &str) -> usize {
        breaches("crates/tenure-core/src/engine/gate/run.rs", text).len()
    }

    #[test]
    fn names_of_a_layer_above_are_found() {
        assert_eq!(in_engine("use crate::engine::hold::Hold;\nuse crate::backend::{Claim, Error};"), 0);
        assert_eq!(in_engine("use crate::api::Guard;"), 1);
        assert_eq!(in_engine("let guard: Option<crate::Guard> = None;"), 1, "the root has all layers");
        assert_eq!(in_engine("use crate::{Claim, Guard};"), 1);
        assert_eq!(in_engine("use super::super::super::api::Guard;"), 1);
        assert_eq!(in_engine("use super::super::hold::Hold;"), 0);
        assert_eq!(in_engine("use std::time::Duration;\nuse tokio::time::Instant;"), 0);
        assert_eq!(in_engine("use std::time::{Duration, Instant};\nstd::thread::spawn(work);"), 2);
        assert_eq!(
            in_engine("/// See [`Lock`](crate::Lock).\n#[cfg(test)]\nmod tests {\n    use crate::Client;\n}"),
            0
        );
        assert_eq!(breaches("crates/tenure-core/src/lib.rs", "pub use api::Client;").len(), 0);
        assert_eq!(
            breaches("crates/tenure-core/src/backend/claim.rs", "use crate::engine::core::Core;").len(),
            1
        );
    }
}
