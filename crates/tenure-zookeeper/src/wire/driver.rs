//! The task that owns the connection: it writes queued requests in batches, distributes the answers, and reconnects.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tenure_core::backend::{Backoff, Cause, Reason};
use tenure_core::{Error, Time};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::client::{ConnectionState, Phase, Shared};
use super::connect::{ConnectError, Connection, MAX_REPLY, SessionCredentials, next_frame};
use super::error_code::ErrorCode;
use super::jute::{Decoder, Encoder, protocol_error};
use super::multi;
use super::request_queue::{Answer, Caller};
use super::servers::Servers;
use super::watch_registry::{Change, SetWatches, WatchTarget};
use crate::credentials::Digest;
use crate::error::{RequestError, SCHEME};

const REMOVE_WATCHES: i32 = 18;
const PING: i32 = 11;
const AUTH: i32 = 100;
const SET_WATCHES: i32 = 101;
pub(crate) const CLOSE: i32 = -11;

/// The numbers of frames that are not requests, and of their answers.
const XID_EVENT: i32 = -1;
const XID_PING: i32 = -2;
const XID_AUTH: i32 = -4;
const XID_SET_WATCHES: i32 = -8;

/// The size limit of one request that sets watches again: servers refuse a megabyte.
const MAX_SET_WATCHES_BYTES: usize = 128 * 1024;
/// How much is written at once, and how much room there is to read into.
const CHUNK: usize = 64 * 1024;
/// How many creates and deletes, or transactions of them, may be in flight before those that follow wait for an answer.
/// Meanwhile they become one transaction.
const MAX_WRITES: usize = 4;
/// The delays between connection attempts.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
/// A connection that lasts this long resets the backoff.
const STABLE_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct Driver {
    shared: Arc<Shared>,
    servers: Servers,
    /// The login that was sent last over this connection, and how many are not answered.
    sent_login: Option<Digest>,
    unanswered_logins: u32,
    /// Requests in flight, answered in this order.
    sent: VecDeque<Sent>,
    /// How many of them are creates and deletes that might have waited for each other.
    writes: usize,
    /// The number of the request that closes the session.
    close_xid: Option<i32>,
    backoff: Backoff,
    /// When the last complete frame was received.
    last_received: Time,
}

/// A request in flight: its callers are none, one, or those of a transaction.
struct Sent {
    xid: i32,
    callers: Vec<Caller>,
    is_write: bool,
}

impl Sent {
    fn without_caller(xid: i32) -> Self {
        Self { xid, callers: Vec::new(), is_write: false }
    }

    fn fail(self, why: &RequestError) {
        for caller in self.callers {
            let _ = caller.send(Err(why.clone()));
        }
    }
}

/// Why a connection ended.
enum Interruption {
    ConnectionLost(io::Error),
    SessionOver(RequestError),
}

