//! A connected socket: TCP, Unix or TLS. And [`Wire`], a socket that one task uses alone.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::client::TlsStream;

use super::input::Input;
use super::resp::Value;

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads into `input`; returns 0 at the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, input: &mut Input) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(input.room());
        let read = match self {
            Self::Tcp(s) => Pin::new(s).poll_read(cx, &mut room),
            #[cfg(unix)]
            Self::Unix(s) => Pin::new(s).poll_read(cx, &mut room),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_read(cx, &mut room),
        };
        let n = room.filled().len();
        ready!(read)?;
        input.filled(n);
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

    /// Only TLS buffers written bytes.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tls(s) => Pin::new(s.as_mut()).poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// A socket and its input buffer, used by one task alone.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: Stream,
    pub(crate) input: Input,
}

impl Wire {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, input: Input::new() }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            at += poll_fn(|cx| self.stream.poll_write(cx, &bytes[at..])).await?;
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
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
    }

    /// Sends `requests` and reads `n` replies.
    pub(crate) async fn ask(&mut self, requests: &[u8], n: usize) -> io::Result<Vec<Value>> {
        self.write(requests).await?;
        let mut replies = Vec::with_capacity(n);
        for _ in 0..n {
            replies.push(self.read().await?);
        }
        Ok(replies)
    }
}
