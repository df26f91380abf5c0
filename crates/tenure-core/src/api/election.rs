//! Elections: a lock whose holder can be observed. Leadership is a guard; it ends when the guard is lost.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use tokio::task::JoinSet;

use crate::api::{Client, Guard, Lock};
use crate::backend::{Durability, Error, Family, Fence, Holder, Interest, Kind, Name, Query, Result, Watch};
use crate::engine::core::{Core, Engine};

/// An election. Whoever holds it is the leader, for a term that is identified by the fence of the hold.
///
/// ```
/// # use tenure_core as tenure;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// let election = client.election("cron").note("10.0.0.7:8080").max_hold(Duration::from_secs(3600));
/// let leadership = election.campaign().await?; // waits until elected
/// let leader = election.leader().await?.expect("there is one");
/// assert_eq!(Some(leader.term), leadership.fence());
/// leadership.while_held(async { /* lead */ }).await?;
///
/// let standby = client.election("cron").lease(Duration::from_secs(60)).durability(tenure::Durability::Master);
/// assert!(standby.try_campaign().await?.is_none()); // does not wait
/// assert!(standby.try_campaign_for(Duration::from_millis(10)).await?.is_none());
/// leadership.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is used"]
pub struct Election {
    lock: Lock,
}

/// The current leader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The id of its hold.
    pub id: String,
    /// Its term: larger than that of every earlier leader.
    pub term: Fence,
    /// Its note.
    pub note: Option<String>,
    /// Its host name.
    pub host: Option<String>,
    /// Its process id.
    pub pid: Option<u32>,
}

impl Leader {
    fn from(holder: Holder) -> Option<Self> {
        let Holder { id, fence, note, host, pid, .. } = holder;
        Some(Self { id, term: fence?, note, host, pid })
    }
}

impl Election {
    pub(crate) fn new(client: &Client, name: Result<Name>) -> Self {
        let mut lock = Lock::new(client, name, Kind::Leader);
        let info = client.engine.core.backend.info();
        if !info.fenced && lock.request.name.is_ok() {
            lock.request.name = Err(Error::Unsupported {
                backend: info.scheme,
                what: "an election".into(),
                reason: "this store has no fencing token, and so no terms".into(),
            });
        }
        Self { lock }
    }

    /// Sets the note that a leader publishes, for instance an address.
    pub fn note(self, note: impl Into<Arc<str>>) -> Self {
        Self { lock: self.lock.note(note) }
    }

    /// Ends a term after this lease, without renewal: the leader must campaign again. By default the term is renewed
    /// until the guard is gone.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lock: self.lock.lease(lease) }
    }

    /// Ends a leadership after this long, even if the leader is alive.
    pub fn max_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.max_hold(limit) }
    }

    /// Sets how many copies must have stored a leader before it leads; see [`Lock::durability`].
    pub fn durability(self, durability: Durability) -> Self {
        Self { lock: self.lock.durability(durability) }
    }

    /// Campaigns until elected.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; `Unsupported` on a store without fences.
    ///
    /// # Cancel safety
    /// Safe: dropping the future withdraws the candidate.
    pub async fn campaign(&self) -> Result<Guard> {
        self.lock.acquire().await
    }

    /// Becomes the leader if there is none; `None` if there is one.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future withdraws the candidate.
    pub async fn try_campaign(&self) -> Result<Option<Guard>> {
        self.lock.try_acquire().await
    }

    /// Campaigns for at most `wait`; `None` if not elected by then.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future withdraws the candidate.
    pub async fn try_campaign_for(&self, wait: Duration) -> Result<Option<Guard>> {
        self.lock.try_acquire_for(wait).await
    }

    /// Returns the current leader, or `None` if nobody leads.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` on a store without fences.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        Ok(self.lock.holder().await?.and_then(Leader::from))
    }

    /// Returns a stream of leaders, which begins with the current one.
    ///
    /// # Errors
    /// As [`Election::leader`].
    pub fn observe(&self) -> Result<Observer> {
        let core = self.lock.request.core();
        core.check_open()?;
        core.backend.info().require(Family::Leader)?;
        let name = self.lock.request.name()?.clone();
        let engine = self.lock.request.engine.clone();
        Ok(Observer { engine, name, seen: None, watch: None, looking: None, ended: false })
    }
}

