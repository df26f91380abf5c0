//! The backend. Each operation is a task on the store's own thread, so that it completes even if the caller is
//! cancelled.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Liveness, Released, Renewal, Watch,
};
use tenure_core::{
    Background, Claim, Clock, Drift, Environment, Error, HoldId, Name, OpId, Result, Suspicion,
};
use tokio::runtime::Handle;

use crate::error::{RequestError, RequestResult, SCHEME};
use crate::options::Options;
use crate::recipe::Store;
use crate::recipe::claim_record::LocalBlocker;
use crate::recipe::renew::{follow_holds, watch_after_delay};
use crate::recipe::watch::WatchedNode;

/// How long closing the session may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a waiter sleeps at most without a wake-up.
const POLL: Duration = Duration::from_secs(5);

/// Locks on ZooKeeper, in Curator's layout.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// use tenure_zookeeper::{Options, ZooKeeper};
///
/// let mut options = Options::new(["zk-1:2181", "zk-2:2181", "zk-3:2181"]);
/// options.chroot = Some("/app".to_owned());
/// let client = tenure_core::Client::new(ZooKeeper::open(options.clone()).await?);
///
/// let later = ZooKeeper::new(options)?; // does not connect yet
/// later.reach().await?;
/// # Ok(()) }
/// ```
pub struct ZooKeeper {
    info: Info,
    pub(crate) store: Arc<Store>,
    /// The runtime of `_background`.
    runtime: Handle,
    /// Closes the session when the store is dropped.
    _background: Background,
}

impl ZooKeeper {
    /// Connects to the servers in `options`.
    ///
    /// # Errors
    /// `Config` when the chroot does not exist, or a login or certificate is wrong; `Unavailable` when no server
    /// answers.
    pub async fn open(options: Options) -> Result<Self> {
        let store = Self::new(options)?;
        store.reach().await?;
        Ok(store)
    }

    /// Creates the store without connecting.
    ///
    /// # Errors
    /// `Config` when `options` name no server.
    pub fn new(options: Options) -> Result<Self> {
        if options.servers.is_empty() {
            return Err(Error::Config(format!(
                "{SCHEME}: no server is given: name at least one, as in {SCHEME}://host"
            )));
        }
        let (clock, drift, suspicion) = (Clock::boot(), Drift::default(), Suspicion::new());
        let address = options.servers.join(",") + options.chroot.as_deref().unwrap_or("");
        let (hold_events, events) = tokio::sync::mpsc::unbounded_channel();
        let store = Arc::new(Store::new(options, clock.clone(), drift, suspicion.clone(), hold_events));
        let closing = store.clone();
        let background = Background::with_cleanup("tenure-zookeeper", async move {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing.sessions.close()).await;
        });
        let runtime =
            background.handle().cloned().map_err(|e| Error::unavailable(SCHEME, "start a thread", e))?;
        runtime.spawn(watch_after_delay(Arc::downgrade(&store), store.unwatched_added.clone()));
        runtime.spawn(follow_holds(Arc::downgrade(&store), events));
        let mut info = Info::new(SCHEME, Environment::with_clock(clock));
        info.fenced = true;
        info.liveness = Liveness::Session;
        info.sizes = store.sizes.clone();
        (info.poll, info.drift, info.suspicion, info.address) = (POLL, drift, suspicion, address);
        Ok(Self { info, store, runtime, _background: background })
    }

    /// Connects, and checks that the chroot exists.
    ///
    /// # Errors
    /// As [`ZooKeeper::open`].
    pub async fn reach(&self) -> Result<()> {
        let store = self.store.clone();
        self.run("connect", String::new(), async move {
            let session = store.sessions.get_or_connect().await?;
            match session.client.stat("/").await? {
                Some(_) => Ok(()),
                None => Err(RequestError::Config(store.missing_chroot())),
            }
        })
        .await
    }

    /// The hold of this client that blocks a non-waiting claim, if there is one. If that hold's own attempt is in
    /// flight, waits for it once: usually it gets a node, and three requests are saved.
    async fn busy(&self, claim: &Claim, path: &str) -> Option<HoldId> {
        let has_node = |blocker| match blocker {
            LocalBlocker::HasNode(id) => Some(id),
            LocalBlocker::InFlight(_) => None,
        };
        match self.store.records.local_blocker(claim, path)? {
            LocalBlocker::InFlight(record) => {
                let limit = self.store.sessions.options().timeout;
                // On the store's thread: if the mutex were granted to a task that is not polled, it would block the
                // others.
                let settled = async move { drop(tokio::time::timeout(limit, record.attempt.lock()).await) };
                let _ = self.runtime.spawn(settled).await;
                self.store.records.local_blocker(claim, path).and_then(has_node)
            }
            blocker => has_node(blocker),
        }
    }

    /// Runs `work` on the store's thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        what: impl fmt::Display,
        path: String,
        work: impl Future<Output = RequestResult<T>> + Send + 'static,
    ) -> Result<T> {
        let sessions = self.store.sessions.clone();
        let explained = async move {
            match work.await {
                Err(error) => Err(sessions.explain_refusal(error).await),
                answer => answer,
            }
        };
        let answer = match self.runtime.spawn(explained).await {
            Ok(answer) => answer,
            Err(_) => Err(RequestError::unknown("the store was closed")),
        };
        answer.map_err(|error| self.info.locate(error.into_error(what, &path)))
    }
}

