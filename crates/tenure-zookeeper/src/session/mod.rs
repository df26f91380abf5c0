//! A session with the servers: whether it is over, and until when it is certain to live.

mod deadline;
pub(crate) mod manager;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tenure_core::{Clock, Drift, Time};
use tokio::sync::watch;

use self::deadline::SessionDeadline;
use crate::error::{RequestError, RequestResult};
use crate::options::Options;
use crate::wire::{Client, ConnectionState, Phase};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) id: i64,
    limit: Duration,
    clock: Clock,
    deadline: Mutex<SessionDeadline>,
    ended: AtomicBool,
}

impl Session {
    pub(crate) fn new(client: Client, options: &Options, clock: &Clock, drift: Drift) -> Self {
        let ConnectionState { timeout, requested_at, .. } = client.connection();
        Self {
            id: client.id(),
            limit: options.timeout,
            clock: clock.clone(),
            deadline: Mutex::new(SessionDeadline::new(timeout, options.tick, drift, requested_at)),
            ended: AtomicBool::new(false),
            client,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(SeqCst) || self.client.connection().phase == Phase::SessionOver
    }

    /// Ends the session, here and on the servers. Returns whether it was alive until now.
    pub(crate) fn end(&self) -> bool {
        self.client.close();
        !self.ended.swap(true, SeqCst)
    }

    /// The number of its current connection. Whatever was seen over an earlier one has to be checked again.
    pub(crate) fn connection_number(&self) -> u64 {
        self.client.connection().number
    }

    /// The session timeout that the servers granted.
    pub(crate) fn timeout(&self) -> Duration {
        self.client.connection().timeout
    }

    /// The deadline, updated with the timeout of the current connection.
    fn updated_deadline(&self) -> MutexGuard<'_, SessionDeadline> {
        let ConnectionState { timeout, requested_at, .. } = self.client.connection();
        let mut deadline = self.deadline.lock().unwrap();
        deadline.set_timeout(timeout, requested_at);
        deadline
    }

    /// Until when the session is certain to live, by the local clock.
    pub(crate) fn deadline(&self) -> Time {
        self.updated_deadline().until()
    }

    /// Whether the session is certain to live, by the local clock.
    pub(crate) fn is_certainly_alive(&self) -> bool {
        !self.is_over() && self.clock.now() < self.deadline()
    }

    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.updated_deadline().heartbeat_interval()
    }

    /// Whether the last heartbeat is older than it should be.
    pub(crate) fn is_heartbeat_overdue(&self) -> bool {
        let deadline = self.updated_deadline();
        self.clock.now().since(deadline.last_answered()) > deadline.heartbeat_interval() * 2
    }

    /// Sends a request that the leader answers, which confirms that the session lives.
    pub(crate) async fn send_heartbeat(&self) -> RequestResult<()> {
        let sent = self.clock.now();
        self.client.sync().await?;
        self.updated_deadline().record_answer(sent);
        Ok(())
    }

    /// Returns the deadline. If it has passed, because there was no request for long, sends heartbeats first.
    pub(crate) async fn confirm_alive(&self) -> RequestResult<Time> {
        let (interval, begin) = (self.heartbeat_interval(), self.clock.now());
        loop {
            let (now, until) = (self.clock.now(), self.deadline());
            if until > now {
                return Ok(until);
            }
            if now.since(begin) > self.limit + self.timeout() {
                return Err(RequestError::Unknown(
                    "the servers did not confirm in time that the session lives".into(),
                ));
            }
            self.send_heartbeat().await?;
            tokio::time::sleep(interval).await;
        }
    }
}

/// Waits until the session is closed on the servers.
pub(crate) async fn wait_until_closed(mut states: watch::Receiver<ConnectionState>) {
    // An error means that the driver has ended, and the session with it.
    let _ = states.wait_for(|state| state.phase == Phase::SessionOver).await;
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}
