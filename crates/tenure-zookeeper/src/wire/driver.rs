//! The task that owns the connection: it writes queued requests in batches, distributes the answers, and reconnects.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tenure_core::{Error, Time};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::client::{ConnectionState, Phase, Shared};
use super::dial::{Dialed, NoLink, Ticket, next_frame};
use super::error_code::ErrorCode;
use super::jute::{In, Out, wrong};
use super::servers::Servers;
use super::watches::{Again, Change, Of};
use crate::error::{RequestError, RequestResult, SCHEME};
use crate::options::Login;

const REMOVE_WATCHES: i32 = 18;
const PING: i32 = 11;
const LOGIN: i32 = 100;
const SET_WATCHES: i32 = 101;
pub(crate) const CLOSE: i32 = -11;

/// The numbers of frames that are not requests, and of their answers.
const EVENT: i32 = -1;
const OF_PING: i32 = -2;
const OF_LOGIN: i32 = -4;
const OF_WATCHES: i32 = -8;

/// The size limit of one request that sets watches again: servers refuse a megabyte.
const WATCHES_AT_ONCE: usize = 128 * 1024;
/// How much is written at once, and how much room there is to read into.
const CHUNK: usize = 64 * 1024;
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasts this long resets the backoff.
const STEADY: Duration = Duration::from_secs(1);

pub(crate) struct Driver {
    shared: Arc<Shared>,
    servers: Servers,
    login: Option<Vec<u8>>,
    /// Requests in flight, answered in this order. Some have no caller.
    sent: VecDeque<(i32, Option<oneshot::Sender<RequestResult<BytesMut>>>)>,
    /// The number of the request that closes the session.
    farewell: Option<i32>,
    /// The backoff before the next connection attempt.
    pause: Duration,
    /// When a server was last heard from.
    heard: Time,
}

/// Why a connection ended.
enum Break {
    Lost(io::Error),
    /// The session is over.
    Over(RequestError),
}