#[async_trait]
impl Backend for ZooKeeper {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let path = self.store.paths.path(&claim.name)?;
        if let Some(id) = self.busy(claim, &path).await {
            return Ok(Attempt::Busy { retry_after: None, behind: Some(id), position: None });
        }
        // Registered before the first await, so that a release that follows finds it.
        let record = match claim.holds {
            1 => self.store.records.get_or_insert(claim, &path),
            _ => match self.store.records.get(claim.id) {
                Some(record) => record,
                None => return Ok(Attempt::Gone),
            },
        };
        let (store, what, claim) = (self.store.clone(), format!("acquire {}", claim.name), claim.clone());
        self.run(what, path, async move { store.try_acquire(&record, &claim).await }).await
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        let path = self.store.paths.path(name)?;
        if let Interest::Claim(claim) = interest {
            return Ok(Box::new(self.store.subscribers.subscribe(claim.id)));
        }
        let (store, about) = (self.store.clone(), WatchedNode::of(interest, &path));
        self.run(format!("watch {name}"), path, async move { store.watch(about).await }).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let (store, claims) = (self.store.clone(), claims.to_vec());
        self.run("renew", String::new(), async move { store.renew(&claims).await }).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        let path = self.store.paths.path(&claim.name)?;
        let (store, kind, id) = (self.store.clone(), claim.kind, claim.id);
        let what = format!("release {}", claim.name);
        match self.store.records.get(id) {
            Some(record) => self.run(what, path, async move { store.release(&record, left).await }).await,
            None if left > 0 => Ok(Released::Gone),
            None => {
                let at = path.clone();
                self.run(what, path, async move { store.release_by_id(&at, kind, id).await }).await
            }
        }
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        let path = self.store.paths.path(name)?;
        let (store, to, at) = (self.store.clone(), name.clone(), path.clone());
        self.run(format!("count {name}"), path, async move { store.count(&to, &at, counter, op, id).await })
            .await
    }

    async fn close(&self, within: Duration) -> Result<()> {
        let store = self.store.clone();
        let ended = self.runtime.spawn(async move {
            let ending = store.sessions.end_session(|| !store.records.is_empty());
            // Some time remains for ending the session, even if the releases took all of it.
            let limit = within.clamp(CLOSE_TIMEOUT / 10, CLOSE_TIMEOUT);
            let _ = tokio::time::timeout(limit, ending).await;
        });
        let _ = ended.await;
        Ok(())
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeper")
            .field("servers", &self.store.sessions.options().servers)
            .finish_non_exhaustive()
    }
}
