//! The link to the servers: the session of the moment, the next one when that is over, and who is told of it.

use std::sync::{Arc, Weak};

use tenure_core::{Clock, Doubt, Drift, Error};
use tokio::sync::Mutex;
use tokio::time::Instant;
use zookeeper_client::{Client, SessionState};

use crate::ears::Ears;
use crate::fault::{Fault, SCHEME};
use crate::options::Options;
use crate::session::{Answer, Session, closed};

#[derive(Debug)]
pub(crate) struct Link {
    options: Options,
    clock: Clock,
    drift: Drift,
    /// Raised when what is held is to be looked at again.
    doubt: Doubt,
    ears: Arc<Ears>,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    session: Option<Arc<Session>>,
    /// Why the last connect failed, and when: those who waited for it need not try themselves.
    failed: Option<(Instant, Fault)>,
    closed: bool,
}

impl Link {
    pub(crate) fn new(options: Options, clock: Clock, drift: Drift, doubt: Doubt, ears: Arc<Ears>) -> Self {
        Self { options, clock, drift, doubt, ears, current: Mutex::default() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// The session of the moment, or a new one.
    pub(crate) async fn session(self: &Arc<Self>) -> Answer<Arc<Session>> {
        let asked = Instant::now();
        let mut current = self.current.lock().await;
        if let Some(session) = current.session.as_ref().filter(|s| !s.is_over()) {
            return Ok(session.clone());
        }
        if current.closed {
            return Err(Fault::Unsent("the store is closed".into()));
        }
        if let Some((_, fault)) = current.failed.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(fault.clone());
        }
        let session = match self.connect().await {
            Ok(session) => Arc::new(session),
            Err(fault) => {
                current.failed = Some((Instant::now(), fault.clone()));
                return Err(fault);
            }
        };
        current.session = Some(session.clone());
        drop(current);
        tokio::spawn(pulse(Arc::downgrade(&session)));
        tokio::spawn(follow(self.clone(), Arc::downgrade(&session)));
        Ok(session)
    }

    /// The session of the moment, if there is one.
    pub(crate) async fn standing(&self) -> Option<Arc<Session>> {
        self.current.lock().await.session.clone().filter(|session| !session.is_over())
    }

    async fn connect(&self) -> Answer<Session> {
        let Options { servers, timeout, session, .. } = &self.options;
        // Each server has its time: one that is silent must not be taken for all of them.
        let limit = *timeout * u32::try_from(servers.len()).unwrap_or(1);
        let each = (*timeout).min(*session * 2 / 5);
        let mut connector = Client::connector()
            .with_session_timeout(*session)
            .with_connection_timeout(each)
            .with_fail_eagerly();
        if let Some(login) = &self.options.login {
            let word = format!("{}:{}", login.user, login.password);
            connector = connector.with_auth("digest", word.as_bytes());
        }
        let sent = self.clock.now();
        let connecting = self.dial(connector)?;
        let nobody = |why: String| {
            Fault::Unsent(format!(
                "no ZooKeeper server answers at {}: {why}; is that its client port?",
                servers.join(",")
            ))
        };
        let client = match tokio::time::timeout(limit, connecting).await {
            Ok(Ok(client)) => client,
            Ok(Err(zookeeper_client::Error::AuthFailed)) => {
                return Err(Fault::Config(Error::Config(format!("{SCHEME}: the servers refuse the login"))));
            }
            failed => {
                if let Some(wrong) = self.distrust().await {
                    return Err(Fault::Config(wrong));
                }
                return Err(nobody(match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("nothing was heard within {limit:?}"),
                }));
            }
        };
        Ok(Session::new(client, &self.options, &self.clock, self.drift, sent))
    }

    #[cfg(feature = "tls")]
    fn dial(
        &self,
        connector: zookeeper_client::Connector,
    ) -> Answer<impl Future<Output = Result<Client, zookeeper_client::Error>> + Send + use<>> {
        let secure = self.options.tls.is_some();
        let connector = match &self.options.tls {
            Some(files) => connector.with_tls(crate::tls::options(files).map_err(Fault::Config)?),
            None => connector,
        };
        let servers = self.options.connection();
        Ok(async move {
            if secure { connector.secure_connect(&servers).await } else { connector.connect(&servers).await }
        })
    }

    /// What is wrong with the certificates, if that is why there is no connection.
    #[cfg(feature = "tls")]
    async fn distrust(&self) -> Option<Error> {
        let Options { servers, timeout, tls, .. } = self.options.clone();
        let files = tls?;
        let asked = tokio::task::spawn_blocking(move || crate::handshake::why_not(&files, &servers, timeout));
        asked.await.ok().flatten()
    }

    #[cfg(not(feature = "tls"))]
    async fn distrust(&self) -> Option<Error> {
        None
    }

    #[cfg(not(feature = "tls"))]
    fn dial(
        &self,
        connector: zookeeper_client::Connector,
    ) -> Answer<impl Future<Output = Result<Client, zookeeper_client::Error>> + Send + use<>> {
        if self.options.tls.is_some() {
            return Err(Fault::Config(Error::Config(format!(
                "{SCHEME}: encrypted connections are not compiled in: enable the cargo feature \"tls\" of \
                 tenure-zookeeper, or \"zookeeper-tls\" of tenure"
            ))));
        }
        let servers = self.options.connection();
        Ok(async move { connector.connect(&servers).await })
    }

    /// Whatever was seen so far is to be looked at again.
    fn look_again(&self) {
        self.doubt.raise();
        self.ears.tell_all();
    }

    /// Ends the session in order: its nodes go at once.
    pub(crate) async fn close(&self) {
        let session = {
            let mut current = self.current.lock().await;
            current.closed = true;
            current.session.take()
        };
        if let Some(states) = session.and_then(|session| session.close()) {
            closed(states).await;
        }
    }
}

/// Proves, again and again, that the session lives.
async fn pulse(session: Weak<Session>) {
    loop {
        let Some(every) = session.upgrade().filter(|s| !s.is_over()).map(|s| s.proves_every()) else {
            return;
        };
        tokio::time::sleep(every).await;
        let Some(session) = session.upgrade() else { return };
        // No answer is no proof; the next may have one.
        let _ = session.prove().await;
    }
}

/// Tells of a new connection, and of the end.
async fn follow(link: Arc<Link>, session: Weak<Session>) {
    let Some(mut states) = session.upgrade().and_then(|s| s.states()) else { return };
    loop {
        let state = states.changed().await;
        let Some(session) = session.upgrade() else { return };
        match state {
            SessionState::SyncConnected | SessionState::ConnectedReadOnly => {
                session.linked_again();
                link.look_again();
            }
            SessionState::Disconnected => {
                tracing::debug!(session = session.id, "the connection to ZooKeeper is lost");
            }
            _ => {
                if !session.is_over() {
                    tracing::warn!(session = session.id, %state, "the session with ZooKeeper is over");
                }
                session.end();
                link.look_again();
                return;
            }
        }
    }
}
