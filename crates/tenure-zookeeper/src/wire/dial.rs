//! Connects to the address of a server, and begins or resumes a session.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tenure_core::{Clock, Error, Time};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, pki_types::ServerName};

use super::jute::{In, Out, wrong};
use crate::error::SCHEME;

/// More than any list of children from a server.
const LARGEST: usize = 256 << 20;

/// A connected socket, plain or encrypted.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// One of the addresses of a server.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// `host:port`, as configured.
    pub(crate) name: String,
    pub(crate) at: SocketAddr,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.parse() == Ok(self.at) {
            true => f.write_str(&self.name),
            false => write!(f, "{} ({})", self.name, self.at),
        }
    }
}

/// The credentials of a session. The id is 0 if there is no session yet.
#[derive(Clone, Default)]
pub(crate) struct Ticket {
    pub(crate) id: i64,
    password: Vec<u8>,
    /// The timeout to request.
    wanted: Duration,
    /// The timeout that was granted.
    pub(crate) timeout: Duration,
    /// The last transaction seen: a server with an older state refuses the session.
    pub(crate) seen: i64,
}

impl Ticket {
    pub(crate) fn new(wanted: Duration) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// A ticket for a new session, which has seen nothing yet.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.wanted)
    }
}

/// A connection, and the server's answer.
pub(crate) struct Dialed {
    pub(crate) socket: Box<dyn Socket>,
    pub(crate) input: BytesMut,
    pub(crate) ticket: Ticket,
    /// When the session was requested.
    pub(crate) asked: Time,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum NoLink {
    /// Another server, or a retry, may succeed.
    Now(String),
    /// The server closed the connection instead of answering: it has no leader, or its state is older than this
    /// session has seen.
    Closed(String),
    /// The servers do not know the session.
    Expired,
    /// It cannot succeed: a certificate is not accepted.
    Never(Error),
}

/// Connects, resuming the session of `ticket` or beginning a new one.
pub(crate) async fn dial(
    server: &Address,
    tls: Option<&TlsConnector>,
    ticket: &Ticket,
    clock: &Clock,
    limit: Duration,
) -> Result<Dialed, NoLink> {
    let connecting = async {
        let mut socket = open(server, tls).await?;
        let asked = clock.now();
        socket.write_all(&hello(ticket)).await?;
        socket.flush().await?;
        let mut input = BytesMut::with_capacity(16 * 1024);
        loop {
            if let Some(frame) = next_frame(&mut input)? {
                return Ok((socket, asked, welcome(&frame, ticket)?, input));
            }
            if socket.read_buf(&mut input).await? == 0 {
                let why = "it closed the connection without an answer; has it a leader?";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
        }
    };
    match timeout(limit, connecting).await {
        Ok(Ok((socket, asked, Some(ticket), input))) => Ok(Dialed { socket, input, ticket, asked }),
        Ok(Ok(_)) => Err(NoLink::Expired),
        Ok(Err(e)) => Err(trouble(server, &e)),
        Err(_) => Err(NoLink::Now(format!("{server}: no answer within {limit:?}"))),
    }
}

async fn open(server: &Address, tls: Option<&TlsConnector>) -> io::Result<Box<dyn Socket>> {
    let stream = TcpStream::connect(server.at).await?;
    // Requests are small, and each is waited for.
    stream.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let host = server.name.rsplit_once(':').map_or(&*server.name, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(tls.connect(name, stream).await?))
}

fn hello(ticket: &Ticket) -> Vec<u8> {
    let timeout = i32::try_from(ticket.wanted.as_millis()).unwrap_or(i32::MAX);
    let (version, read_only) = (0, false);
    let password = if ticket.id == 0 { &[0; 16][..] } else { &ticket.password };
    let hello = Out::new().int(version).long(ticket.seen).int(timeout).long(ticket.id);
    hello.bytes(password).flag(read_only).frame()
}

/// Returns `None` when the session is over.
fn welcome(frame: &[u8], asked: &Ticket) -> io::Result<Option<Ticket>> {
    let mut said = In(frame);
    if said.int()? != 0 {
        return Err(wrong("another version of it"));
    }
    let (timeout, id, password) = (said.int()?, said.long()?, said.bytes()?);
    let timeout = Duration::from_millis(timeout.max(0) as u64);
    let same = asked.id == 0 || asked.id == id;
    let ticket = Ticket { id, password: password.to_vec(), timeout, wanted: asked.wanted, seen: asked.seen };
    Ok((same && id != 0 && !timeout.is_zero()).then_some(ticket))
}

/// Returns the content of the next frame, once it is complete.
pub(crate) fn next_frame(input: &mut BytesMut) -> io::Result<Option<BytesMut>> {
    let Some(length) = input.get(..4) else { return Ok(None) };
    let length = usize::try_from(In(length).int()?).ok().filter(|n| *n <= LARGEST);
    let length = length.ok_or_else(|| wrong("a frame of that length cannot be"))?;
    if input.len() < 4 + length {
        input.reserve(4 + length - input.len());
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length)))
}

/// Classifies a failed connect. Rejected certificates are permanent; ours may be rejected only after the handshake.
fn trouble(server: &Address, e: &io::Error) -> NoLink {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    use rustls::Error::{AlertReceived, InvalidCertificate};
    match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(InvalidCertificate(_)) => NoLink::Never(Error::Config(format!(
            "{SCHEME}: {server} is not trusted: {e}; is its certificate signed by the one of ca=FILE, and for this host?"
        ))),
        Some(AlertReceived(_)) => NoLink::Never(Error::Config(format!(
            "{SCHEME}: {server} refuses the encryption: {e}; does it want a certificate of ours, cert=FILE and key=FILE?"
        ))),
        _ if [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&e.kind()) => {
            NoLink::Closed(format!("{server}: {e}"))
        }
        _ => NoLink::Now(format!("{server}: {e}")),
    }
}
