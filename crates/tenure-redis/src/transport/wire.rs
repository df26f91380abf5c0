//! The wire: RESP2 requests and replies, and the socket (TCP, Unix or TLS) that carries them.
//!
//! A reply may arrive in any number of pieces; each part is parsed once, when it is complete. Announced lengths allocate
//! nothing: memory grows with the bytes received, up to a limit. A faulty server, or a value stored by another program,
//! must not exhaust the memory of the process.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::client::TlsStream;

use super::failure::ErrorReply;

/// A reply, or a part of one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    Simple(String),
    Array(Vec<Value>),
    Error(ErrorReply),
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

/// Starts a request of `words` words; write each with [`write_bulk`].
pub(crate) fn write_array_header(out: &mut Vec<u8>, words: usize) {
    number(out, b'*', words);
}

pub(crate) fn write_bulk(out: &mut Vec<u8>, word: &[u8]) {
    number(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Writes a word that consists of these parts.
pub(crate) fn write_bulk_of(out: &mut Vec<u8>, parts: [&str; 3]) {
    number(out, b'$', parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    out.extend_from_slice(b"\r\n");
}

/// Writes a short word, such as a number or an id, formatted on the stack.
pub(crate) fn write_short(out: &mut Vec<u8>, word: fmt::Arguments<'_>) {
    let mut text = [0; 64];
    let mut rest = &mut text[..];
    let fits = io::Write::write_fmt(&mut rest, word).is_ok();
    debug_assert!(fits, "{word} is too long");
    let length = 64 - rest.len();
    write_bulk(out, text.get(..length).unwrap_or_default());
}

/// The first word in what [`write_bulk`] has written, and what follows it.
pub(crate) fn first_bulk(encoded: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = encoded.iter().position(|b| *b == b'\r')?;
    let length = usize::try_from(integer(encoded.get(1..line)?).ok()?).ok()?;
    encoded.split_at_checked(line + 2 + length + 2)
}

pub(crate) fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    write_array_header(out, words.len());
    words.iter().for_each(|w| write_bulk(out, w));
}

fn number(out: &mut Vec<u8>, mark: u8, n: usize) {
    out.push(mark);
    decimal(out, n);
    out.extend_from_slice(b"\r\n");
}

#[expect(clippy::indexing_slicing, reason = "a number has at most 20 digits")]
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

/// The input is not RESP, or exceeds a limit: the connection cannot be used any more.
#[derive(PartialEq, Debug)]
pub(crate) struct ProtocolError(pub(crate) &'static str);

/// The most bytes of one reply.
pub(super) const MAX_REPLY: usize = 64 << 20;
/// The most values in one reply, including nested ones: a value takes more memory than its bytes on the wire.
const MAX_VALUES: usize = 1 << 20;
/// How deep arrays may be nested.
const MAX_DEPTH: usize = 32;
/// The longest line: a status, an error, a number or a length.
const MAX_LINE: usize = 64 << 10;

const TOO_LARGE: ProtocolError = ProtocolError("a reply of more than 64 MiB");
const TOO_MANY: ProtocolError = ProtocolError("a reply of more than 1048576 values");
const TOO_DEEP: ProtocolError = ProtocolError("a reply with arrays nested more than 32 deep");
const TOO_LONG: ProtocolError = ProtocolError("a reply with a line of more than 64 KiB");

#[derive(Debug)]
pub(crate) struct ReplyBuffer {
    /// Fully initialised; `start..end` is in use.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Arrays that are incomplete, each inside the one before.
    open: Vec<OpenArray>,
    /// The number of parsed bytes of the current reply.
    parsed: usize,
    /// The number of values in its arrays, including those only announced.
    values: usize,
}

/// An array with items still to come.
#[derive(Debug)]
struct OpenArray {
    items: Vec<Value>,
    left: usize,
}

/// Arrays of so many items have room for them from the beginning.
const SMALL_ARRAY: usize = 64;
const INITIAL_CAPACITY: usize = 4 << 10;
/// The buffer size that is kept after a longer reply.
const KEPT_CAPACITY: usize = 64 << 10;

impl ReplyBuffer {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; INITIAL_CAPACITY], start: 0, end: 0, open: Vec::new(), parsed: 0, values: 0 }
    }

    /// Space to read into; [`ReplyBuffer::advance`] records how much was read.
    pub(crate) fn spare(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.bytes.truncate(KEPT_CAPACITY);
            self.bytes.shrink_to(KEPT_CAPACITY);
        }
        if self.end == self.bytes.len() {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                self.bytes.resize((self.bytes.len() * 2).min(MAX_REPLY), 0);
            }
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    pub(crate) fn advance(&mut self, n: usize) {
        self.end += n;
    }

    /// The next reply, once it is complete.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, ProtocolError> {
        loop {
            let left = MAX_REPLY - self.parsed;
            let Some((part, length)) = part(self.bytes.get(self.start..self.end).unwrap_or_default(), left)?
            else {
                return Ok(None);
            };
            self.start += length;
            self.parsed += length;
            let value = match part {
                Part::Whole(value) => value,
                Part::Array(0) => Value::Array(Vec::new()),
                Part::Array(left) if left > MAX_VALUES - self.values => return Err(TOO_MANY),
                Part::Array(_) if self.open.len() == MAX_DEPTH => return Err(TOO_DEEP),
                Part::Array(left) => {
                    self.values += left;
                    let room = if left <= SMALL_ARRAY { left } else { 0 };
                    self.open.push(OpenArray { items: Vec::with_capacity(room), left });
                    continue;
                }
            };
            if let Some(reply) = self.complete(value) {
                (self.parsed, self.values) = (0, 0);
                return Ok(Some(reply));
            }
        }
    }

    /// Adds a value to the innermost open array. Returns the whole reply if that completes it.
    fn complete(&mut self, mut value: Value) -> Option<Value> {
        loop {
            let Some(array) = self.open.last_mut() else { return Some(value) };
            array.items.push(value);
            array.left -= 1;
            if array.left > 0 {
                return None;
            }
            value = Value::Array(self.open.pop()?.items);
        }
    }
}

