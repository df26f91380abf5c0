//! Configuration from a TOML file.

use std::path::Path;
use std::sync::Arc;

use tenure_core::{Error, Result};
use toml::de::{DeTable, DeValue};

use crate::config::address;
use crate::config::keys::{self, KEYS, Key, ValueType};
use crate::config::raw::{Origin, RawConfig};

pub(super) fn read(path: &Path) -> Result<RawConfig> {
    let error = |why: &dyn std::fmt::Display| Error::Config(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| error(&format!("cannot be read: {e}")))?;
    let mut raw = parse(&text, Some(path))?;
    // Absolute, because the working directory may have changed when the store is opened.
    let absolute = std::path::absolute(path).map_err(|e| error(&e))?;
    raw.resolve_paths(absolute.parent().unwrap_or(Path::new("/")))?;
    Ok(raw)
}

/// Parses TOML text; `path` is its name in errors.
pub(super) fn parse(text: &str, path: Option<&Path>) -> Result<RawConfig> {
    let file: Option<Arc<str>> = path.map(|path| path.display().to_string().into());
    let origin_at = |at: usize| {
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        Origin::Line { file: file.clone(), line }
    };
    // Only the message: the parser's full error quotes the line, which may contain a password.
    let table = DeTable::parse(text)
        .map_err(|e| origin_at(e.span().map_or(0, |span| span.start)).error("TOML", e.message()))?;
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let (mut raw, mut url) = (RawConfig::default(), None);
    for (name, value) in entries {
        let origin = origin_at(name.span().start);
        let (name, value): (&str, _) = (name.get_ref(), value.get_ref());
        if name == keys::URL {
            let address = value.as_str().ok_or_else(|| origin.error(name, "expected a string in quotes"))?;
            url = Some(address::parse(address, &origin)?);
            continue;
        }
        let Some(key) = Key::named(name) else {
            let known = KEYS.iter().map(|key| key.name).chain([keys::URL]);
            let table = if value.is_table() { ": all keys are at the top level, not in tables" } else { "" };
            return Err(origin.error(name, format!("unknown key{table}{}", keys::did_you_mean(name, known))));
        };
        let text = value_text(key, value).ok_or_else(|| origin.error(name, expected(key.value_type)))?;
        if text.is_empty() && key.name != "prefix" {
            return Err(origin.error(name, "is empty: remove the key instead"));
        }
        raw.set(key, text, &origin)?;
    }
    // Added last, so that a duplicate error names the other key and not the address.
    url.map_or(Ok(()), |url| raw.set_from_address(url))?;
    Ok(raw)
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
        _ => None,
    }
}

fn expected(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Text | ValueType::Secret | ValueType::Path => "expected a string in quotes",
        ValueType::Nodes => "expected a list of addresses, or one string with commas between them",
        ValueType::Number => "expected a number",
        ValueType::Bool => "expected true or false",
        ValueType::Duration => "expected a duration in quotes, such as \"30s\"",
    }
}