impl From<io::Error> for Break {
    fn from(e: io::Error) -> Self {
        Self::Lost(e)
    }
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, servers: Servers, login: Option<&Login>) -> Self {
        let login = login.map(|login| {
            let word = format!("{}:{}", login.user, login.password);
            Out::new().int(OF_LOGIN).int(LOGIN).int(0).bytes("digest").bytes(word).frame()
        });
        let heard = servers.clock.now();
        Self { shared, servers, login, sent: VecDeque::new(), farewell: None, pause: PAUSE, heard }
    }

    /// Runs until the session is over.
    pub(crate) async fn drive(mut self, mut dialed: Dialed) {
        let over = loop {
            let (mut ticket, begun) = (dialed.ticket.clone(), Instant::now());
            let why = match self.serve(dialed, &mut ticket).await {
                Err(Break::Lost(why)) => why,
                Err(Break::Over(error)) => break error,
            };
            tracing::debug!(session = self.shared.id, %why, "the connection to ZooKeeper is lost");
            for (_, reply) in self.sent.drain(..) {
                reply.map(|reply| {
                    reply.send(Err(RequestError::Unknown(format!("the connection was lost: {why}"))))
                });
            }
            self.shared.connection.send_modify(|state| state.phase = Phase::Disconnected);
            match begun.elapsed() < STEADY {
                true => self.rest().await,
                false => self.pause = PAUSE,
            }
            dialed = match self.dial_again(&ticket).await {
                Some(dialed) => dialed,
                None => break RequestError::SessionEnded("the session has expired".into()),
            };
            let Dialed { asked, ticket: Ticket { timeout, .. }, .. } = dialed;
            self.shared.connection.send_modify(|state| {
                *state = ConnectionState {
                    number: state.number + 1,
                    timeout,
                    requested_at: asked,
                    phase: Phase::Connected,
                };
            });
        };
        for (_, reply) in self.sent.drain(..) {
            reply.map(|reply| reply.send(Err(over.clone())));
        }
        self.shared.lane.end(over);
        self.shared.connection.send_modify(|state| state.phase = Phase::SessionOver);
        self.shared.watches.end();
    }

    /// Reconnects. Returns `None` when the session is over: either the servers do not know it, or it has expired by
    /// our own clock and a server refuses it but begins a new one. Such a server was wiped or restored from an older
    /// backup, has an older state than we have seen, and would refuse this session forever.
    async fn dial_again(&mut self, ticket: &Ticket) -> Option<Dialed> {
        loop {
            self.servers.begin_round();
            while let Some(dialed) = self.servers.dial_next(ticket).await {
                match dialed {
                    Ok(dialed) => return Some(dialed),
                    Err(NoLink::Expired) => return None,
                    Err(NoLink::Closed(why)) => {
                        tracing::debug!(session = ticket.id, why, "no connection");
                        if self.is_over_here(ticket) && self.servers.begins_another(ticket).await {
                            return None;
                        }
                    }
                    Err(NoLink::Now(why)) => tracing::debug!(session = ticket.id, why, "no connection"),
                    // Not fatal: a server that is being reconfigured may refuse like this.
                    Err(NoLink::Never(why)) => tracing::warn!(session = ticket.id, %why, "no connection"),
                }
            }
            self.rest().await;
        }
    }

    /// Whether it has expired by our own clock. Guards are lost earlier: they count from the last send, not the last
    /// answer.
    fn is_over_here(&self, ticket: &Ticket) -> bool {
        self.servers.clock.now() > self.heard.after(ticket.timeout)
    }

    async fn rest(&mut self) {
        sleep(self.pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Serves requests until the connection breaks.
    async fn serve(&mut self, dialed: Dialed, ticket: &mut Ticket) -> Result<Infallible, Break> {
        let Dialed { socket, mut input, .. } = dialed;
        let (mut reader, mut writer) = tokio::io::split(socket);
        let mut out = BytesMut::with_capacity(CHUNK);
        self.begin(&mut out, ticket.seen);
        let (mut unflushed, mut heard, mut spoke) = (false, Instant::now(), Instant::now());
        self.heard = self.servers.clock.now();
        let mut look = interval((ticket.timeout / 12).max(Duration::from_millis(5)));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Some(frame) = next_frame(&mut input)? {
                self.hear(frame, ticket)?;
                // Only complete frames count, so that one that trickles in forever does not.
                heard = Instant::now();
                self.heard = self.servers.clock.now();
            }
            self.collect(&mut out);
            tokio::select! {
                biased;
                written = push(&mut writer, &out), if unflushed || !out.is_empty() => {
                    unflushed = !out.is_empty();
                    out.advance(written?);
                    spoke = Instant::now();
                }
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                }
                () = self.shared.lane.wake.notified() => {}
                _ = look.tick() => {
                    // The rest of the timeout is for trying another server.
                    if heard.elapsed() > ticket.timeout / 2 {
                        let silent = format!("nothing was heard for {:.1?}", heard.elapsed());
                        return Err(io::Error::new(io::ErrorKind::TimedOut, silent).into());
                    }
                    if spoke.elapsed() > ticket.timeout / 4 && out.is_empty() {
                        out.extend(Out::new().int(OF_PING).int(PING).frame());
                    }
                }
            }
            if input.capacity() - input.len() < CHUNK / 4 {
                input.reserve(CHUNK);
            }
        }
    }

    /// Frames that precede all requests: the login, and the watches to set again.
    fn begin(&mut self, out: &mut BytesMut, seen: i64) {
        self.farewell = None;
        out.extend(self.login.iter().flatten());
        for Again { data, absent, children, .. } in self.shared.watches.again(WATCHES_AT_ONCE) {
            let set = Out::new().int(OF_WATCHES).int(SET_WATCHES).long(seen);
            out.extend(set.texts(&data).texts(&absent).texts(&children).frame());
        }
    }

    /// Collects queued requests, as far as there is room.
    fn collect(&mut self, out: &mut BytesMut) {
        while out.len() < CHUNK
            && let Some(call) = self.shared.lane.take()
        {
            out.extend(call.frame);
            self.sent.push_back((call.xid, Some(call.reply)));
        }
        for (of, path) in self.shared.watches.unwanted() {
            let kind = if of == Of::Children { 1 } else { 2 };
            let xid = self.shared.lane.number();
            out.extend(Out::new().int(xid).int(REMOVE_WATCHES).bytes(path).int(kind).frame());
            self.sent.push_back((xid, None));
        }
        if out.len() < CHUNK && self.farewell.is_none() && self.shared.lane.is_closing() {
            let xid = self.shared.lane.number();
            out.extend(Out::new().int(xid).int(CLOSE).frame());
            self.sent.push_back((xid, None));
            self.farewell = Some(xid);
        }
    }

    fn hear(&mut self, mut frame: BytesMut, ticket: &mut Ticket) -> Result<(), Break> {
        let mut head = In(&frame);
        let (xid, zxid, code) = (head.int()?, head.long()?, head.int()?);
        match xid {
            EVENT => {
                let (kind, _state, path) = (head.int()?, head.int()?, head.text()?);
                if let Some(change) = Change::from_wire(kind) {
                    self.shared.watches.tell(&path, change);
                }
                return Ok(());
            }
            OF_PING => return Ok(()),
            OF_LOGIN if code == 0 => return Ok(()),
            OF_LOGIN => {
                let refused = Error::Config(format!("{SCHEME}: the servers refuse the login"));
                return Err(Break::Over(RequestError::Config(refused)));
            }
            OF_WATCHES if code == 0 => return Ok(()),
            OF_WATCHES => return Err(wrong("watches are not set again").into()),
            _ => {}
        }
        ticket.seen = ticket.seen.max(zxid);
        let Some((sent, reply)) = self.sent.pop_front() else {
            return Err(wrong("an answer to nothing").into());
        };
        if sent != xid {
            reply.map(|reply| reply.send(Err(RequestError::Unknown("another answer came".into()))));
            return Err(wrong("answers come in another order").into());
        }
        if self.farewell == Some(xid) {
            return Err(Break::Over(RequestError::SessionEnded("the session was closed".into())));
        }
        let answer = match code {
            0 => {
                frame.advance(16);
                Ok(frame)
            }
            code => Err(RequestError::from(ErrorCode(code))),
        };
        let over = match &answer {
            Err(RequestError::SessionEnded(_)) => {
                Some(RequestError::SessionEnded("the session has expired".into()))
            }
            Err(error @ RequestError::Config(_)) => Some(error.clone()),
            _ => None,
        };
        reply.map(|reply| reply.send(answer));
        over.map_or(Ok(()), |over| Err(Break::Over(over)))
    }
}

/// Writes part of `out`, or flushes what TLS has buffered if it is empty.
async fn push(writer: &mut (impl AsyncWrite + Unpin), out: &[u8]) -> io::Result<usize> {
    match out.is_empty() {
        true => writer.flush().await.map(|()| 0),
        false => writer.write(out).await,
    }
}
