//! Configuration from a TOML file.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tenure_core::Error;
use toml::de::{DeTable, DeValue};

use crate::config::address;
use crate::config::keys::{self, Key, StoreType, ValueType};
use crate::config::raw::{Origin, RawConfig};

pub(super) fn read(path: &Path) -> RawConfig {
    let failed =
        |why: &dyn std::fmt::Display| RawConfig::failed(Error::Config(format!("{}: {why}", path.display())));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => return failed(&format!("cannot be read: {e}")),
    };
    let mut raw = parse(&text, Some(path));
    // Absolute, because the working directory may have changed when the store is opened.
    match std::path::absolute(path) {
        Ok(absolute) => raw.resolve_paths(absolute.parent().unwrap_or(Path::new("/"))),
        Err(e) => return failed(&e),
    }
    raw
}

/// Parses TOML text; `path` is its name in errors.
pub(super) fn parse(text: &str, path: Option<&Path>) -> RawConfig {
    let file: Option<Arc<str>> = path.map(|path| path.display().to_string().into());
    let origin_at = |at: usize| {
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        Origin::Line { file: file.clone(), line }
    };
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        // Only the message: the parser's full error quotes the line, which may contain a password.
        Err(e) => {
            let origin = origin_at(e.span().map_or(0, |span| span.start));
            return RawConfig::failed(origin.error("TOML", e.message()));
        }
    };
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let text_of = |key: &str| table.get_ref().get(key).and_then(|value| value.get_ref().as_str());
    let store = text_of("type").and_then(StoreType::named);
    let store = store.or_else(|| text_of(keys::URL).and_then(address::store_type));
    let (mut raw, mut url) = (RawConfig::default(), None);
    for (name, value) in entries {
        let origin = origin_at(name.span().start);
        let (name, value): (&str, _) = (name.get_ref(), value.get_ref());
        if name == keys::URL {
            url = Some(match value.as_str() {
                Some(address) => address::read(address, &origin),
                None => RawConfig::failed(origin.error(name, "expected a string in quotes")),
            });
            continue;
        }
        let Some(key) = Key::named(name) else {
            let known = Key::of(store).map(|key| key.name).chain([keys::URL]);
            let table = if value.is_table() { ": all keys are at the top level, not in tables" } else { "" };
            let why = format!("unknown key{table}{}", keys::did_you_mean(name, known));
            raw.keep_error(Err(origin.error(name, why)));
            continue;
        };
        if key.value_type == ValueType::Pairs
            && let Some(stray) = stray_key(value, text)
        {
            let why = format!("stands below [{name}]: move it above, or write it in quotes if it is a host");
            raw.keep_unread(key, origin_at(stray.start).error(&text[stray], why));
            continue;
        }
        match value_text(key, value) {
            None => raw.keep_unread(key, origin.error(name, expected(key.value_type))),
            Some(text) if text.is_empty() && key.name != "prefix" => {
                raw.keep_unread(key, origin.error(name, "is empty: remove the key instead"));
            }
            Some(text) => {
                let outcome = raw.set(key, text, &origin);
                raw.keep_error(outcome);
            }
        }
    }
    // Added last, so that a duplicate error names the other key and not the address.
    if let Some(url) = url {
        raw.set_from_address(url);
    }
    raw
}

/// A key that stands in a table by mistake: what follows the head of a table in a file belongs to it.
fn stray_key(value: &DeValue<'_>, text: &str) -> Option<Range<usize>> {
    let table = value.as_table()?;
    table.keys().map(|key| key.span()).find(|span| Key::named(&text[span.clone()]).is_some())
}

/// The value as it is written in an address; `None` if it has the wrong type. A number is not accepted as text: `007`
/// or `1_000` would be changed by the conversion.
fn value_text(key: &Key, value: &DeValue<'_>) -> Option<String> {
    match (key.value_type, value) {
        (_, DeValue::String(text)) => Some(text.to_string()),
        // A duration without a unit is rejected later, by the duration parser.
        (ValueType::Number | ValueType::Duration, DeValue::Integer(number)) if number.radix() == 10 => {
            Some(number.as_str().to_owned())
        }
        (ValueType::Bool, DeValue::Boolean(flag)) => Some(flag.to_string()),
        (ValueType::Nodes, DeValue::Array(nodes)) => {
            let each: Option<Vec<&str>> = nodes.iter().map(|node| node.get_ref().as_str()).collect();
            each.map(|nodes| nodes.join(","))
        }
        (ValueType::Pairs, DeValue::Table(pairs)) => {
            let mut pairs: Vec<_> = pairs.iter().collect();
            pairs.sort_by_key(|(from, _)| from.span().start);
            let pair =
                pairs.iter().map(|(from, to)| Some(format!("{}={}", from.get_ref(), to.get_ref().as_str()?)));
            pair.collect::<Option<Vec<String>>>().map(|pairs| pairs.join(","))
        }
        _ => None,
    }
}

fn expected(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Text | ValueType::Secret | ValueType::Path => "expected a string in quotes",
        ValueType::Nodes => "expected a list of addresses, or one string with commas between them",
        ValueType::Pairs => {
            "expected a table of announced addresses and those to connect to instead, such as \"10.0.0.5:7001\" = \
             \"lb.example.com:17001\""
        }
        ValueType::Number => "expected a number",
        ValueType::Bool => "expected true or false",
        ValueType::Duration => "expected a duration in quotes, such as \"30s\"",
    }
}
