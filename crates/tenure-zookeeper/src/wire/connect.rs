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

use super::jute::{Decoder, Encoder, protocol_error};
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
pub(crate) struct SessionCredentials {
    pub(crate) id: i64,
    password: Vec<u8>,
    /// The timeout to request.
    requested_timeout: Duration,
    /// The timeout that was granted.
    pub(crate) timeout: Duration,
    /// The last transaction seen: a server with an older state refuses the session.
    pub(crate) last_zxid: i64,
}

impl SessionCredentials {
    pub(crate) fn new(requested_timeout: Duration) -> Self {
        Self { requested_timeout, ..Self::default() }
    }

    /// Credentials for a new session.
    pub(crate) fn for_new_session(&self) -> Self {
        Self::new(self.requested_timeout)
    }
}

/// A connection, and the server's answer.
pub(crate) struct Connection {
    pub(crate) socket: Box<dyn Socket>,
    pub(crate) input: BytesMut,
    pub(crate) credentials: SessionCredentials,
    /// When the session was requested.
    pub(crate) requested_at: Time,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// Another server, or a retry, may succeed.
    Retryable(String),
    /// The server closed the connection instead of answering: it has no leader, or its state is older than this
    /// session has seen.
    ClosedByServer(String),
    /// The servers do not know the session.
    SessionExpired,
    /// It cannot succeed: a certificate is not accepted.
    Permanent(Error),
}

/// Connects, resuming the session of `credentials` or beginning a new one.
pub(crate) async fn connect(
    server: &Address,
    tls: Option<&TlsConnector>,
    credentials: &SessionCredentials,
    clock: &Clock,
    limit: Duration,
) -> Result<Connection, ConnectError> {
    let connecting = async {
        let mut socket = open(server, tls).await?;
        let requested_at = clock.now();
        socket.write_all(&connect_request(credentials)).await?;
        socket.flush().await?;
        let mut input = BytesMut::with_capacity(16 * 1024);
        loop {
            if let Some(frame) = next_frame(&mut input)? {
                return Ok((socket, requested_at, parse_connect_response(&frame, credentials)?, input));
            }
            if socket.read_buf(&mut input).await? == 0 {
                let why = "the server closed the connection without an answer; it may have no leader";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
        }
    };
    match timeout(limit, connecting).await {
        Ok(Ok((socket, requested_at, Some(credentials), input))) => {
            Ok(Connection { socket, input, credentials, requested_at })
        }
        Ok(Ok(_)) => Err(ConnectError::SessionExpired),
        Ok(Err(e)) => Err(classify_error(server, &e)),
        Err(_) => Err(ConnectError::Retryable(format!("{server}: no answer within {limit:?}"))),
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

fn connect_request(credentials: &SessionCredentials) -> Vec<u8> {
    let timeout = i32::try_from(credentials.requested_timeout.as_millis()).unwrap_or(i32::MAX);
    let (version, read_only) = (0, false);
    let password = if credentials.id == 0 { &[0; 16][..] } else { &credentials.password };
    let request = Encoder::new().int(version).long(credentials.last_zxid).int(timeout).long(credentials.id);
    request.bytes(password).boolean(read_only).frame()
}

/// Returns `None` when the session is over.
fn parse_connect_response(
    frame: &[u8],
    requested: &SessionCredentials,
) -> io::Result<Option<SessionCredentials>> {
    let mut response = Decoder(frame);
    if response.int()? != 0 {
        return Err(protocol_error("another protocol version"));
    }
    let (timeout, id, password) = (response.int()?, response.long()?, response.bytes()?);
    let timeout = Duration::from_millis(timeout.max(0) as u64);
    let same = requested.id == 0 || requested.id == id;
    let credentials = SessionCredentials {
        id,
        password: password.to_vec(),
        timeout,
        requested_timeout: requested.requested_timeout,
        last_zxid: requested.last_zxid,
    };
    Ok((same && id != 0 && !timeout.is_zero()).then_some(credentials))
}

/// Returns the content of the next frame, once it is complete.
pub(crate) fn next_frame(input: &mut BytesMut) -> io::Result<Option<BytesMut>> {
    let Some(length) = input.get(..4) else { return Ok(None) };
    let length = usize::try_from(Decoder(length).int()?).ok().filter(|n| *n <= LARGEST);
    let length = length.ok_or_else(|| protocol_error("the length of a frame is invalid"))?;
    if input.len() < 4 + length {
        input.reserve(4 + length - input.len());
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length)))
}

/// Classifies a failed connect. Rejected certificates are permanent; ours may be rejected only after the handshake.
fn classify_error(server: &Address, e: &io::Error) -> ConnectError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    use rustls::Error::{AlertReceived, InvalidCertificate};
    match e.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>()) {
        Some(InvalidCertificate(_)) => ConnectError::Permanent(Error::Config(format!(
            "{SCHEME}: the certificate of {server} is not trusted: {e}; check that it is signed by the CA of ca=FILE, \
             and issued for this host"
        ))),
        Some(AlertReceived(_)) => ConnectError::Permanent(Error::Config(format!(
            "{SCHEME}: {server} rejects the TLS connection: {e}; if it requires a client certificate, give cert=FILE \
             and key=FILE"
        ))),
        _ if [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&e.kind()) => {
            ConnectError::ClosedByServer(format!("{server}: {e}"))
        }
        _ => ConnectError::Retryable(format!("{server}: {e}")),
    }
}
