//! Builds lock names from keys, byte for byte as other languages write them.

use std::fmt::{Display, Write};

use tenure_core::{Error, Name, Result};

/// A key of one part.
pub fn key_text(key: &(impl Display + ?Sized)) -> String {
    key.to_string()
}

/// A key of several parts, joined by `:`. Separators inside a part are escaped, so that (`a:b`, `c`) differs from
/// (`a`, `b:c`).
pub fn join_parts(parts: &[&dyn Display]) -> String {
    let mut key = String::new();
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            key.push(':');
        }
        let written = write!(Escaped(&mut key), "{part}");
        written.expect("writing to a string cannot fail");
    }
    key
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '%' => self.0.push_str("%25"),
                ':' => self.0.push_str("%3A"),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

/// The names for these keys, without duplicates.
pub fn lock_names<K: Display>(
    prefix: Option<&dyn Display>,
    keys: impl IntoIterator<Item = K>,
) -> Result<Vec<Name>> {
    let mut names = Vec::new();
    for key in keys {
        let name = match prefix {
            Some(prefix) => Name::new(format!("{prefix}:{key}"))?,
            None => Name::new(key.to_string())?,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Err(Error::Config(
            "the list of keys is empty: use `condition = …` for calls that need no lock".into(),
        ));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_prefix_colon_key() {
        let prefix = "ACCOUNT:DISTRIBUTEDLOCK:USER";
        let of = |keys: &[String]| lock_names(Some(&prefix), keys).unwrap();
        assert_eq!(of(&[key_text(&42)])[0].as_str(), "ACCOUNT:DISTRIBUTEDLOCK:USER:42");
        assert_eq!(of(&[key_text("a:b%c")])[0].as_str(), "ACCOUNT:DISTRIBUTEDLOCK:USER:a:b%c");
        assert_eq!(lock_names(None, ["x"]).unwrap()[0].as_str(), "x");
        assert_eq!(of(&[key_text(&2), key_text(&1), key_text(&2)]).len(), 2);
    }

    #[test]
    fn parts_are_distinguished() {
        assert_eq!(join_parts(&[&"eu", &42]), "eu:42");
        assert_eq!(join_parts(&[&"a:b", &"c"]), "a%3Ab:c");
        assert_eq!(join_parts(&[&"a", &"b:c"]), "a:b%3Ac");
        assert_eq!(join_parts(&[&"a%3Ab", &"ü"]), "a%253Ab:ü");
        assert_eq!(join_parts(&[&"", &""]), ":");
    }

    #[test]
    fn invalid_names_are_errors() {
        let none: [&str; 0] = [];
        assert!(lock_names(Some(&"p"), none).unwrap_err().to_string().contains("empty"));
        assert!(lock_names(None, [""]).unwrap_err().to_string().contains("empty"));
        assert!(lock_names(Some(&"p"), ["x".repeat(600)]).unwrap_err().to_string().contains("512"));
    }
}