/// A value, or the header of an array with this many items.
enum Part {
    Whole(Value),
    Array(usize),
}

/// Parses the first part of `bytes`, of at most `most` bytes. Returns it and its length, or `None` if it is incomplete.
fn part(bytes: &[u8], most: usize) -> Result<Option<(Part, usize)>, ProtocolError> {
    let Some(line) = line(bytes)? else {
        return if bytes.len() < most { Ok(None) } else { Err(TOO_LARGE) };
    };
    let mut length = line.len() + 2;
    let Some((mark, line)) = line.split_first() else { return Err(ProtocolError("an empty line")) };
    let part = match mark {
        b'+' => Part::Whole(Value::Simple(String::from_utf8_lossy(line).into_owned())),
        b'-' => Part::Whole(Value::Error(ErrorReply::new(&String::from_utf8_lossy(line)))),
        b':' => Part::Whole(Value::Int(integer(line)?)),
        b'$' => match parse_length(line)? {
            None => Part::Whole(Value::Nil),
            Some(size) => {
                if size > most.saturating_sub(length + 2) {
                    return Err(TOO_LARGE);
                }
                let Some(bulk) = bytes.get(length..length + size + 2) else { return Ok(None) };
                let Some(bulk) = bulk.strip_suffix(b"\r\n") else {
                    return Err(ProtocolError("a bulk string is not terminated by CRLF"));
                };
                length += size + 2;
                Part::Whole(Value::Bulk(bulk.to_vec()))
            }
        },
        b'*' => parse_length(line)?.map_or(Part::Whole(Value::Nil), Part::Array),
        _ => return Err(ProtocolError("not a reply of a Redis server")),
    };
    if length > most {
        return Err(TOO_LARGE);
    }
    Ok(Some((part, length)))
}