impl From<io::Error> for Interruption {
    fn from(e: io::Error) -> Self {
        Self::ConnectionLost(e)
    }
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, servers: Servers) -> Self {
        let last_received = servers.clock.now();
        Self {
            shared,
            servers,
            sent_login: None,
            unanswered_logins: 0,
            sent: VecDeque::new(),
            writes: 0,
            close_xid: None,
            backoff: BACKOFF,
            last_received,
        }
    }

    /// Runs until the session is over.
    pub(crate) async fn drive(mut self, mut connection: Connection) {
        let over = loop {
            let (mut credentials, begun) = (connection.credentials.clone(), Instant::now());
            let why = match self.serve(connection, &mut credentials).await {
                Err(Interruption::ConnectionLost(why)) => why,
                Err(Interruption::SessionOver(error)) => break error,
            };
            tracing::debug!(session = self.shared.id, %why, "the connection to ZooKeeper is lost");
            let why = Reason::from(why).at("the connection was lost");
            self.fail_sent(&RequestError::Unknown(why.clone()));
            self.shared.requests.set_outage(Some(why));
            self.shared.connection.send_modify(|state| state.phase = Phase::Disconnected);
            match begun.elapsed() < STABLE_AFTER {
                true => sleep(self.backoff.failed()).await,
                false => self.backoff.worked(),
            }
            connection = match self.reconnect(&credentials).await {
                Some(connection) => connection,
                None => break RequestError::SessionEnded("the session has expired".into()),
            };
            if let Err(why) = self.shared.logins.refresh().await {
                let why = why.into_error("log in again", "");
                tracing::warn!(session = self.shared.id, %why, "the session goes on with the logins that it has");
            }
            // A login that is refused is why nothing is sent.
            if !self.shared.logins.is_set() {
                self.shared.requests.set_outage(None);
            }
            let Connection { requested_at, credentials: SessionCredentials { timeout, .. }, .. } = connection;
            self.shared.connection.send_modify(|state| {
                *state = ConnectionState {
                    number: state.number + 1,
                    timeout,
                    requested_at,
                    phase: Phase::Connected,
                };
            });
        };
        self.fail_sent(&over);
        self.shared.requests.fail_all(over);
        self.shared.connection.send_modify(|state| state.phase = Phase::SessionOver);
        self.shared.watches.end_session();
    }

    fn fail_sent(&mut self, why: &RequestError) {
        self.sent.drain(..).for_each(|sent| sent.fail(why));
        self.writes = 0;
    }

    /// Reconnects. Returns `None` when the session is over: either the servers do not know it, or it has expired by
    /// our own clock and a server refuses it but begins a new one. Such a server was wiped or restored from an older
    /// backup, has an older state than we have seen, and would refuse this session forever.
    ///
    /// If every address refuses the connection, queued requests fail at once: whoever waits sends them again, and
    /// everybody else need not wait. As long as any server accepts connections, it may get a leader, and they stay
    /// queued.
    async fn reconnect(&mut self, credentials: &SessionCredentials) -> Option<Connection> {
        loop {
            self.servers.begin_round();
            // Why nobody accepts a connection; `None` if somebody does, or may.
            let mut refusals = Some(Vec::new());
            while let Some(connection) = self.servers.connect_next(credentials).await {
                match &connection {
                    Err(ConnectError::Retryable(why))
                        if why.cause.as_ref().is_some_and(Cause::is_refused) =>
                    {
                        refusals.iter_mut().for_each(|all| all.push(why.clone()));
                    }
                    _ => refusals = None,
                }
                match connection {
                    Ok(connection) => return Some(connection),
                    Err(ConnectError::SessionExpired) => return None,
                    Err(ConnectError::ClosedByServer(why)) => {
                        self.on_no_connection(credentials, why);
                        if self.is_expired_by_own_clock(credentials)
                            && self.servers.accepts_new_session(credentials).await
                        {
                            return None;
                        }
                    }
                    Err(ConnectError::Retryable(why)) => self.on_no_connection(credentials, why),
                    // Not fatal: a server that is being reconfigured may refuse like this.
                    Err(ConnectError::Permanent(why)) => {
                        tracing::warn!(session = credentials.id, %why, "no connection")
                    }
                }
            }
            if let Some(all) = refusals {
                let why = Reason::all(all).at("no connection to a server");
                self.shared.requests.fail_queued(&RequestError::NotSent(why));
            }
            sleep(self.backoff.failed()).await;
        }
    }

    fn on_no_connection(&self, credentials: &SessionCredentials, why: Reason) {
        tracing::debug!(session = credentials.id, %why, "no connection");
        self.shared.requests.set_outage(Some(why));
    }

    /// Whether it has expired by our own clock. Guards are lost earlier: they count from the last send, not the last
    /// answer.
    fn is_expired_by_own_clock(&self, credentials: &SessionCredentials) -> bool {
        self.servers.clock.now() > self.last_received.after(credentials.timeout)
    }

    /// Serves requests until the connection breaks.
    async fn serve(
        &mut self,
        connection: Connection,
        credentials: &mut SessionCredentials,
    ) -> Result<Infallible, Interruption> {
        let Connection { socket, mut input, .. } = connection;
        let (mut reader, mut writer) = tokio::io::split(socket);
        let mut out = BytesMut::with_capacity(CHUNK);
        self.write_preamble(&mut out, credentials.last_zxid);
        let (mut unflushed, mut last_received, mut last_sent) = (false, Instant::now(), Instant::now());
        self.last_received = self.servers.clock.now();
        let mut idle_check = interval((credentials.timeout / 12).max(Duration::from_millis(5)));
        idle_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Some(frame) = next_frame(&mut input, MAX_REPLY)? {
                self.handle_frame(frame, credentials)?;
                // Only complete frames count, so that one that trickles in forever does not.
                last_received = Instant::now();
                self.last_received = self.servers.clock.now();
            }
            self.collect_requests(&mut out);
            tokio::select! {
                biased;
                written = write_or_flush(&mut writer, &out), if unflushed || !out.is_empty() => {
                    unflushed = !out.is_empty();
                    out.advance(written?);
                    last_sent = Instant::now();
                }
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                }
                () = self.shared.requests.wake.notified() => {}
                _ = idle_check.tick() => {
                    // The rest of the timeout is for trying another server.
                    if last_received.elapsed() > credentials.timeout / 2 {
                        let silent = format!("nothing was received for {:.1?}", last_received.elapsed());
                        return Err(io::Error::new(io::ErrorKind::TimedOut, silent).into());
                    }
                    if last_sent.elapsed() > credentials.timeout / 4 && out.is_empty() {
                        out.extend(Encoder::new().int(XID_PING).int(PING).frame());
                    }
                }
            }
            if input.capacity() - input.len() < CHUNK / 4 {
                input.reserve(CHUNK);
            }
        }
    }

    /// Frames that precede all requests: the login, and the watches to set again.
    fn write_preamble(&mut self, out: &mut BytesMut, last_zxid: i64) {
        self.close_xid = None;
        let logins = self.shared.logins.all();
        (self.sent_login, self.unanswered_logins) = (None, 0);
        logins.into_iter().for_each(|login| self.send_login(out, login));
        for SetWatches { data, absent, children, .. } in self.shared.watches.to_restore(MAX_SET_WATCHES_BYTES)
        {
            let set = Encoder::new().int(XID_SET_WATCHES).int(SET_WATCHES).long(last_zxid);
            out.extend(set.strings(&data).strings(&absent).strings(&children).frame());
        }
    }

    fn send_login(&mut self, out: &mut BytesMut, login: Digest) {
        let frame = Encoder::new().int(XID_AUTH).int(AUTH).int(0).bytes("digest").bytes(login.as_bytes());
        out.extend(frame.frame());
        self.sent_login = Some(login);
        self.unanswered_logins += 1;
    }

    /// Collects queued requests, as far as there is room. None while a login is not answered: if it is refused, they were
    /// certainly not executed.
    fn collect_requests(&mut self, out: &mut BytesMut) {
        if let Some(login) = self.shared.logins.unsent(self.sent_login.as_ref()) {
            self.send_login(out, login);
        }
        if self.unanswered_logins > 0 {
            return;
        }
        while out.len() < CHUNK {
            let together = self.shared.requests.pop(self.writes >= MAX_WRITES);
            let Some(first) = together.first() else { break };
            let (xid, is_write) = (first.xid, first.part.is_some());
            match &*together {
                [one] => out.extend_from_slice(&one.frame),
                all => out.extend(multi::frame(all)),
            }
            self.writes += usize::from(is_write);
            let callers = together.into_iter().map(|request| request.reply).collect();
            self.sent.push_back(Sent { xid, callers, is_write });
        }
        for (of, path) in self.shared.watches.take_unwanted() {
            let kind = if of == WatchTarget::Children { 1 } else { 2 };
            let xid = self.shared.requests.next_xid();
            out.extend(Encoder::new().int(xid).int(REMOVE_WATCHES).bytes(&*path).int(kind).frame());
            self.sent.push_back(Sent::without_caller(xid));
        }
        if self.close_xid.is_none() && self.shared.requests.is_drained() {
            let xid = self.shared.requests.next_xid();
            out.extend(Encoder::new().int(xid).int(CLOSE).frame());
            self.sent.push_back(Sent::without_caller(xid));
            self.close_xid = Some(xid);
        }
    }

    fn handle_frame(
        &mut self,
        mut frame: BytesMut,
        credentials: &mut SessionCredentials,
    ) -> Result<(), Interruption> {
        let mut head = Decoder(&frame);
        let (xid, zxid, code) = (head.int()?, head.long()?, head.int()?);
        match xid {
            XID_EVENT => {
                let (kind, _state, path) = (head.int()?, head.int()?, head.string()?);
                if let Some(change) = Change::from_wire(kind) {
                    self.shared.watches.dispatch(&path, change);
                }
                return Ok(());
            }
            XID_PING => return Ok(()),
            XID_AUTH if code == 0 => {
                self.unanswered_logins = self.unanswered_logins.saturating_sub(1);
                self.shared.logins.record_accepted();
                self.shared.requests.set_outage(None);
                return Ok(());
            }
            XID_AUTH => return Err(self.on_refused_login()),
            XID_SET_WATCHES if code == 0 => return Ok(()),
            XID_SET_WATCHES => return Err(protocol_error("the watches could not be restored").into()),
            _ => {}
        }
        credentials.last_zxid = credentials.last_zxid.max(zxid);
        let Some(sent) = self.sent.pop_front() else {
            return Err(protocol_error("an answer without a request").into());
        };
        self.writes -= usize::from(sent.is_write);
        if sent.xid != xid {
            sent.fail(&RequestError::unknown("the server answered another request instead"));
            return Err(protocol_error("answers are out of order").into());
        }
        if self.close_xid == Some(xid) {
            return Err(Interruption::SessionOver(RequestError::SessionEnded(
                "the session was closed".into(),
            )));
        }
        if code != 0 {
            return self.on_refusal(sent, ErrorCode(code));
        }
        frame.advance(16);
        if sent.callers.len() < 2 {
            sent.callers
                .into_iter()
                .for_each(|caller| drop(caller.send(Ok(Answer { zxid, body: frame.split() }))));
            return Ok(());
        }
        match multi::answers(&frame) {
            Ok(answers) if answers.len() == sent.callers.len() => {
                for (caller, answer) in sent.callers.into_iter().zip(answers) {
                    let _ = caller.send(answer.map(|body| Answer { zxid, body }).map_err(Into::into));
                }
                Ok(())
            }
            answers => {
                sent.fail(&RequestError::unknown("the server's answer to a transaction cannot be read"));
                Err(answers
                    .err()
                    .unwrap_or_else(|| protocol_error("answers of a transaction are missing"))
                    .into())
            }
        }
    }

    fn on_refusal(&self, sent: Sent, code: ErrorCode) -> Result<(), Interruption> {
        let error = RequestError::from(code);
        match &error {
            // None of them was executed. One by one, each gets the answer that it is due.
            RequestError::Refused(_) if sent.callers.len() > 1 => sent.fail(&ErrorCode::ROLLED_BACK.into()),
            error => sent.fail(error),
        }
        match error {
            RequestError::SessionEnded(_) => {
                Err(Interruption::SessionOver(RequestError::SessionEnded("the session has expired".into())))
            }
            RequestError::Config(_) => Err(Interruption::SessionOver(error)),
            _ => Ok(()),
        }
    }

    /// One that worked before is probably being changed, on the servers or here, so another one is asked for. Meanwhile
    /// the session may live.
    fn on_refused_login(&self) -> Interruption {
        let why = "the servers reject the login: check user and password";
        match self.shared.logins.record_refused() {
            true => io::Error::new(io::ErrorKind::PermissionDenied, why).into(),
            false => {
                let refused = Error::Config(format!("{SCHEME}: {why}"));
                Interruption::SessionOver(RequestError::Config(refused))
            }
        }
    }
}

