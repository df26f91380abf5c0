//! The wire format (RESP2). Replies are parsed in `input`.

use super::failure::Reply;

/// A reply, or a part of one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    Simple(String),
    Array(Vec<Value>),
    Error(Reply),
}

impl Value {
    /// The bytes of a bulk or simple string.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => Some(bytes),
            Self::Simple(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    pub(crate) fn array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// Starts a request of `words` words; write each with [`word`].
pub(crate) fn head(out: &mut Vec<u8>, words: usize) {
    number(out, b'*', words);
}

pub(crate) fn word(out: &mut Vec<u8>, word: &[u8]) {
    number(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn request(out: &mut Vec<u8>, words: &[&[u8]]) {
    head(out, words.len());
    words.iter().for_each(|w| word(out, w));
}

fn number(out: &mut Vec<u8>, mark: u8, n: usize) {
    out.push(mark);
    decimal(out, n);
    out.extend_from_slice(b"\r\n");
}

fn decimal(out: &mut Vec<u8>, mut n: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