/// The first line, without its CRLF.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, ProtocolError> {
    let Some(end) = bytes.iter().take(MAX_LINE).position(|b| *b == b'\r') else {
        return if bytes.len() < MAX_LINE { Ok(None) } else { Err(TOO_LONG) };
    };
    match bytes.get(end + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(bytes.get(..end)),
        Some(_) => Err(ProtocolError("a line is not terminated by CRLF")),
    }
}

fn integer(line: &[u8]) -> Result<i64, ProtocolError> {
    std::str::from_utf8(line).ok().and_then(|l| l.parse().ok()).ok_or(ProtocolError("not a number"))
}

/// A length; `None` for nil.
fn parse_length(line: &[u8]) -> Result<Option<usize>, ProtocolError> {
    match integer(line)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| ProtocolError("a negative length")),
    }
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads into `input`; returns 0 at the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut ReplyBuffer,
    ) -> Poll<io::Result<usize>> {
        let mut spare = ReadBuf::new(input.spare());
        let read = match self {
            Self::Tcp(s) => Pin::new(s).poll_read(cx, &mut spare),
            #[cfg(unix)]
            Self::Unix(s) => Pin::new(s).poll_read(cx, &mut spare),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_read(cx, &mut spare),
        };
        let n = spare.filled().len();
        ready!(read)?;
        input.advance(n);
        Poll::Ready(Ok(n))
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(s) => Pin::new(s).poll_write(cx, bytes),
            #[cfg(unix)]
            Self::Unix(s) => Pin::new(s).poll_write(cx, bytes),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_write(cx, bytes),
        }
    }

    /// Writes without waiting, and without registering a task: whoever waits to write still does.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.try_write(bytes),
            #[cfg(unix)]
            Self::Unix(s) => s.try_write(bytes),
            Self::Tls(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Only TLS buffers written bytes.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tls(s) => Pin::new(s.as_mut()).poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }
}

pub(super) fn closed_by_server() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")
}

/// A socket and its input buffer, used by one task alone.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) stream: Stream,
    pub(crate) input: ReplyBuffer,
}

