//! The session manager: the current session, a new one when it has ended, and notifications about both.

use std::sync::{Arc, Weak};

use tenure_core::{Clock, Drift, Suspicion};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::credentials::Credentials;
use crate::error::{RequestError, RequestResult};
use crate::options::Options;
use crate::session::{Session, wait_until_closed};
use crate::subscribers::Subscribers;
use crate::wire::{Client, Phase};

#[derive(Debug)]
pub(crate) struct SessionManager {
    options: Options,
    credentials: Arc<Credentials>,
    clock: Clock,
    drift: Drift,
    /// Raised when holds must be checked again.
    suspicion: Suspicion,
    subscribers: Arc<Subscribers>,
    current: Mutex<Current>,
    /// How many sessions were begun.
    sessions_begun: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Current {
    session: Option<Arc<Session>>,
    /// Why and when the last connect failed: calls that waited for it fail with it instead of trying themselves.
    failed: Option<(Instant, RequestError)>,
    closed: bool,
}

impl SessionManager {
    pub(crate) fn new(
        options: Options,
        clock: Clock,
        drift: Drift,
        suspicion: Suspicion,
        subscribers: Arc<Subscribers>,
    ) -> Self {
        Self {
            credentials: Arc::new(Credentials::new(&options)),
            options,
            clock,
            drift,
            suspicion,
            subscribers,
            current: Mutex::default(),
            sessions_begun: watch::Sender::new(0),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the current session, or begins a new one.
    pub(crate) async fn get_or_connect(self: &Arc<Self>) -> RequestResult<Arc<Session>> {
        let called_at = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(session) = current.session.as_ref().filter(|s| !s.is_over()) {
            return Ok(session.clone());
        }
        if current.closed {
            return Err(RequestError::not_sent("the store is closed"));
        }
        if let Some((_, error)) = current.failed.as_ref().filter(|(at, _)| *at >= called_at) {
            return Err(error.clone());
        }
        let session = match self.connect().await {
            Ok(session) => Arc::new(session),
            Err(error) => {
                current.failed = Some((Instant::now(), error.clone()));
                return Err(error);
            }
        };
        current.session = Some(session.clone());
        drop(current);
        self.sessions_begun.send_modify(|count| *count += 1);
        tokio::spawn(send_heartbeats(Arc::downgrade(&session)));
        tokio::spawn(follow_connection(self.clone(), Arc::downgrade(&session)));
        Ok(session)
    }

    /// The current session, if there is one.
    pub(crate) async fn current(&self) -> Option<Arc<Session>> {
        self.current.lock().await.session.clone().filter(|session| !session.is_over())
    }

    /// Observes when a session begins.
    pub(crate) fn subscribe_to_new(&self) -> watch::Receiver<u64> {
        self.sessions_begun.subscribe()
    }

    async fn connect(&self) -> RequestResult<Session> {
        let client = Client::connect(&self.options, &self.credentials, &self.clock).await?;
        Ok(Session::new(client, &self.options, &self.clock, self.drift))
    }

    /// Looks into a refusal for lack of rights, where the login may be changing: another one is used from now on, and one
    /// that has lost the rights that it had may get them back. Returns the error for the caller.
    pub(crate) async fn explain_refusal(&self, error: RequestError) -> RequestError {
        if !error.is_no_right() || !self.credentials.may_change() {
            return error;
        }
        let Some(session) = self.current().await else { return error };
        match session.client.refresh_login().await {
            Ok(true) => RequestError::not_sent("the login has changed, and is used from now on"),
            Ok(false) if self.credentials.is_proven() && has_lost_chroot(&session).await => {
                RequestError::not_sent(
                    "the login that worked has no right any more: is its password being changed? It is asked for again \
                     at the next try",
                )
            }
            Ok(false) | Err(_) => error,
        }
    }

    /// Makes all holds and waiters check again, because what was seen so far may be outdated.
    fn invalidate(&self) {
        self.suspicion.raise();
        self.subscribers.notify_all();
    }

    /// Ends the session cleanly, so that its nodes are deleted at once, unless it is in use. Later calls begin another
    /// session: the lock ensures that none gets this one between the check and its end.
    pub(crate) async fn end_session(&self, in_use: impl FnOnce() -> bool) {
        let mut current = self.current.lock().await;
        if in_use() {
            return;
        }
        let session = current.session.take();
        drop(current);
        if let Some(session) = session {
            let states = session.client.connection_states();
            session.end();
            wait_until_closed(states).await;
        }
    }

    /// Ends the session, and prevents another.
    pub(crate) async fn close(&self) {
        self.current.lock().await.closed = true;
        self.end_session(|| false).await;
    }
}

/// Whether the login may not even read the chroot.
async fn has_lost_chroot(session: &Session) -> bool {
    session.client.read("/").await.is_err_and(|error| error.is_no_right())
}

/// Confirms periodically that the session lives.
async fn send_heartbeats(session: Weak<Session>) {
    loop {
        let Some(interval) = session.upgrade().filter(|s| !s.is_over()).map(|s| s.heartbeat_interval())
        else {
            return;
        };
        tokio::time::sleep(interval).await;
        let Some(session) = session.upgrade() else { return };
        // Ignored: the next request may be answered.
        let _ = session.send_heartbeat().await;
    }
}

/// Reacts to reconnects and to the end of the session.
async fn follow_connection(sessions: Arc<SessionManager>, session: Weak<Session>) {
    let Some(mut states) = session.upgrade().map(|session| session.client.connection_states()) else {
        return;
    };
    let mut last_number = 1;
    loop {
        let (phase, number) = {
            let state = states.borrow_and_update();
            (state.phase, state.number)
        };
        let Some(session) = session.upgrade() else { return };
        if phase == Phase::SessionOver {
            if session.end() {
                tracing::warn!(session = session.id, "the session with ZooKeeper is over");
            }
            sessions.invalidate();
            return;
        }
        if number != last_number {
            last_number = number;
            sessions.invalidate();
        }
        drop(session);
        if states.changed().await.is_err() {
            return;
        }
    }
}
