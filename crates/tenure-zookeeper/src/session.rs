//! One session with the servers: its requests, and until when it is certain to live.

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::{Clock, Drift, Time};
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode, OneshotWatcher, SessionState, Stat, StateWatcher};

use crate::fault::Fault;
use crate::options::{Access, Options};
use crate::proof::Proof;

pub(crate) type Answer<T> = Result<T, Fault>;

#[derive(Debug)]
pub(crate) struct Session {
    /// Taken out to close it: the session ends with the last clone.
    client: Mutex<Option<Client>>,
    pub(crate) id: i64,
    /// What the servers granted.
    pub(crate) granted: Duration,
    limit: Duration,
    open: bool,
    clock: Clock,
    proof: Mutex<Proof>,
    /// How many connections it has had.
    links: AtomicU64,
    ended: AtomicBool,
}

impl Session {
    pub(crate) fn new(client: Client, options: &Options, clock: &Clock, drift: Drift, sent: Time) -> Self {
        let granted = client.session_timeout();
        Self {
            id: client.session_id().0,
            granted,
            limit: options.timeout,
            open: options.access == Access::Open || options.login.is_none(),
            clock: clock.clone(),
            proof: Mutex::new(Proof::new(granted, options.tick, drift, sent)),
            links: AtomicU64::new(1),
            ended: AtomicBool::new(false),
            client: Mutex::new(Some(client)),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Nothing of it counts any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, SeqCst);
        drop(self.client.lock().unwrap().take());
    }

    /// Tells the servers that it is over, as soon as the last request has been answered. What there is to watch.
    pub(crate) fn close(&self) -> Option<StateWatcher> {
        let client = self.client.lock().unwrap().take()?;
        self.ended.store(true, SeqCst);
        Some(client.state_watcher())
    }

    pub(crate) fn states(&self) -> Option<StateWatcher> {
        Some(self.client.lock().unwrap().as_ref()?.state_watcher())
    }

    /// Which of its connections this is. Whatever was seen over an earlier one is to be looked at again.
    pub(crate) fn link(&self) -> u64 {
        self.links.load(SeqCst)
    }

    pub(crate) fn linked_again(&self) {
        self.links.fetch_add(1, SeqCst);
    }

    pub(crate) fn until(&self) -> Time {
        self.proof.lock().unwrap().until()
    }

    /// Whether it lives, by what is known here.
    pub(crate) fn is_certain(&self) -> bool {
        !self.is_over() && self.clock.now() < self.until()
    }

    pub(crate) fn proves_every(&self) -> Duration {
        self.proof.lock().unwrap().every()
    }

    /// Whether the leader has not been heard of for longer than it should take.
    pub(crate) fn is_unproved(&self) -> bool {
        let proof = self.proof.lock().unwrap();
        self.clock.now().since(proof.last()) > proof.every() * 2
    }

    /// Asks the leader, and so proves that the session lives.
    pub(crate) async fn prove(&self) -> Answer<()> {
        let sent = self.clock.now();
        self.sync().await?;
        self.proof.lock().unwrap().answered(sent);
        Ok(())
    }

    /// Until when it is certain to live: later than now, which after a long silence has to be proved first.
    pub(crate) async fn prove_for_now(&self) -> Answer<Time> {
        let (every, begin) = (self.proves_every(), self.clock.now());
        loop {
            let (now, until) = (self.clock.now(), self.until());
            if until > now {
                return Ok(until);
            }
            if now.since(begin) > self.limit + self.granted {
                return Err(Fault::Unknown("the session is not proved".into()));
            }
            self.prove().await?;
            tokio::time::sleep(every).await;
        }
    }

    fn client(&self) -> Answer<Client> {
        let client = self.client.lock().unwrap().clone();
        client.ok_or_else(|| Fault::Ended("the session is over".into()))
    }

