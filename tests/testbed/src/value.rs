//! Replies of a Redis server, in RESP2.

use std::io::{self, BufRead};

use crate::{Error, Result};

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A null bulk or a null array.
    Nil,
    /// A number.
    Int(i64),
    /// A status reply, such as `OK`.
    Status(String),
    /// A string.
    Bulk(Vec<u8>),
    /// Several values.
    Array(Vec<Value>),
    /// An error inside an array; a top-level one is an [`Error::Reply`].
    Error(String),
}

impl Value {
    /// The reply as text: strings and numbers as they are, nil as the empty string, arrays with one item per line.
    pub fn text(&self) -> String {
        match self {
            Self::Nil => String::new(),
            Self::Int(n) => n.to_string(),
            Self::Status(text) | Self::Error(text) => text.clone(),
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Array(items) => items.iter().map(Self::text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The reply as a number, also if the server sent it as text.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Status(_) | Self::Bulk(_) => self.text().parse().ok(),
            _ => None,
        }
    }

    /// The items of an array; empty for anything else.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The items of an array as text.
    pub fn texts(&self) -> Vec<String> {
        self.items().iter().map(Self::text).collect()
    }

    /// Whether it is [`Value::Nil`].
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// Reads one reply.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Self> {
        let mut line = Vec::new();
        from.read_until(b'\n', &mut line)?;
        let Some((&kind, rest)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended").into());
        };
        let text = String::from_utf8_lossy(rest).into_owned();
        let number = || {
            let number = text.parse::<i64>();
            number.map_err(|_| Error::failed(format!("no number in a reply: {text:?}")))
        };
        Ok(match kind {
            b'+' => Self::Status(text),
            b'-' => Self::Error(text),
            b':' => Self::Int(number()?),
            b'$' => match usize::try_from(number()?) {
                Err(_) => Self::Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    from.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Self::Bulk(bytes)
                }
            },
            b'*' => match usize::try_from(number()?) {
                Err(_) => Self::Nil,
                Ok(length) => Self::Array((0..length).map(|_| Self::read(from)).collect::<Result<_>>()?),
            },
            _ => {
                return Err(Error::failed(format!(
                    "no reply of RESP2: {:?}",
                    String::from_utf8_lossy(&line)
                )));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &str) -> Result<Value> {
        Value::read(&mut bytes.as_bytes())
    }

    #[test]
    fn replies_of_all_kinds() {
        let bulk = |text: &str| Value::Bulk(text.into());
        assert_eq!(read("+OK\r\n").unwrap(), Value::Status("OK".into()));
        assert_eq!(read(":-3\r\n").unwrap().int(), Some(-3));
        assert_eq!(read("$4\r\na\r\nb\r\n").unwrap(), bulk("a\r\nb"));
        assert_eq!(read("$-1\r\n").unwrap(), Value::Nil);
        assert_eq!(read("*-1\r\n").unwrap(), Value::Nil);
        let nested = read("*2\r\n*1\r\n$1\r\n7\r\n-ERR no\r\n").unwrap();
        assert_eq!(nested, Value::Array(vec![Value::Array(vec![bulk("7")]), Value::Error("ERR no".into())]));
        assert_eq!(nested.items()[0].items()[0].int(), Some(7));
    }

    #[test]
    fn half_a_reply_is_an_error() {
        for half in ["", "+OK", "$4\r\nab", "*2\r\n:1\r\n"] {
            assert!(matches!(read(half), Err(Error::Io(_))), "{half:?}");
        }
    }
}
