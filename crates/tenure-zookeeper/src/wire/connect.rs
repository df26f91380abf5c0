//! Connects to the address of a server, and begins or resumes a session.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tenure_core::backend::Reason;
use tenure_core::{Clock, Error, Time};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{self, pki_types::ServerName};

use super::jute::{Decoder, Encoder, protocol_error};
use crate::error::SCHEME;

/// The largest reply. Servers limit what they receive to `jute.maxbuffer`, 1 MiB by default, but not a list of children:
/// this is room for one of half a million.
pub(crate) const MAX_REPLY: usize = 64 << 20;
/// The largest answer to a connect request, which has a few numbers and a password.
const MAX_CONNECT_RESPONSE: usize = 64 << 10;

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
    Retryable(Reason),
    /// The server closed the connection instead of answering: it has no leader, or its state is older than this
    /// session has seen.
    ClosedByServer(Reason),
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
            if let Some(frame) = next_frame(&mut input, MAX_CONNECT_RESPONSE)? {
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
        Ok(Err(e)) => Err(classify_error(server, e)),
        Err(_) => {
            Err(ConnectError::Retryable(Reason::timed_out(format!("no answer within {limit:?}")).at(server)))
        }
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
pub(super) fn parse_connect_response(
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

/// Returns the content of the next frame, once it is complete. Reserves nothing for the rest of it: its length is only
/// what the server announces, and the buffer grows with the bytes that arrive.
pub(crate) fn next_frame(input: &mut BytesMut, max: usize) -> io::Result<Option<BytesMut>> {
    let Some(length) = input.get(..4) else { return Ok(None) };
    let announced = Decoder(length).int()?;
    let length = usize::try_from(announced).ok().filter(|length| *length <= max);
    let too_large = || protocol_error(&format!("a frame of {announced} bytes, the limit is {max}"));
    let length = length.ok_or_else(too_large)?;
    if input.len() < 4 + length {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(length)))
}

/// Classifies a failed connect. Rejected certificates are permanent; ours may be rejected only after the handshake.
fn classify_error(server: &Address, e: io::Error) -> ConnectError {
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
            ConnectError::ClosedByServer(Reason::from(e).at(server))
        }
        _ => ConnectError::Retryable(Reason::from(e).at(server)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use testbed::FAR;

    use super::*;

    /// Reads a connect request, and answers with these bytes.
    fn server(answer: Vec<u8>) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(client.read(&mut request).unwrap() > 4);
            client.write_all(&answer).unwrap();
            // Until the client leaves.
            while let Ok(1..) = client.read(&mut request) {}
        });
        Address { name: at.to_string(), at }
    }

    async fn connect_to(answer: Vec<u8>) -> Result<Connection, ConnectError> {
        let credentials = SessionCredentials::new(FAR);
        connect(&server(answer), None, &credentials, &Clock::boot(), testbed::patience()).await
    }

    fn length(length: usize) -> Vec<u8> {
        (length as i32).to_be_bytes().to_vec()
    }

    /// B20. The limit is checked as soon as the length is known.
    #[tokio::test]
    async fn a_frame_has_a_largest_size() {
        for announced in [1 << 30, u32::MAX as usize, MAX_CONNECT_RESPONSE + 1] {
            match connect_to(length(announced)).await {
                Err(ConnectError::Retryable(why)) => {
                    assert!(why.text.contains("the limit is 65536"), "{why}")
                }
                Err(other) => panic!("{announced}: {other:?}"),
                Ok(_) => panic!("{announced}: connected"),
            }
        }
        let next = |announced| next_frame(&mut BytesMut::from(&*length(announced)), MAX_REPLY);
        for announced in [MAX_REPLY + 1, 1 << 30, u32::MAX as usize] {
            let refused = next(announced).unwrap_err().to_string();
            assert!(refused.contains("the limit is 67108864"), "{announced}: {refused}");
        }
        assert!(next(MAX_REPLY).unwrap().is_none());
    }

    /// B20. Memory is for bytes that have arrived, however many are announced.
    #[tokio::test]
    async fn an_announced_length_reserves_nothing() {
        let response = Encoder::new().int(0).int(30_000).long(7).bytes([0; 16]).boolean(false).frame();
        let mut answer = response.clone();
        answer.extend(length(MAX_REPLY));
        answer.extend([0; 10]);
        let Connection { mut socket, mut input, .. } = connect_to(answer).await.unwrap();
        while input.len() < 14 {
            assert!(socket.read_buf(&mut input).await.unwrap() > 0);
        }
        assert!(next_frame(&mut input, MAX_REPLY).unwrap().is_none());
        assert!(input.capacity() <= 64 * 1024, "{} bytes are reserved for 14", input.capacity());

        let mut input = BytesMut::from(&*length(MAX_CONNECT_RESPONSE));
        assert!(next_frame(&mut input, MAX_CONNECT_RESPONSE).unwrap().is_none());
        assert!(input.capacity() < 1024, "{} bytes are reserved for 4", input.capacity());
    }
}