    /// An answer, within the time limit: a server that is silent gives none, and says no word of it.
    async fn ask<T, F: Future<Output = Result<T, zookeeper_client::Error>>>(
        &self,
        request: impl FnOnce(Client) -> F,
    ) -> Answer<T> {
        let answer = timeout(self.limit, request(self.client()?)).await;
        match answer {
            Ok(answer) => answer.map_err(Fault::from),
            Err(_) => Err(Fault::Unknown(format!("no answer within {:?}", self.limit))),
        }
    }

    /// What is read afterwards is not older than this call.
    pub(crate) async fn sync(&self) -> Answer<()> {
        self.ask(async |client| client.sync("/").await).await
    }

    pub(crate) async fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Answer<(Stat, String)> {
        self.ask(async |client| {
            let sequential = matches!(mode, CreateMode::EphemeralSequential);
            let (stat, sequence) = client.create(path, data, &mode.with_acls(self.acls())).await?;
            Ok((stat, if sequential { format!("{path}{sequence}") } else { path.to_owned() }))
        })
        .await
    }

    /// The same, and what stands in `folder` right after it: both are sent at once.
    pub(crate) async fn create_and_list(
        &self,
        path: &str,
        data: &[u8],
        folder: &str,
    ) -> (Answer<(Stat, String)>, Answer<Vec<String>>) {
        futures_util::join!(self.create(path, data, CreateMode::EphemeralSequential), self.list(folder))
    }

    /// Makes `path` and all above it. They go by themselves when they are empty.
    pub(crate) async fn make_folders(&self, path: &str) -> Answer<()> {
        self.ask(async |client| {
            match client.mkdir(path, &CreateMode::Container.with_acls(self.acls())).await {
                Err(zookeeper_client::Error::Unimplemented) => {
                    client.mkdir(path, &CreateMode::Persistent.with_acls(self.acls())).await
                }
                answer => answer,
            }
        })
        .await
    }

    pub(crate) async fn list(&self, folder: &str) -> Answer<Vec<String>> {
        self.ask(async |client| client.list_children(folder).await).await
    }

    pub(crate) async fn list_and_watch(&self, folder: &str) -> Answer<(Vec<String>, OneshotWatcher)> {
        self.ask(async |client| client.list_and_watch_children(folder).await).await
    }

    pub(crate) async fn read(&self, path: &str) -> Answer<(Vec<u8>, Stat)> {
        self.ask(async |client| client.get_data(path).await).await
    }

    /// The same, not older than this call: the server that we speak to may be behind the leader. Both are sent at once.
    pub(crate) async fn read_latest(&self, path: &str) -> Answer<(Vec<u8>, Stat)> {
        let (synced, read) = futures_util::join!(self.sync(), self.read(path));
        synced?;
        read
    }

    pub(crate) async fn read_and_watch(&self, path: &str) -> Answer<(Vec<u8>, Stat, OneshotWatcher)> {
        self.ask(async |client| client.get_and_watch_data(path).await).await
    }

    pub(crate) async fn stat(&self, path: &str) -> Answer<Option<Stat>> {
        self.ask(async |client| client.check_stat(path).await).await
    }

    pub(crate) async fn stat_and_watch(&self, path: &str) -> Answer<(Option<Stat>, OneshotWatcher)> {
        self.ask(async |client| client.check_and_watch_stat(path).await).await
    }

    pub(crate) async fn write(&self, path: &str, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        self.ask(async |client| client.set_data(path, data, version).await).await
    }

    pub(crate) async fn delete(&self, path: &str, version: Option<i32>) -> Answer<()> {
        self.ask(async |client| client.delete(path, version).await).await
    }

    fn acls(&self) -> Acls<'static> {
        if self.open { Acls::anyone_all() } else { Acls::creator_all() }
    }
}

/// Waits until the servers have been told, as far as that is possible.
pub(crate) async fn closed(mut states: StateWatcher) {
    while !matches!(states.state(), SessionState::Closed | SessionState::Expired | SessionState::AuthFailed) {
        states.changed().await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}
