//! A session with the servers, its requests and its deadline.

mod deadline;
pub(crate) mod manager;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join;
use tenure_core::{Clock, Drift, Time};
use tokio::sync::watch;

use self::deadline::SessionDeadline;
use crate::error::{RequestError, RequestResult};
use crate::options::{Access, Options};
use crate::wire::{Acl, Client, ConnectionState, ErrorCode, Mode, Phase, Stat, Watcher};

/// How often a folder may vanish while its path is created: empty containers are deleted by the server.
const MAX_TRIES: usize = 64;

#[derive(Debug)]
pub(crate) struct Session {
    client: Client,
    pub(crate) id: i64,
    limit: Duration,
    acl: Acl,
    clock: Clock,
    deadline: Mutex<SessionDeadline>,
    ended: AtomicBool,
}

impl Session {
    pub(crate) fn new(client: Client, options: &Options, clock: &Clock, drift: Drift) -> Self {
        let ConnectionState { timeout, requested_at, .. } = client.connection();
        let open = options.access == Access::Open || options.login.is_none();
        Self {
            id: client.id(),
            limit: options.timeout,
            acl: if open { Acl::Anyone } else { Acl::Creator },
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

    /// Observes its connection.
    pub(crate) fn connection_states(&self) -> watch::Receiver<ConnectionState> {
        self.client.connection_states()
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
        self.sync().await?;
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

    /// Syncs with the leader: later reads are not older than this call.
    pub(crate) async fn sync(&self) -> RequestResult<()> {
        self.client.sync().await
    }

    pub(crate) async fn create(&self, path: &str, data: &[u8], mode: Mode) -> RequestResult<(Stat, String)> {
        self.client.create(path, data, mode, self.acl).await
    }

    /// Creates an ephemeral sequential node, and lists `folder` right after it: both requests are sent at once.
    pub(crate) async fn create_and_list(
        &self,
        path: &str,
        data: &[u8],
        folder: &str,
    ) -> (RequestResult<(Stat, String)>, RequestResult<Vec<String>>) {
        join(self.create(path, data, Mode::EphemeralSequential), self.list(folder)).await
    }

    /// Creates `path` and its parents as containers, which the server deletes when they are empty.
    pub(crate) async fn make_folders(&self, path: &str) -> RequestResult<()> {
        let mut path = path;
        let mut below = Vec::new();
        for _ in 0..MAX_TRIES {
            match self.create(path, b"", Mode::Container).await {
                Ok(_) | Err(RequestError::Refused(ErrorCode::NODE_EXISTS)) => match below.pop() {
                    Some(next) => path = next,
                    None => return Ok(()),
                },
                Err(error) if error.is_no_node() => match path.rsplit_once('/') {
                    Some((above, _)) if !above.is_empty() => {
                        below.push(path);
                        path = above;
                    }
                    _ => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Err(RequestError::NotSent(format!("{path} is deleted each time")))
    }

    pub(crate) async fn list(&self, folder: &str) -> RequestResult<Vec<String>> {
        self.client.list(folder).await
    }

    pub(crate) async fn list_and_watch(&self, folder: &str) -> RequestResult<(Vec<String>, Watcher)> {
        self.client.list_and_watch(folder).await
    }

    pub(crate) async fn read(&self, path: &str) -> RequestResult<(Vec<u8>, Stat)> {
        self.client.read(path).await
    }

    /// Reads data that is not older than this call: our server may lag behind the leader. Sync and read are sent at
    /// once.
    pub(crate) async fn read_latest(&self, path: &str) -> RequestResult<(Vec<u8>, Stat)> {
        let (synced, read) = join(self.sync(), self.read(path)).await;
        synced?;
        read
    }

    pub(crate) async fn read_and_watch(&self, path: &str) -> RequestResult<(Vec<u8>, Stat, Watcher)> {
        self.client.read_and_watch(path).await
    }

    pub(crate) async fn stat(&self, path: &str) -> RequestResult<Option<Stat>> {
        self.client.stat(path).await
    }

    pub(crate) async fn stat_and_watch(&self, path: &str) -> RequestResult<(Option<Stat>, Watcher)> {
        self.client.stat_and_watch(path).await
    }

    pub(crate) async fn write(&self, path: &str, data: &[u8], version: Option<i32>) -> RequestResult<()> {
        self.client.write(path, data, version).await
    }

    pub(crate) async fn delete(&self, path: &str, version: Option<i32>) -> RequestResult<()> {
        self.client.delete(path, version).await
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
