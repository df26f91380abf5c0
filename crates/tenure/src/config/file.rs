//! Configuration from a TOML file.

use std::path::Path;
use std::sync::Arc;

use tenure_core::{Error, Result};
use toml::de::{DeTable, DeValue};

use crate::config::address::Parts;
use crate::config::keys::{self, Form, KEYS, Key};
use crate::config::raw::{Given, Origin};

pub(super) fn read(path: &Path) -> Result<Given> {
    let wrong = |why: &dyn std::fmt::Display| Error::Config(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| wrong(&format!("cannot be read: {e}")))?;
    let mut given = parse(&text, Some(path))?;
    // Absolute, because the working directory may have changed when the store is opened.
    let whole = std::path::absolute(path).map_err(|e| wrong(&e))?;
    given.relative_to(whole.parent().unwrap_or(Path::new("/")))?;
    Ok(given)
}

/// Parses TOML text; `path` is its name in errors.
pub(super) fn parse(text: &str, path: Option<&Path>) -> Result<Given> {
    let file: Option<Arc<str>> = path.map(|path| path.display().to_string().into());
    let origin = |at: usize| {
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        Origin::Line { file: file.clone(), line }
    };
    // Only the message: the parser's full error quotes the line, which may contain a password.
    let table = DeTable::parse(text)
        .map_err(|e| origin(e.span().map_or(0, |span| span.start)).wrong("TOML", e.message()))?;
    let mut said: Vec<_> = table.get_ref().iter().collect();
    said.sort_by_key(|(key, _)| key.span().start);
    let (mut given, mut url) = (Given::default(), None);
    for (name, value) in said {
        let from = origin(name.span().start);
        let (name, value): (&str, _) = (name.get_ref(), value.get_ref());
        if name == keys::URL {
            let address = value.as_str().ok_or_else(|| from.wrong(name, "expected a text in quotes"))?;
            url = Some(Parts::of(address, &from)?.given()?);
            continue;
        }
        let Some(key) = Key::named(name) else {
            let known = KEYS.iter().map(|key| key.name).chain([keys::URL]);
            let table = if value.is_table() { ": keys stand at the top, there are no tables" } else { "" };
            return Err(from.wrong(name, format!("unknown key{table}{}", keys::hint(name, known))));
        };
        let text = written(key, value).ok_or_else(|| from.wrong(name, expected(key.form)))?;
        if text.is_empty() && key.name != "prefix" {
            return Err(from.wrong(name, "is empty: leave it out where there is none"));
        }
        given.say(key, text, &from)?;
    }
    // Added last, so that a duplicate error names the other key and not the address.
    url.map_or(Ok(()), |url| given.say_all(url))?;
    Ok(given)
}

/// The value as it is written in an address; `None` if it has the wrong form. A number is not accepted as text: `007`
/// or `1_000` would be changed by the conversion.
fn written(key: &Key, value: &DeValue<'_>) -> Option<String> {
    match (key.form, value) {
        (_, DeValue::String(text)) => Some(text.to_string()),
        // A duration without a unit is rejected later, by the duration parser.
        (Form::Number | Form::Time, DeValue::Integer(number)) if number.radix() == 10 => {
            Some(number.as_str().to_owned())
        }
        (Form::Flag, DeValue::Boolean(flag)) => Some(flag.to_string()),
        (Form::Nodes, DeValue::Array(nodes)) => {
            let each: Option<Vec<&str>> = nodes.iter().map(|node| node.get_ref().as_str()).collect();
            each.map(|nodes| nodes.join(","))
        }
        _ => None,
    }
}

fn expected(form: Form) -> &'static str {
    match form {
        Form::Text | Form::Secret | Form::File => "expected a text in quotes",
        Form::Nodes => "expected a list of addresses, or one text with commas between them",
        Form::Number => "expected a number",
        Form::Flag => "expected true or false",
        Form::Time => "expected a duration in quotes, such as \"30s\"",
    }
}
