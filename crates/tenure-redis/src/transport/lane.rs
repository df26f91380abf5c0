//! The connection of one runtime to one node, opened by the first caller that needs it while others wait for that.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tenure_core::backend::Backoff;
use tokio::sync::watch;

use super::connection::Connection;
use super::connections::Connections;
use super::driver::drive;
use super::failure::Failure;
use super::reconnect_backoff;
use crate::Address;

/// How long to try to reconnect after a connection has ended, even if nobody calls.
const REOPENS: Duration = Duration::from_secs(30);

type Opened = Result<Arc<Connection>, Failure>;

#[derive(Debug)]
pub(crate) struct Lane {
    to: Address,
    connections: Weak<Connections>,
    /// Whether it reconnects by itself after its connection has ended.
    reopens: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    /// The connect in progress.
    opening: Option<watch::Receiver<Option<Opened>>>,
    backoff: Backoff,
    /// Why it was closed: a connect in progress is discarded then.
    ended: Option<String>,
}

impl State {
    /// Drops a dead connection.
    fn part(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // Back off if the server accepts connections and closes them again, or is the wrong server.
        if connection.has_worked() {
            self.backoff.worked();
        } else {
            self.backoff.failed();
        }
    }
}

impl Lane {
    pub(crate) fn new(to: Address, connections: Weak<Connections>, reopens: bool) -> Arc<Self> {
        let state = State { connection: None, opening: None, backoff: reconnect_backoff(), ended: None };
        Arc::new(Self { to, connections, reopens, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The connection, if it is open.
    pub(crate) fn ready(&self) -> Option<Arc<Connection>> {
        self.lock().connection.as_ref().filter(|connection| !connection.is_dead()).cloned()
    }

    /// The connection, opened if there is none.
    pub(crate) async fn connection(self: &Arc<Self>, connections: &Connections, deadline: Instant) -> Opened {
        if let Some(connection) = self.ready() {
            return Ok(connection);
        }
        let mut opening = self.open(connections);
        let opened = async {
            match opening.wait_for(Option::is_some).await {
                Ok(opened) => opened.clone().expect("it was waited for"),
                Err(_) => {
                    Err(Failure::NotExecuted(format!("{}: the runtime of the connection has ended", self.to)))
                }
            }
        };
        match connections.until(deadline, opened).await {
            Some(opened) => opened,
            None => Err(Failure::NotExecuted(format!("{}: no connection in time", self.to))),
        }
    }

    /// Starts to connect, unless that is in progress.
    fn open(self: &Arc<Self>, connections: &Connections) -> watch::Receiver<Option<Opened>> {
        let mut state = self.lock();
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_dead()) {
            return watch::channel(Some(Ok(connection.clone()))).1;
        }
        state.part();
        if let Some(why) = &state.ended {
            return watch::channel(Some(Err(self.over(why)))).1;
        }
        // If the sender is gone, its runtime has ended.
        if let Some(opening) = state.opening.as_ref().filter(|o| o.has_changed().is_ok()) {
            return opening.clone();
        }
        let (told, opening) = watch::channel(None);
        state.opening = Some(opening.clone());
        let delay = state.backoff.delay();
        drop(state);
        let lane = self.clone();
        connections.handle().spawn(async move {
            let mut opened = lane.connect(delay).await;
            let mut state = lane.lock();
            state.opening = None;
            let late = match &state.ended {
                Some(why) => std::mem::replace(&mut opened, Err(lane.over(why))).ok(),
                None => None,
            };
            match &opened {
                Ok(connection) => state.connection = Some(connection.clone()),
                Err(_) => drop(state.backoff.failed()),
            }
            drop(state);
            if let Some(connection) = late {
                connection.close("it is not needed any more");
            }
            told.send_replace(Some(opened));
        });
        opening
    }

    async fn connect(self: &Arc<Self>, delay: Duration) -> Opened {
        let gone = || Failure::NotExecuted(format!("{}: the connections were closed", self.to));
        let (transport, limit) = {
            let connections = self.connections.upgrade().ok_or_else(gone)?;
            let transport = connections.transport().ok_or_else(gone)?;
            let limit = transport.timeout;
            (transport, limit)
        };
        let began = Instant::now();
        tokio::time::sleep(delay.min(limit / 2)).await;
        let left = limit.saturating_sub(began.elapsed());
        let connected = transport.connector.connect(&self.to, left).await;
        let met = connected.and_then(|(wire, mut hello)| {
            transport.on_connect(&self.to, &mut hello).map(|()| (wire, hello.up))
        });
        let (wire, up) = met.inspect_err(|_| transport.map.doubt(&self.to))?;
        let connection = Connection::new(self.to.clone(), wire, up, transport.attempts.clone());
        let (driving, driven, lane) =
            (drive(connection.clone(), limit), connection.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            driving.await;
            if let Some(transport) = lane
                .upgrade()
                .and_then(|lane| lane.connections.upgrade())
                .and_then(|connections| connections.transport())
            {
                transport.on_disconnect(&driven.to);
            }
            let ended = lane.upgrade().is_some_and(|lane| lane.ended(&driven));
            drop(driven);
            if ended {
                reopen(&lane).await;
            }
        });
        Ok(connection)
    }

    /// Handles the end of the connection. Returns whether to reconnect although nobody calls.
    fn ended(&self, connection: &Arc<Connection>) -> bool {
        let mut state = self.lock();
        if !state.connection.as_ref().is_some_and(|l| Arc::ptr_eq(l, connection)) {
            return false;
        }
        state.part();
        self.reopens && state.ended.is_none()
    }

    fn over(&self, why: &str) -> Failure {
        Failure::NotExecuted(format!("{}: {why}", self.to))
    }

    /// Closes the connection for good. Later calls need another lane.
    pub(crate) fn close(&self, why: &str) {
        let mut state = self.lock();
        state.ended.get_or_insert_with(|| why.to_owned());
        let connection = state.connection.take();
        drop(state);
        if let Some(connection) = connection {
            connection.close(why);
        }
    }
}

/// Reconnects to find out which server is there now: it may be another one, or have lost its data. It may take time to
/// start.
async fn reopen(lane: &Weak<Lane>) {
    let began = Instant::now();
    while began.elapsed() < REOPENS {
        let Some(lane) = lane.upgrade() else { return };
        let Some(connections) =
            lane.connections.upgrade().filter(|connections| connections.transport().is_some())
        else {
            return;
        };
        if lane.lock().ended.is_some() {
            return;
        }
        let mut opening = lane.open(&connections);
        drop((lane, connections));
        let opened = opening.wait_for(Option::is_some).await;
        if !matches!(opened.as_deref(), Ok(Some(Err(Failure::NotExecuted(_))))) {
            return;
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close("the connections were closed");
    }
}