/// A stream of leaders. [`Observer::next`] needs no further crate; the [`Stream`] has the same items, and ends when the
/// client is closed.
///
/// ```
/// use futures_util::StreamExt;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let leadership = client.election("cron").note("10.0.0.7").campaign().await?;
/// let mut leaders = client.election("cron").observe()?.filter_map(async |seen| seen.ok().flatten()).boxed();
/// assert_eq!(leaders.next().await.unwrap().note.as_deref(), Some("10.0.0.7"));
/// # leadership.release().await }
/// ```
#[must_use = "an observer does nothing until it is polled"]
pub struct Observer {
    engine: Arc<Engine>,
    name: Name,
    seen: Option<Option<Leader>>,
    watch: Option<Box<dyn Watch>>,
    /// The search for the next leader, which runs on the worker.
    looking: Option<JoinSet<Looked>>,
    /// The stream has returned its last item.
    ended: bool,
}

type Looked = Result<(Option<Leader>, Box<dyn Watch>)>;

impl Observer {
    /// Returns the next change: on the first call the current leader, then each new leader, or `None` when there is
    /// none. Leaders that came and went between two calls are skipped; terms only grow.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
    /// # let client = tenure_core::Client::new(tenure_core::Memory::new());
    /// let mut observer = client.election("cron").observe()?;
    /// assert_eq!(observer.next().await?, None); // nobody leads yet
    /// let leadership = client.election("cron").campaign().await?;
    /// assert_eq!(observer.next().await?.map(|leader| leader.term), leadership.fence());
    /// # leadership.release().await }
    /// ```
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer: call again.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        // A search that an earlier call has left may have found a leader that is gone by now.
        self.looking = None;
        poll_fn(|cx| self.poll_leader(cx)).await
    }

    fn poll_leader(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Leader>>> {
        if self.looking.is_none() {
            self.looking = Some(self.look()?);
        }
        let Some(looking) = &mut self.looking else { return Poll::Pending };
        let looked = ready!(looking.poll_join_next(cx)).and_then(std::result::Result::ok);
        self.looking = None;
        let (leader, watch) = looked.unwrap_or(Err(Error::Closed))?;
        (self.watch, self.seen) = (Some(watch), Some(leader.clone()));
        Poll::Ready(Ok(leader))
    }

    /// Starts the search for another leader than the last one seen. It runs on the worker: a store notifies watchers on
    /// its own thread, and must not run the caller's waker there. Dropping the set ends it.
    fn look(&mut self) -> Result<JoinSet<Looked>> {
        let core = self.engine.core.clone();
        core.check_open()?;
        let runtime = core.runtime()?.clone();
        let look = Look { core, name: self.name.clone(), seen: self.seen.clone() };
        let watch = self.watch.take();
        let mut looking = JoinSet::new();
        looking.spawn_on(async move { look.next(watch).await }, &runtime);
        Ok(looking)
    }
}

impl Stream for Observer {
    type Item = Result<Option<Leader>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let leader = ready!(self.poll_leader(cx));
        self.ended = matches!(leader, Err(Error::Closed));
        Poll::Ready(Some(leader))
    }
}

/// The search for a leader other than the last one seen.
struct Look {
    core: Arc<Core>,
    name: Name,
    seen: Option<Option<Leader>>,
}

impl Look {
    /// Waits for a different leader, and returns it with the watch for the next call.
    async fn next(self, watch: Option<Box<dyn Watch>>) -> Looked {
        let mut known = watch;
        loop {
            self.core.check_open()?;
            // Watch before the look, or a change in between is missed.
            let mut watch = match known.take() {
                Some(watch) => watch,
                None => self.core.backend.watch(&self.name, Interest::Holder(self.core.id)).await?,
            };
            let admin = self.core.backend.require_admin()?;
            let seen = self.core.ask(|| admin.inspect(Query::Name(self.name.clone()))).await?;
            let holder = seen.into_iter().next().and_then(|seen| seen.holders.into_iter().next());
            let left = holder.as_ref().and_then(|h| h.left);
            let leader = holder.and_then(Leader::from);
            if self.seen.as_ref() != Some(&leader) {
                return Ok((leader, watch));
            }
            if self.changes(&mut watch, left).await? {
                known = Some(watch);
            }
        }
    }

    /// Waits for a signal, or until the leader's term may have ended. Returns whether there was a signal: without one,
    /// another process may have dropped this watcher, so the caller subscribes again.
    async fn changes(&self, watch: &mut Box<dyn Watch>, left: Option<Duration>) -> Result<bool> {
        let poll = self.core.poll();
        let limit = left.map_or(poll, |l| l.min(poll).max(Duration::from_millis(10)));
        tokio::select! {
            biased;
            closed = self.core.until_closed() => Err(closed),
            _ = watch.signal() => Ok(true),
            () = tokio::time::sleep(limit) => Ok(false),
        }
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("name", &self.name).field("seen", &self.seen).finish()
    }
}
