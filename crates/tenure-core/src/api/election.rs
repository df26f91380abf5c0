//! Elections: a lock whose holder is watched. Leadership is a guard; it ends when the guard is lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::api::{Client, Guard, Lock};
use crate::backend::{Durability, Error, Family, Fence, Holder, Interest, Kind, Name, Result, Watch};
use crate::engine::core::{Core, Engine};

/// An election. Whoever holds it leads, for a term that is its fence.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let election = client.election("cron").note("10.0.0.7:8080");
/// let leadership = election.campaign().await?;
/// let leader = election.leader().await?.expect("there is one");
/// assert_eq!(Some(leader.term), leadership.fence());
/// leadership.while_held(async { /* lead */ }).await?;
/// leadership.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a template does nothing until it is used"]
pub struct Election {
    lock: Lock,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The hold.
    pub id: String,
    /// Its term: larger than that of every leader before.
    pub term: Fence,
    /// What it says of itself.
    pub note: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// Its process.
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

    /// What a leader says of itself, an address say.
    pub fn note(self, note: impl Into<Arc<str>>) -> Self {
        Self { lock: self.lock.note(note) }
    }

    /// A term that ends after this long unless the leader stands again. Without one it is renewed.
    pub fn lease(self, lease: Duration) -> Self {
        Self { lock: self.lock.lease(lease) }
    }

    /// Ends a leadership after this long, however alive the leader is.
    pub fn max_hold(self, limit: Duration) -> Self {
        Self { lock: self.lock.max_hold(limit) }
    }

    /// How many copies must know of a leader before it leads; see [`Lock::durability`].
    pub fn durability(self, durability: Durability) -> Self {
        Self { lock: self.lock.durability(durability) }
    }

    /// Waits until elected.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; `Unsupported` on a store without fences.
    ///
    /// # Cancel safety
    /// Safe: dropping the future withdraws the candidate.
    pub async fn campaign(&self) -> Result<Guard> {
        self.lock.acquire().await
    }

    /// Leads if nobody does.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future withdraws the candidate.
    pub async fn try_campaign(&self) -> Result<Option<Guard>> {
        self.lock.try_acquire().await
    }

    /// Waits for at most `wait` to be elected.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future withdraws the candidate.
    pub async fn campaign_for(&self, wait: Duration) -> Result<Option<Guard>> {
        self.lock.try_acquire_for(wait).await
    }

    /// Who leads now.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer; `Unsupported` on a store without fences.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        Ok(self.lock.holder().await?.and_then(Leader::from))
    }

    /// Follows who leads.
    ///
    /// # Errors
    /// As [`Election::leader`].
    pub fn observe(&self) -> Result<Observer> {
        let core = self.lock.request.core();
        core.check_open()?;
        core.backend.info().require(Family::Leader)?;
        let name = self.lock.request.name()?.clone();
        Ok(Observer { engine: self.lock.request.engine.clone(), name, seen: None, watch: None })
    }
}

/// A stream of leaders.
pub struct Observer {
    engine: Arc<Engine>,
    name: Name,
    seen: Option<Option<Leader>>,
    watch: Option<Box<dyn Watch>>,
}

impl Observer {
    /// The next change: at first who leads now, then each time another one does, or nobody. Leaders that came and
    /// went between two calls are passed over; terms only grow.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown` when the store does not answer: call again.
    ///
    /// # Cancel safety
    /// Safe: call it again.
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        let core = self.engine.core.clone();
        core.check_open()?;
        // On the worker: a store wakes those who watch on a thread of its own, and the caller's waker is foreign code.
        let runtime = core.runtime()?.clone();
        let look = Look { core, name: self.name.clone(), seen: self.seen.clone() };
        let watch = self.watch.take();
        let mut looking = JoinSet::new();
        looking.spawn_on(async move { look.next(watch).await }, &runtime);
        // Dropped with the caller, the set ends the task.
        let looked = looking.join_next().await.and_then(std::result::Result::ok);
        let (leader, watch) = looked.unwrap_or(Err(Error::Closed))?;
        (self.watch, self.seen) = (Some(watch), Some(leader.clone()));
        Ok(leader)
    }
}

/// What an observer looks for: another leader than it has seen.
struct Look {
    core: Arc<Core>,
    name: Name,
    seen: Option<Option<Leader>>,
}

impl Look {
    /// Who leads now, and the watch that the next look begins with.
    async fn next(self, watch: Option<Box<dyn Watch>>) -> Result<(Option<Leader>, Box<dyn Watch>)> {
        let mut known = watch;
        loop {
            self.core.check_open()?;
            // Watch before the look, or a change in between is missed.
            let mut watch = match known.take() {
                Some(watch) => watch,
                None => self.core.backend.watch(&self.name, Interest::Holder(self.core.id)).await?,
            };
            let holder =
                self.core.snapshot(&self.name).await?.and_then(|seen| seen.holders.into_iter().next());
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

    /// Waits for a sign of change, or until the leader's term may have ended. Whether there was one: without, a watcher
    /// in another process may have been forgotten, and watches anew.
    async fn changes(&self, watch: &mut Box<dyn Watch>, left: Option<Duration>) -> Result<bool> {
        let poll = self.core.poll();
        let limit = left.map_or(poll, |l| l.min(poll).max(Duration::from_millis(10)));
        tokio::select! {
            _ = watch.signal() => Ok(true),
            () = tokio::time::sleep(limit) => Ok(false),
            closed = self.core.until_closed() => Err(closed),
        }
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("name", &self.name).field("seen", &self.seen).finish()
    }
}
