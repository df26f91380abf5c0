//! A minimal ZooKeeper client of the testbed's own, without background work: only calls keep its session alive. Here:
//! connection and session.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::jute::{In, Out};
use crate::wait::begins;
use crate::{Error, PATIENCE, Result, eventually};

/// A connection and its session.
#[derive(Debug)]
pub struct ZkClient {
    stream: BufReader<TcpStream>,
    session: i64,
    timeout: Duration,
    sent: i32,
    /// Watch events that came while a reply was awaited: event type and path.
    events: Vec<(i32, String)>,
}

impl ZkClient {
    /// Opens a new session, at a port of 127.0.0.1.
    ///
    /// # Errors
    /// When nobody serves there.
    pub fn connect(port: u16, timeout: Duration) -> Result<Self> {
        Self::open(port, 0, timeout)
    }

    /// Takes over a session from its current client. The id is enough: the password is derived from it.
    ///
    /// # Errors
    /// `Reply` when it has expired, or never existed.
    pub fn attach(port: u16, session: i64, timeout: Duration) -> Result<Self> {
        Self::open(port, session, timeout)
    }

    /// Ends a session, whichever client has it.
    ///
    /// # Errors
    /// When nobody serves there.
    pub fn expire(port: u16, session: i64) -> Result<()> {
        let mut last = None;
        // The owner reconnects when its session is taken over, and may be faster than the close.
        let ended = eventually("the session is over", PATIENCE, || {
            let closed = Self::attach(port, session, PATIENCE).and_then(Self::close);
            last = closed.err();
            last.as_ref().is_some_and(|e| e.reply() == Some("SessionExpired")).then_some(())
        });
        ended.map_err(|e| last.unwrap_or(e))
    }

    fn open(port: u16, session: i64, timeout: Duration) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut client =
            Self { stream: BufReader::new(stream), session, timeout, sent: 0, events: Vec::new() };
        let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let password = if session == 0 { [0; 16] } else { password_of(session) };
        let hello = Out::default().int(0).long(0).int(millis).long(session).bytes(&password).flag(false);
        client.stream.get_mut().write_all(&hello.frame())?;
        let answer = client.frame()?;
        let mut answer = In(&answer);
        let (_version, timeout, session) = (answer.int()?, answer.int()?, answer.long()?);
        if session == 0 || timeout <= 0 {
            return Err(named(-112));
        }
        client.session = session;
        client.timeout = Duration::from_millis(timeout.unsigned_abs().into());
        Ok(client)
    }

    /// The session id, which is the owner of its ephemeral nodes.
    pub fn session(&self) -> i64 {
        self.session
    }

    /// The session timeout as negotiated with the server.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Ends the session.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn close(mut self) -> Result<()> {
        self.call(-11, Out::default()).map(drop)
    }

    /// Sends a ping, which keeps the session alive.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ping(&mut self) -> Result<()> {
        self.call_as(-2, 11, Out::default()).map(drop)
    }

    /// Authenticates, for instance with `digest` and `user:password`.
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn add_auth(&mut self, scheme: &str, auth: &str) -> Result<()> {
        self.call_as(-4, 100, Out::default().int(0).text(scheme).text(auth)).map(drop)
    }

    /// Waits for a watch event: its type (1 created, 2 deleted, 3 changed, 4 children), and the path.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn event_within(&mut self, within: Duration) -> Result<Option<(i32, String)>> {
        if self.events.is_empty() {
            let begun = begins(within, |left| {
                self.stream.get_ref().set_read_timeout(Some(left))?;
                self.stream.fill_buf().map(drop)
            });
            self.stream.get_ref().set_read_timeout(Some(PATIENCE))?;
            match begun {
                Err(e) if is_late(&e) => return Ok(None),
                Err(e) => return Err(e.into()),
                Ok(()) => drop(self.reply()?),
            }
        }
        Ok((!self.events.is_empty()).then(|| self.events.remove(0)))
    }

    pub(super) fn call(&mut self, kind: i32, what: Out) -> Result<Vec<u8>> {
        self.sent += 1;
        self.call_as(self.sent, kind, what)
    }

    fn call_as(&mut self, xid: i32, kind: i32, what: Out) -> Result<Vec<u8>> {
        let request = Out::default().int(xid).int(kind).then(what);
        self.stream.get_mut().write_all(&request.frame())?;
        loop {
            if let Some((answered, error, reply)) = self.reply()? {
                return match error {
                    _ if answered != xid => {
                        Err(Error::failed(format!("a reply to {answered}, not to {xid}")))
                    }
                    0 => Ok(reply),
                    code => Err(named(code)),
                };
            }
        }
    }

    /// Reads the next reply: xid, error code and the rest. `None` if it was a watch event.
    fn reply(&mut self) -> Result<Option<(i32, i32, Vec<u8>)>> {
        let frame = self.frame()?;
        let mut frame = In(&frame);
        let (xid, _zxid, error) = (frame.int()?, frame.long()?, frame.int()?);
        if xid == -1 {
            let (what, _state) = (frame.int()?, frame.int()?);
            self.events.push((what, frame.text()?));
            return Ok(None);
        }
        Ok(Some((xid, error, frame.0.to_vec())))
    }

    fn frame(&mut self) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }
}

fn is_late(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

/// Maps error codes to the names used by the Java client.
fn named(code: i32) -> Error {
    let name = match code {
        -6 => "Unimplemented",
        -8 => "BadArguments",
        -101 => "NoNode",
        -102 => "NoAuth",
        -103 => "BadVersion",
        -108 => "NoChildrenForEphemerals",
        -110 => "NodeExists",
        -111 => "NotEmpty",
        -112 => "SessionExpired",
        -114 => "InvalidACL",
        -115 => "AuthFailed",
        -118 => "SessionMoved",
        _ => return Error::Reply(format!("error {code}")),
    };
    Error::Reply(name.to_owned())
}

/// Derives the session password as the server does: with Java's random generator, from the session id and a constant.
fn password_of(session: i64) -> [u8; 16] {
    const SECRET: i64 = 0xB341_5C00;
    const FACTOR: i64 = 0x5_DEEC_E66D;
    const MASK: i64 = (1 << 48) - 1;
    let mut state = (session ^ SECRET ^ FACTOR) & MASK;
    let mut password = [0; 16];
    for four in password.chunks_mut(4) {
        state = state.wrapping_mul(FACTOR).wrapping_add(0xB) & MASK;
        four.copy_from_slice(&((state >> 16) as i32).to_le_bytes());
    }
    password
}
