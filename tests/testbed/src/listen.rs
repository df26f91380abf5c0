//! Observes a Redis server: the commands it executes (MONITOR) and the messages it publishes (PSUBSCRIBE). Both can be
//! drained: return all that happened before the call, without sleeping.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::{Error, Resp, Result, Value};

/// A command that the server has executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// When, in seconds since 1970.
    pub at: f64,
    /// The number of the database.
    pub database: u32,
    /// The address of the client, or `lua` for a command of a script.
    pub from: String,
    /// The command and its arguments; invalid UTF-8 is replaced.
    pub words: Vec<String>,
}

impl Seen {
    /// The name of the command, in capitals.
    pub fn name(&self) -> String {
        self.words.first().map(|w| w.to_ascii_uppercase()).unwrap_or_default()
    }

    /// Whether a script executed it.
    pub fn is_in_script(&self) -> bool {
        self.from == "lua"
    }

    /// Parses a line `1700000000.123456 [0 127.0.0.1:4711] "SET" "a" "b"`.
    fn parse(line: &str) -> Option<Self> {
        let (at, rest) = line.split_once(" [")?;
        let (who, words) = rest.split_once("] ")?;
        let (database, from) = who.split_once(' ')?;
        Some(Self {
            at: at.parse().ok()?,
            database: database.parse().ok()?,
            from: from.to_owned(),
            words: words_of(words)?,
        })
    }
}

/// Splits `"SET" "a\x00\"b"` into words and unescapes them. Valkey 8.1 leaves quotes inside a word as they are, so a word
/// ends with a quote before a space.
fn words_of(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' => continue,
            b'"' => {}
            _ => return None,
        }
        let mut word = Vec::new();
        loop {
            match bytes.next()? {
                b'"' if bytes.peek().is_none_or(|next| *next == b' ') => break,
                b'\\' => word.push(match bytes.next()? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let digits = [bytes.next()?, bytes.next()?];
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                    }
                    other => other,
                }),
                other => word.push(other),
            }
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

/// All commands that a server executes, in order.
#[derive(Debug)]
pub struct Monitor {
    listener: Resp,
    asker: Resp,
    marks: u64,
}

impl Monitor {
    /// Uses two connections to one server: one to listen, one to mark where a drain ends.
    pub(crate) fn over(mut listener: Resp, asker: Resp) -> Result<Self> {
        listener.cmd(&["MONITOR"])?;
        Ok(Self { listener, asker, marks: 0 })
    }

    /// Returns all commands executed since the last call, or since the start.
    ///
    /// # Errors
    /// When a connection is gone.
    pub fn drain(&mut self) -> Result<Vec<Seen>> {
        self.marks += 1;
        // A text that no command under test contains, nor the marks of other monitors.
        let mark = format!("testbed-mark-{}-{:016x}", self.marks, fastrand::u64(..));
        self.asker.cmd(&["ECHO", &mark])?;
        let mut seen = Vec::new();
        loop {
            let line = self.listener.receive()?.text();
            let command = Seen::parse(&line).ok_or_else(|| Error::failed(format!("no command: {line}")))?;
            match command.words.get(1) {
                Some(word) if *word == mark => return Ok(seen),
                Some(word) if word.starts_with("testbed-mark-") => {}
                _ => seen.push(command),
            }
        }
    }
}

/// A pub/sub message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The pattern that it matched.
    pub pattern: String,
    /// The channel.
    pub channel: String,
    /// The content.
    pub payload: Vec<u8>,
}

impl Message {
    /// The content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.payload).into_owned()
    }

    fn of(value: &Value) -> Option<Self> {
        match value.items() {
            [kind, pattern, channel, Value::Bulk(payload)] if kind.text() == "pmessage" => {
                Some(Self { pattern: pattern.text(), channel: channel.text(), payload: payload.clone() })
            }
            _ => None,
        }
    }
}

/// Messages of the channels that match the patterns.
#[derive(Debug)]
pub struct Subscription {
    client: Resp,
    ready: VecDeque<Message>,
}

impl Subscription {
    /// Subscribes; the subscription is active when this returns.
    pub(crate) fn over(mut client: Resp, patterns: &[&str]) -> Result<Self> {
        let words: Vec<&str> = std::iter::once("PSUBSCRIBE").chain(patterns.iter().copied()).collect();
        client.send(&words)?;
        let mut subscription = Self { client, ready: VecDeque::new() };
        let mut missing = patterns.len();
        while missing > 0 {
            let value = subscription.client.receive()?;
            match Message::of(&value) {
                Some(message) => subscription.ready.push_back(message),
                None => missing -= 1,
            }
        }
        Ok(subscription)
    }

    /// Returns the next message, or `None` if none arrives in time.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn next_within(&mut self, within: Duration) -> Result<Option<Message>> {
        let end = Instant::now() + within;
        if let Some(message) = self.ready.pop_front() {
            return Ok(Some(message));
        }
        loop {
            let Some(value) = self.client.receive_within(end.saturating_duration_since(Instant::now()))?
            else {
                return Ok(None);
            };
            if let Some(message) = Message::of(&value) {
                return Ok(Some(message));
            }
        }
    }

    /// Returns all messages published since the last call.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn drain(&mut self) -> Result<Vec<Message>> {
        // The reply is queued behind the messages.
        self.client.send(&["PING"])?;
        loop {
            let value = self.client.receive()?;
            match Message::of(&value) {
                Some(message) => self.ready.push_back(message),
                None => return Ok(self.ready.drain(..).collect()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_monitor() {
        let seen =
            Seen::parse(r#"1700000000.123456 [3 127.0.0.1:4711] "set" "a b\"\\" "\x00\n]" """#).unwrap();
        assert_eq!((seen.database, seen.from.as_str()), (3, "127.0.0.1:4711"));
        assert_eq!(seen.words, ["set", "a b\"\\", "\0\n]", ""]);
        assert_eq!(seen.name(), "SET");
        let inside = Seen::parse(r#"1700000000.123456 [0 lua] "get" "a""#).unwrap();
        assert!(inside.is_in_script() && !seen.is_in_script());
        let of_valkey = Seen::parse(r#"1700000000.123456 [0 lua] "set" "{"k":"lock"}" "x\\""#).unwrap();
        assert_eq!(of_valkey.words, ["set", r#"{"k":"lock"}"#, r"x\"]);
        assert_eq!(Seen::parse("OK"), None);
    }
}