impl Framed {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, input: ReplyBuffer::new() }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = poll_fn(|cx| self.stream.poll_write(cx, rest)).await?;
            rest = rest.get(n..).unwrap_or_default();
        }
        poll_fn(|cx| self.stream.poll_flush(cx)).await
    }

    /// The next value. Cancel safe.
    pub(crate) async fn read(&mut self) -> io::Result<Value> {
        loop {
            let parsed = self.input.next();
            if let Some(value) = parsed.map_err(|g| io::Error::new(io::ErrorKind::InvalidData, g.0))? {
                return Ok(value);
            }
            if poll_fn(|cx| self.stream.poll_read(cx, &mut self.input)).await? == 0 {
                return Err(closed_by_server());
            }
        }
    }

    /// Sends `requests` and reads `n` replies.
    pub(crate) async fn round_trip(&mut self, requests: &[u8], n: usize) -> io::Result<Vec<Value>> {
        self.write(requests).await?;
        let mut replies = Vec::with_capacity(n);
        for _ in 0..n {
            replies.push(self.read().await?);
        }
        Ok(replies)
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
            Value::Bulk(bytes) => write_bulk(out, bytes),
            Value::Simple(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
            Value::Error(reply) => out.extend_from_slice(format!("-{}\r\n", reply.message).as_bytes()),
            Value::Array(items) => {
                write_array_header(out, items.len());
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
            "[A-Z]{2,8} [a-z ]{0,12}".prop_map(|line| Value::Error(ErrorReply::new(&line))),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| prop::collection::vec(inner, 0..5).prop_map(Value::Array))
    }

    fn put(input: &mut ReplyBuffer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let spare = input.spare();
            let n = spare.len().min(bytes.len());
            spare[..n].copy_from_slice(&bytes[..n]);
            input.advance(n);
            bytes = &bytes[n..];
        }
    }

    /// The first reply in `bytes`.
    fn parse(bytes: &[u8]) -> Result<Option<Value>, ProtocolError> {
        let mut input = ReplyBuffer::new();
        put(&mut input, bytes);
        input.next()
    }

    /// The error for a reply that begins like this and repeats the same bytes forever, and how many bytes were read by
    /// then.
    fn endless(head: &[u8], again: &[u8]) -> (ProtocolError, usize) {
        let (mut input, mut sent) = (ReplyBuffer::new(), head.len());
        put(&mut input, head);
        let again = again.repeat(INITIAL_CAPACITY / again.len());
        loop {
            match input.next() {
                Ok(None) => {}
                Ok(Some(value)) => panic!("{value:?}"),
                Err(error) => return (error, sent),
            }
            assert!(sent < 2 * MAX_REPLY, "it takes whatever comes");
            put(&mut input, &again);
            sent += again.len();
        }
    }

    proptest! {
        #[test]
        fn values_come_in_any_pieces(sent in prop::collection::vec(values(), 1..6), cuts in prop::collection::vec(1..50_usize, 1..40)) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|v| encode(v, &mut bytes));
            let (mut input, mut got, mut at, mut cuts) = (ReplyBuffer::new(), Vec::new(), 0, cuts.iter().cycle());
            while at < bytes.len() {
                let n = (*cuts.next().unwrap()).min(bytes.len() - at);
                put(&mut input, &bytes[at..at + n]);
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
            Value::Array(vec![Value::Int(-7), Value::Error(ErrorReply::new("ERR no"))]),
            Value::Array(vec![]),
        ]);
        let mut bytes = Vec::new();
        encode(&value, &mut bytes);
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(parse(&bytes), Ok(Some(value)));
    }

    #[test]
    fn garbage_is_noticed() {
        for bytes in ["HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", "$1\r\nabc\r\n", "+a\rb\n", "\r\n", "*-3\r\n"]
        {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn announced_lengths_take_no_memory_and_too_large_ones_are_refused() {
        assert_eq!(parse(b"*1000000\r\n"), Ok(None));
        assert_eq!(parse(b"*1000000000\r\n"), Err(TOO_MANY));
        assert_eq!(parse(b"*1000000\r\n*1000000\r\n"), Err(TOO_MANY), "all values of a reply together");
        assert_eq!(parse(b"$536870912\r\n"), Err(TOO_LARGE));
        assert_eq!(parse(b"$9223372036854775807\r\n"), Err(TOO_LARGE));
        assert_eq!(parse("*1\r\n".repeat(40).as_bytes()), Err(TOO_DEEP));
        let mut input = ReplyBuffer::new();
        put(&mut input, b"*1000000\r\n$60000000\r\nx");
        assert_eq!(input.next(), Ok(None));
        assert!(input.bytes.len() <= INITIAL_CAPACITY && input.open[0].items.capacity() == 0);
    }

    #[test]
    fn a_reply_without_end_is_given_up() {
        let most = MAX_REPLY + 2 * INITIAL_CAPACITY;
        for (head, again, why) in [
            (&b"*1000000\r\n"[..], format!("$1000\r\n{}\r\n", "x".repeat(1000)), TOO_LARGE),
            (b"", "*9\r\n:1\r\n:1\r\n".repeat(10), TOO_DEEP),
            (b"+", "x".into(), TOO_LONG),
        ] {
            let (error, sent) = endless(head, again.as_bytes());
            assert_eq!(error, why);
            assert!(sent <= most, "{sent} bytes");
        }
    }

    #[test]
    fn a_long_reply_fits_and_its_room_is_given_back() {
        let mut bytes = Vec::new();
        write_bulk(&mut bytes, &[b'x'; 1_000_000]);
        let mut input = ReplyBuffer::new();
        put(&mut input, &bytes);
        assert_eq!(input.next(), Ok(Some(Value::Bulk(vec![b'x'; 1_000_000]))));
        assert!(input.spare().len() <= KEPT_CAPACITY && input.bytes.capacity() <= KEPT_CAPACITY);
    }
}
