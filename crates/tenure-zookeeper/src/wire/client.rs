//! A session: sends requests, and observes its connection.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::Reason;
use tenure_core::{Clock, Error, Time};
use tokio::sync::watch;

use super::connect::{ConnectError, Connection, SessionCredentials};
use super::driver::Driver;
use super::request_queue::RequestQueue;
use super::requests::Acl;
use super::servers::Servers;
use super::tls;
use super::watch_registry::{WatchRegistry, WatchTarget, Watcher};
use crate::credentials::{Credentials, SessionLogins};
use crate::error::{RequestError, RequestResult, SCHEME};
use crate::options::{Access, Options};

#[derive(Clone, Debug)]
pub(crate) struct Client(pub(super) Arc<Shared>);

/// State shared between the driver and the callers.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Without a trailing slash.
    chroot: String,
    pub(super) acl: Acl,
    pub(super) logins: SessionLogins,
    pub(crate) id: i64,
    pub(crate) requests: RequestQueue,
    pub(crate) watches: Arc<WatchRegistry>,
    pub(crate) connection: watch::Sender<ConnectionState>,
}

/// The current connection, or the last one.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionState {
    /// Counts the connections of the session, from 1.
    pub(crate) number: u64,
    /// The session timeout that the server granted over it.
    pub(crate) timeout: Duration,
    /// When it was requested.
    pub(crate) requested_at: Time,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Connected,
    Disconnected,
    SessionOver,
}

impl Shared {
    /// The state of a session that has just begun.
    pub(super) fn new(connection: &Connection, options: &Options, logins: SessionLogins) -> Self {
        let open = options.access == Access::Open || !logins.is_set();
        let state = ConnectionState {
            number: 1,
            timeout: connection.credentials.timeout,
            requested_at: connection.requested_at,
            phase: Phase::Connected,
        };
        Self {
            chroot: options.chroot.as_deref().unwrap_or("").trim_end_matches('/').to_owned(),
            acl: if open { Acl::Anyone } else { Acl::Creator },
            logins,
            id: connection.credentials.id,
            requests: RequestQueue::new(options.timeout),
            watches: Arc::default(),
            connection: watch::Sender::new(state),
        }
    }
}

impl Client {
    /// Begins a session with the first server that answers.
    pub(crate) async fn connect(
        options: &Options,
        credentials: &Arc<Credentials>,
        clock: &Clock,
    ) -> RequestResult<Self> {
        let tls = options.tls.as_ref().map(tls::connector).transpose().map_err(RequestError::Config)?;
        let logins = SessionLogins::ask(credentials).await?;
        Self::connect_to(Servers::new(options, tls, clock.clone()), options, logins).await
    }

    pub(super) async fn connect_to(
        mut servers: Servers,
        options: &Options,
        logins: SessionLogins,
    ) -> RequestResult<Self> {
        let (credentials, mut reasons) = (SessionCredentials::new(options.session), Vec::new());
        servers.begin_round();
        while let Some(connection) = servers.connect_next(&credentials).await {
            match connection {
                Ok(connection) => {
                    let shared = Arc::new(Shared::new(&connection, options, logins));
                    tokio::spawn(Driver::new(shared.clone(), servers).drive(connection));
                    return Ok(Self(shared));
                }
                Err(ConnectError::Permanent(error)) => return Err(RequestError::Config(error)),
                Err(ConnectError::Retryable(why) | ConnectError::ClosedByServer(why)) => reasons.push(why),
                Err(ConnectError::SessionExpired) => {
                    let why =
                        format!("{SCHEME}: the servers refuse a session timeout of {:?}", options.session);
                    return Err(RequestError::Config(Error::Config(why)));
                }
            }
        }
        let (named, why) = (options.servers.join(","), Reason::all(reasons));
        let text = format!("no ZooKeeper server answers at {named}: {why}; check that it is the client port");
        Err(RequestError::NotSent(Reason { text, ..why }))
    }

    pub(crate) fn id(&self) -> i64 {
        self.0.id
    }

    pub(crate) fn connection(&self) -> ConnectionState {
        self.0.connection.borrow().clone()
    }

    /// Observes the connection.
    pub(crate) fn connection_states(&self) -> watch::Receiver<ConnectionState> {
        self.0.connection.subscribe()
    }

    /// Asks for the login again, and uses it on this connection, too, if it is a new one. Returns whether it is.
    pub(crate) async fn refresh_login(&self) -> RequestResult<bool> {
        let is_new = self.0.logins.refresh().await?;
        if is_new {
            self.0.requests.wake.notify_one();
        }
        Ok(is_new)
    }

    /// Ends the session after all pending requests have been sent.
    pub(crate) fn close(&self) {
        self.0.requests.close();
    }

    pub(super) fn register_watch(&self, of: WatchTarget, path: &str, outlives_watchers: bool) -> Watcher {
        self.0.watches.register(of, &self.full_path(path), outlives_watchers)
    }

    /// The path on the server, with the chroot.
    pub(super) fn full_path<'a>(&'a self, path: &'a str) -> Cow<'a, str> {
        match (self.0.chroot.as_str(), path) {
            ("", path) => path.into(),
            (chroot, "/") => chroot.into(),
            (chroot, path) => format!("{chroot}{path}").into(),
        }
    }

    /// The path below the chroot.
    pub(super) fn strip_chroot<'a>(&self, full: &'a str) -> Option<&'a str> {
        full.strip_prefix(&self.0.chroot)
    }
}
