//! The wire format (RESP2): words out, values in. A reply may come in any pieces.

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
    /// The words of a bulk or simple string.
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

/// Begins a request of `words` words; each follows by [`word`].
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

/// What came is not this format: the connection is of no use any more.
#[derive(PartialEq, Debug)]
pub(crate) struct Garbled(pub(crate) &'static str);

/// As the server's own limit for what it sends.
const LONGEST_BULK: usize = 512 << 20;
/// Deeper than any reply of a server; a bound for the stack.
const DEEPEST: usize = 32;

/// The first value in `bytes` and its length, or `None` if it is not all there yet.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>, Garbled> {
    let mut cursor = Cursor { bytes, at: 0 };
    Ok(cursor.value(0)?.map(|value| (value, cursor.at)))
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn line(&mut self) -> Result<Option<&'a [u8]>, Garbled> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|b| *b == b'\r') else { return Ok(None) };
        match rest.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                self.at += end + 2;
                Ok(Some(&rest[..end]))
            }
            Some(_) => Err(Garbled("a line does not end as it should")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Option<Value>, Garbled> {
        let Some(line) = self.line()? else { return Ok(None) };
        let Some((mark, line)) = line.split_first() else { return Err(Garbled("an empty line")) };
        Ok(Some(match mark {
            b'+' => Value::Simple(String::from_utf8_lossy(line).into_owned()),
            b'-' => Value::Error(Reply::new(&String::from_utf8_lossy(line))),
            b':' => Value::Int(integer(line)?),
            b'$' => match integer(line)? {
                -1 => Value::Nil,
                len => {
                    let len = usize::try_from(len).map_err(|_| Garbled("a negative length"))?;
                    if len > LONGEST_BULK {
                        return Err(Garbled("a string longer than any server sends"));
                    }
                    let Some(bulk) = self.bytes.get(self.at..self.at + len + 2) else { return Ok(None) };
                    let Some(bulk) = bulk.strip_suffix(b"\r\n") else {
                        return Err(Garbled("a string does not end where it should"));
                    };
                    self.at += len + 2;
                    Value::Bulk(bulk.to_vec())
                }
            },
            b'*' => match integer(line)? {
                -1 => Value::Nil,
                len => {
                    let len = usize::try_from(len).map_err(|_| Garbled("a negative length"))?;
                    if depth == DEEPEST {
                        return Err(Garbled("arrays nested too deep"));
                    }
                    // The server's word for the length is not worth memory before the items are there.
                    let mut items = Vec::with_capacity(len.min(64));
                    for _ in 0..len {
                        let Some(item) = self.value(depth + 1)? else { return Ok(None) };
                        items.push(item);
                    }
                    Value::Array(items)
                }
            },
            _ => return Err(Garbled("not a reply of a Redis server")),
        }))
    }
}

fn integer(line: &[u8]) -> Result<i64, Garbled> {
    std::str::from_utf8(line).ok().and_then(|l| l.parse().ok()).ok_or(Garbled("not a number"))
}

/// Bytes received and not parsed yet.
#[derive(Debug)]
pub(crate) struct Input {
    /// Initialised throughout; in use from `start` to `end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

const SMALL: usize = 4 << 10;

impl Input {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; SMALL], start: 0, end: 0 }
    }

    /// Room to read into; [`Input::filled`] says how much was.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                // Doubling, so that parsing a long reply again and again costs no more than its length a few times.
                self.bytes.resize(self.bytes.len() * 2, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    pub(crate) fn filled(&mut self, n: usize) {
        self.end += n;
    }

    pub(crate) fn next(&mut self) -> Result<Option<Value>, Garbled> {
        if self.start == self.end {
            return Ok(None);
        }
        let parsed = parse(&self.bytes[self.start..self.end])?;
        Ok(parsed.map(|(value, used)| {
            self.start += used;
            value
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Nil => out.extend_from_slice(b"$-1\r\n"),
            Value::Int(n) => out.extend_from_slice(format!(":{n}\r\n").as_bytes()),
            Value::Bulk(bytes) => word(out, bytes),
            Value::Simple(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
            Value::Error(reply) => out.extend_from_slice(format!("-{}\r\n", reply.message).as_bytes()),
            Value::Array(items) => {
                head(out, items.len());
                items.iter().for_each(|item| encode(item, out));
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bulk),
            "[a-z \\-:$*]{0,12}".prop_map(Value::Simple),
            "[A-Z]{2,8} [a-z ]{0,12}".prop_map(|line| Value::Error(Reply::new(&line))),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| prop::collection::vec(inner, 0..5).prop_map(Value::Array))
    }

    proptest! {
        #[test]
        fn values_come_in_any_pieces(sent in prop::collection::vec(values(), 1..6), cuts in prop::collection::vec(1..50_usize, 1..40)) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|v| encode(v, &mut bytes));
            let (mut input, mut got, mut at, mut cuts) = (Input::new(), Vec::new(), 0, cuts.iter().cycle());
            while at < bytes.len() {
                let n = (*cuts.next().unwrap()).min(bytes.len() - at);
                input.room()[..n].copy_from_slice(&bytes[at..at + n]);
                input.filled(n);
                at += n;
                while let Some(value) = input.next().unwrap() {
                    got.push(value);
                }
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop::sample::select(b"*$:+-1209\r\nab".to_vec()), 0..60)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn cut_at_every_byte() {
        let value = Value::Array(vec![
            Value::Nil,
            Value::Bulk(b"a\r\nb".to_vec()),
            Value::Array(vec![Value::Int(-7), Value::Error(Reply::new("ERR no"))]),
        ]);
        let mut bytes = Vec::new();
        encode(&value, &mut bytes);
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(parse(&bytes), Ok(Some((value, bytes.len()))));
    }

    #[test]
    fn garbage_is_noticed() {
        for bytes in ["HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "$1\r\nabc\r\n", "+a\rb\n", "\r\n", "*-3\r\n"]
        {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
        assert!(parse("*1\r\n".repeat(40).as_bytes()).is_err());
        assert_eq!(parse(b"*1000000000\r\n"), Ok(None), "no memory for what is only announced");
    }

    #[test]
    fn a_long_reply_fits() {
        let mut bytes = Vec::new();
        word(&mut bytes, &[b'x'; 100_000]);
        let (mut input, mut at) = (Input::new(), 0);
        let value = loop {
            let room = input.room();
            let n = room.len().min(bytes.len() - at);
            room[..n].copy_from_slice(&bytes[at..at + n]);
            input.filled(n);
            at += n;
            if let Some(value) = input.next().unwrap() {
                break value;
            }
        };
        assert_eq!(value, Value::Bulk(vec![b'x'; 100_000]));
    }
}