/// Writes part of `out`, or flushes what TLS has buffered if it is empty.
async fn write_or_flush(writer: &mut (impl AsyncWrite + Unpin), out: &[u8]) -> io::Result<usize> {
    match out.is_empty() {
        true => writer.flush().await.map(|()| 0),
        false => writer.write(out).await,
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Clock;
    use tokio::io::{DuplexStream, duplex};

    use super::*;
    use crate::credentials::{Credentials, SessionLogins};
    use crate::options::Options;

    const TIMEOUT: Duration = Duration::from_secs(12);

    /// Serves a connection to `server` in a session with this timeout. Returns why and when it ended.
    async fn serve<F: Future<Output = ()> + Send + 'static>(
        server: impl FnOnce(DuplexStream) -> F,
    ) -> (io::ErrorKind, Duration) {
        let (ours, theirs) = duplex(CHUNK);
        let (options, clock, begun) = (Options::new(["unused"]), Clock::boot(), Instant::now());
        let mut credentials = SessionCredentials::new(TIMEOUT);
        (credentials.id, credentials.timeout) = (7, TIMEOUT);
        let requested_at = clock.now();
        let connection = Connection {
            socket: Box::new(ours),
            input: BytesMut::new(),
            credentials: credentials.clone(),
            requested_at,
        };
        let logins = SessionLogins::ask(&Arc::new(Credentials::new(&options))).await.unwrap();
        let shared = Arc::new(Shared::new(&connection, &options, logins));
        let mut driver = Driver::new(shared, Servers::new(&options, None, clock));
        tokio::spawn(server(theirs));
        match driver.serve(connection, &mut credentials).await {
            Err(Interruption::ConnectionLost(why)) => (why.kind(), begun.elapsed()),
            Err(Interruption::SessionOver(error)) => panic!("{error:?}"),
        }
    }

    fn ping_answer() -> Vec<u8> {
        Encoder::new().int(XID_PING).long(0).int(0).frame()
    }

    /// E16. A server is left when no complete frame arrives for half a session timeout, even if a byte of one arrives
    /// now and then.
    #[tokio::test(start_paused = true)]
    async fn a_frame_that_trickles_in_is_no_sign_of_life() {
        let (why, after) = serve(async |mut server| {
            server.write_all(&ping_answer()).await.unwrap();
            for byte in 10_000_i32.to_be_bytes().into_iter().chain([0; 1000]) {
                if server.write_all(&[byte]).await.is_err() {
                    return;
                }
                sleep(TIMEOUT / 12).await;
            }
        })
        .await;
        assert_eq!(why, io::ErrorKind::TimedOut, "after {after:?}");
        // The first check after half a timeout.
        assert!(after <= TIMEOUT * 7 / 12, "after {after:?}");
    }

    /// E16. Complete frames count, however slowly they come.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_answers_is_kept() {
        let (why, after) = serve(async |mut server| {
            for _ in 0..100 {
                server.write_all(&ping_answer()).await.unwrap();
                sleep(TIMEOUT * 5 / 12).await;
            }
        })
        .await;
        assert_eq!(why, io::ErrorKind::UnexpectedEof, "after {after:?}");
    }
}
