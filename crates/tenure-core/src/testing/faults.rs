//! A bad network between the core and a store: commands are delayed, repeated and reordered, requests and replies are
//! lost. For tests of this library and of code built on it.
//!
//! It preserves what a connection guarantees: a command that was sent is executed even if nobody waits for its answer,
//! and the release of an unanswered attempt is executed after that attempt.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Liveness, Released, Renewal, Watch,
};
use crate::{Claim, Error, HoldId, Name, OpId, Result};

/// A command to the store.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// An attempt.
    TryAcquire(&'a Claim),
    /// A renewal.
    Renew(&'a [Arc<Claim>]),
    /// A release.
    Release(&'a Claim),
    /// An operation on a count.
    Count(&'a Name, CountOp),
}

/// What happens to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fate {
    /// Delay before it is executed.
    pub delay: Duration,
    /// It never arrives, and the caller gets `Unavailable`.
    pub refused: bool,
    /// It never arrives, and the caller gets `Unknown`.
    pub request_lost: bool,
    /// It is executed, but the answer is lost.
    pub reply_lost: bool,
    /// Delay of the answer.
    pub late: Duration,
    /// It is executed once more: an answered attempt at once, all others after this delay, possibly after later
    /// commands.
    pub again: Option<Duration>,
}

type Plan = dyn Fn(Call<'_>) -> Fate + Send + Sync;

/// A backend behind a bad network.
///
/// ```
/// # use tenure_core as tenure;
/// # use std::sync::Arc;
/// use tenure::testing::{Call, Fate, Faults};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
///
/// // Every release is executed, but its answer is lost.
/// let bad = Faults::new(Arc::new(tenure::Memory::new()), |call| Fate {
///     reply_lost: matches!(call, Call::Release(_)),
///     ..Fate::default()
/// });
/// let client = tenure::Client::new(bad);
/// let guard = client.lock("orders/42").acquire().await?;
/// drop(guard);
/// assert!(client.lock("orders/42").acquire().await?.is_held());
///
/// // Random delays, repeats and losses, which follow from a seed.
/// let client = tenure::Client::new(Faults::chaos(Arc::new(tenure::Memory::new()), 7));
/// # Ok(()) }
/// ```
pub struct Faults {
    inner: Arc<dyn Backend>,
    plan: Box<Plan>,
    lanes: Arc<Lanes>,
    network: OnceLock<UnboundedSender<Command>>,
}

/// A command in flight, from sending to its last effect.
type Command = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long a caller waits for an answer that does not come.
const DEAF: Duration = Duration::from_millis(20);

impl Faults {
    /// Wraps a backend; `plan` decides the fate of each command.
    pub fn new(inner: Arc<dyn Backend>, plan: impl Fn(Call<'_>) -> Fate + Send + Sync + 'static) -> Self {
        Self { inner, plan: Box::new(plan), lanes: Arc::default(), network: OnceLock::new() }
    }

    /// Wraps a backend with random fates: about one command in three is late, one in ten is repeated, one in thirty is
    /// lost, and one in thirty loses its answer. A seed always draws the same fates in the same order.
    pub fn chaos(inner: Arc<dyn Backend>, seed: u64) -> Self {
        let drawn = AtomicU64::new(0);
        Self::new(inner, move |_| {
            let mut dice = Dice(mix(seed ^ mix(drawn.fetch_add(1, SeqCst))));
            let ms = |dice: &mut Dice| Duration::from_millis(dice.below(12));
            Fate {
                delay: if dice.below(3) == 0 { ms(&mut dice) } else { Duration::ZERO },
                refused: dice.below(60) == 0,
                request_lost: dice.below(60) == 0,
                reply_lost: dice.below(30) == 0,
                late: if dice.below(6) == 0 { ms(&mut dice) } else { Duration::ZERO },
                again: (dice.below(10) == 0).then(|| ms(&mut dice) * 4),
            }
        })
    }

    /// Sends a command over the network: `effect` runs there, even if the caller stops waiting.
    async fn send<R, F>(
        &self,
        what: &'static str,
        name: &Name,
        fate: Fate,
        lane: Option<Lane>,
        once: impl Fn(&Result<R>) -> bool + Send + 'static,
        effect: impl Fn(Arc<dyn Backend>) -> F + Send + 'static,
    ) -> Result<R>
    where
        R: Send + 'static,
        F: Future<Output = Result<R>> + Send + 'static,
    {
        let backend = self.inner.info().scheme;
        let what = format!("{what} {name}");
        if fate.refused {
            return Err(self.inner.info().unavailable(what, "refused by the fault layer"));
        }
        let (reply, answer) = oneshot::channel();
        let inner = self.inner.clone();
        let command = async move {
            if let Some(lane) = &lane {
                lane.turn().await;
            }
            sleep(fate.delay).await;
            if fate.request_lost {
                sleep(DEAF).await;
                return;
            }
            let result = effect(inner.clone()).await;
            let fate = Fate { again: fate.again.filter(|_| !once(&result)), ..fate };
            let in_lane = lane.as_ref().is_some_and(|l| l.attempt);
            if let Some(later) = fate.again
                && in_lane
            {
                // Without an answer the attempt may be repeated late, and its release must still come after it.
                if fate.reply_lost {
                    sleep(later).await;
                }
                let _ = effect(inner.clone()).await;
            }
            drop(lane);
            if !fate.reply_lost {
                sleep(fate.late).await;
                let _ = reply.send(result);
            } else {
                sleep(DEAF).await;
            }
            if let Some(later) = fate.again
                && !in_lane
            {
                sleep(later).await;
                let _ = effect(inner).await;
            }
        };
        self.network.get_or_init(network).send(Box::pin(command)).expect("the network outlives its senders");
        match answer.await {
            Ok(result) => result,
            Err(_) => Err(Error::unknown(backend, what, "lost by the fault layer")),
        }
    }
}

/// Attempts that were sent and not executed yet, by id.
#[derive(Debug, Default)]
struct Lanes {
    open: Mutex<HashMap<HoldId, u64>>,
    changed: Notify,
}

/// Orders a command after the attempts with the same id.
struct Lane {
    lanes: Arc<Lanes>,
    id: HoldId,
    attempt: bool,
}

impl Lane {
    fn attempt(lanes: &Arc<Lanes>, id: HoldId) -> Self {
        *lanes.open.lock().unwrap().entry(id).or_default() += 1;
        Self { lanes: lanes.clone(), id, attempt: true }
    }

    fn behind(lanes: &Arc<Lanes>, id: HoldId) -> Self {
        Self { lanes: lanes.clone(), id, attempt: false }
    }

    async fn turn(&self) {
        if self.attempt {
            return;
        }
        loop {
            let changed = self.lanes.changed.notified();
            if !self.lanes.open.lock().unwrap().contains_key(&self.id) {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.attempt {
            return;
        }
        let mut open = self.lanes.open.lock().unwrap();
        if let Some(n) = open.get_mut(&self.id) {
            *n -= 1;
            if *n == 0 {
                open.remove(&self.id);
            }
        }
        drop(open);
        self.lanes.changed.notify_waiters();
    }
}

#[async_trait]
impl Backend for Faults {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let fate = (self.plan)(Call::TryAcquire(claim));
        let lane = Lane::attempt(&self.lanes, claim.id);
        let claim = claim.clone();
        let name = claim.name.clone();
        // A session executes each request once. A repeat that nobody waits for could be granted, and held until the
        // session ends.
        let once = self.inner.info().liveness == Liveness::Session && claim.wait.is_none();
        let once = move |answer: &Result<Attempt>| once && matches!(answer, Ok(Attempt::Busy { .. }));
        self.send("acquire", &name, fate, Some(lane), once, move |b| {
            let claim = claim.clone();
            async move { b.try_acquire(&claim).await }
        })
        .await
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.inner.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let fate = (self.plan)(Call::Renew(claims));
        let Some(first) = claims.first() else { return Ok(Vec::new()) };
        let name = first.name.clone();
        let claims = claims.to_vec();
        self.send(
            "renew",
            &name,
            fate,
            None,
            |_| false,
            move |b| {
                let claims = claims.clone();
                async move { b.renew(&claims).await }
            },
        )
        .await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        let fate = (self.plan)(Call::Release(claim));
        let lane = Lane::behind(&self.lanes, claim.id);
        let claim = claim.clone();
        let name = claim.name.clone();
        self.send(
            "release",
            &name,
            fate,
            Some(lane),
            |_| false,
            move |b| {
                let claim = claim.clone();
                async move { b.release(&claim, left).await }
            },
        )
        .await
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        let fate = (self.plan)(Call::Count(name, op));
        let to = name.clone();
        self.send(
            "count",
            name,
            fate,
            None,
            |_| false,
            move |b| {
                let name = to.clone();
                async move { b.count(&name, counter, op, id).await }
            },
        )
        .await
    }

    fn shard(&self, name: &Name) -> usize {
        self.inner.shard(name)
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin()
    }

    async fn close(&self, within: Duration) -> Result<()> {
        self.inner.close(within).await
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faults").field(&self.inner).finish()
    }
}

/// A thread that executes commands, started in the order of sending, so that a store that blocks in its poll does not
/// delay other networks. It ends with the last command after the last sender is gone.
fn network() -> UnboundedSender<Command> {
    let (sender, mut commands) = unbounded_channel::<Command>();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime for the fault layer");
    std::thread::spawn(move || {
        runtime.block_on(async {
            let mut under_way = JoinSet::new();
            loop {
                tokio::select! {
                    biased;
                    command = commands.recv() => match command {
                        Some(command) => drop(under_way.spawn(command)),
                        None => break,
                    },
                    Some(_) = under_way.join_next() => {}
                }
            }
            under_way.join_all().await;
        });
    });
    sender
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % n
    }
}

/// SplitMix64.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
