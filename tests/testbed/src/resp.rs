//! A minimal Redis client of the testbed's own: no pooling, no retries, no background work.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::wait::begins;
use crate::{Error, PATIENCE, Result, Value};

/// A connection.
#[derive(Debug)]
pub struct Resp {
    stream: BufReader<Stream>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Resp {
    /// Connects to a port of 127.0.0.1.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Self::over(Stream::Tcp(stream))
    }

    /// Connects to a unix socket.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect_unix(path: &Path) -> Result<Self> {
        Self::over(Stream::Unix(UnixStream::connect(path)?))
    }

    fn over(stream: Stream) -> Result<Self> {
        let mut client = Self { stream: BufReader::new(stream) };
        client.set_timeout(PATIENCE)?;
        Ok(client)
    }

    /// Sets the read timeout; [`PATIENCE`] by default.
    ///
    /// # Errors
    /// When it is zero.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<()> {
        match self.stream.get_ref() {
            Stream::Tcp(s) => s.set_read_timeout(Some(timeout))?,
            Stream::Unix(s) => s.set_read_timeout(Some(timeout))?,
        }
        Ok(())
    }

    /// Sends a command and reads the reply.
    ///
    /// # Errors
    /// `Reply` when the reply is an error; `Io` when there is none. After the latter the connection cannot be used any
    /// more: the reply may still come.
    pub fn cmd<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value> {
        self.send(words)?;
        self.receive()
    }

    /// Sends a command.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        Ok(self.stream.get_mut().write_all(&bytes)?)
    }

    /// Reads one reply.
    ///
    /// # Errors
    /// As [`Resp::cmd`].
    pub fn receive(&mut self) -> Result<Value> {
        match Value::read(&mut self.stream)? {
            Value::Error(text) => Err(Error::Reply(text)),
            value => Ok(value),
        }
    }

    /// Reads one reply, if one starts to arrive in time.
    ///
    /// # Errors
    /// As [`Resp::cmd`].
    pub fn receive_within(&mut self, within: Duration) -> Result<Option<Value>> {
        // `fill_buf` consumes nothing, so a timeout leaves the stream intact.
        let begun = begins(within, |left| {
            self.set_timeout(left).map_err(io::Error::other)?;
            self.stream.fill_buf().map(drop)
        });
        self.set_timeout(PATIENCE)?;
        match begun {
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(None),
            Err(e) => Err(e.into()),
            Ok(()) => self.receive().map(Some),
        }
    }

    /// Returns a section of INFO, such as `replication`.
    ///
    /// # Errors
    /// As [`Resp::cmd`].
    pub fn info(&mut self, section: &str) -> Result<BTreeMap<String, String>> {
        Ok(fields(&self.cmd(&["INFO", section])?.text()))
    }
}

/// Parses lines `name:value`, as in INFO and CLUSTER INFO.
pub(crate) fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.read(buffer),
            Self::Unix(s) => s.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.write(bytes),
            Self::Unix(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.flush(),
            Self::Unix(s) => s.flush(),
        }
    }
}
