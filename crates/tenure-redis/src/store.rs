//! The Redis backend. Each operation is one Lua script on the keys of one name.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Query, Released, Renewal,
    Snapshot, Watch,
};
use tenure_core::{Claim, Environment, Error, Family, Finding, Kind, Name, OpId, Result};
use tokio::sync::OnceCell;

use crate::described::Described;
use crate::error::ErrorContext;
use crate::keys::Keys;
use crate::options::{Fences, Layout, Options};
use crate::scriptless::CompareAndDelete;
use crate::transport::{Failure, Transport, join_all};

/// The poll interval of a waiter that receives no signal.
const POLL: Duration = Duration::from_secs(5);

const PLAIN_REFUSALS: &[(Family, &str)] = &[
    (Family::Fair, "a string has no queue"),
    (Family::Leader, "a string provides no fence, and elections need one"),
    (Family::ReadWrite, "a string has one holder"),
    (Family::Permit, "a string has one holder"),
];

/// Locks on Redis, in Redisson's layout or the plain one.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// use tenure_redis::{Address, Options, Redis, Secret, Topology};
///
/// let mut options = Options::new(Topology::Standalone(Address::tcp("cache-1", 6379)));
/// options.password = Some(Secret::file("/run/secrets/redis"));
/// let store = Redis::open(options.clone()).await?;
/// let client = tenure_core::Client::new(store);
///
/// let later = Redis::new(options)?; // does not connect yet
/// later.reach().await?;
/// # Ok(()) }
/// ```
pub struct Redis {
    pub(crate) transport: Arc<Transport>,
    pub(crate) info: Info,
    pub(crate) prefix: String,
    pub(crate) layout: Layout,
    pub(crate) fences: Fences,
    pub(crate) slack: Duration,
    /// Whether the warning that this user may not subscribe was already logged.
    pub(crate) warned_polling: AtomicBool,
    /// The commands that replace scripts in the plain layout, for users who may not run scripts.
    pub(crate) scriptless: OnceCell<Option<CompareAndDelete>>,
    /// Whether the server has no `SET … NX GET`.
    pub(crate) no_set_get: AtomicBool,
    /// The holds of the plain layout that have a record.
    pub(crate) described: Described,
}

impl Redis {
    /// Connects to the server, sentinels or cluster that `options` name.
    ///
    /// # Errors
    /// `Config` when an address, a password or a certificate is wrong; `Unavailable` when nobody answers.
    pub async fn open(options: Options) -> Result<Self> {
        let store = Self::new(options)?;
        store.reach().await?;
        Ok(store)
    }

    /// Creates the store without connecting: for a quorum's nodes, which may be down at the moment.
    ///
    /// # Errors
    /// `Config` when an address or a certificate is wrong.
    pub fn new(options: Options) -> Result<Self> {
        let (prefix, fences, slack) = (options.prefix.clone(), options.fences, options.permit_slack);
        let (scheme, watchdog) = (options.scheme(), options.redisson_watchdog);
        let layout = options.layout;
        let plain = layout == Layout::Plain;
        let transport = Transport::new(&options)?;
        let mut info = Info::new(scheme, Environment::system());
        (info.fenced, info.tokens, info.durable) = (!plain, plain, true);
        info.poll = POLL;
        info.address = options.topology.to_string();
        info.suspicion = transport.suspicion.clone();
        if plain {
            (info.families, info.refusals) = (&[Family::Lock], PLAIN_REFUSALS);
        } else {
            // A JVM reader shortens the TTL of the whole lock to its own lease.
            info.shared_proof = Some(watchdog / 3);
        }
        Ok(Self {
            transport,
            info,
            prefix,
            layout,
            fences,
            slack,
            warned_polling: AtomicBool::new(false),
            scriptless: OnceCell::new(),
            no_set_get: AtomicBool::new(false),
            described: Described::default(),
        })
    }

    /// Connects and waits for the server's answer.
    ///
    /// # Errors
    /// As [`Redis::open`].
    pub async fn reach(&self) -> Result<()> {
        self.transport.reach().await?;
        self.scriptless().await.map(drop)
    }

    /// The keys of a name. Fails if a cluster would put them into different slots.
    pub(crate) fn keys(&self, name: &Name) -> Result<Keys> {
        let keys = Keys::new(&self.prefix, name);
        if self.transport.is_cluster() {
            keys.in_one_slot()?;
        }
        Ok(keys)
    }

    /// The key of the last fence, and its retention in ms: 0 means Redisson's counter, which never expires.
    pub(crate) fn fence(&self, keys: &Keys) -> (String, String) {
        match self.fences {
            Fences::Ours { retention } => (keys.fence(), millis(retention).to_string()),
            Fences::Redisson => (keys.token(), "0".to_owned()),
        }
    }

    pub(crate) fn context<'a>(
        &'a self,
        verb: &'static str,
        name: &'a Name,
        keys: &'a Keys,
    ) -> ErrorContext<'a> {
        ErrorContext { info: &self.info, verb, name: Some(name), key: keys.name() }
    }

    pub(crate) fn call_error(&self, verb: &'static str, name: &Name, keys: &Keys, failure: Failure) -> Error {
        self.context(verb, name, keys).to_error(failure)
    }
}

pub(crate) fn words<'a, const N: usize>(words: &[&'a str; N]) -> [&'a [u8]; N] {
    words.map(str::as_bytes)
}

/// Converts to whole milliseconds, at least 1 and at most what the server accepts.
pub(crate) fn millis(d: Duration) -> u64 {
    const CENTURY: u128 = 100 * 365 * 86_400 * 1000;
    d.as_millis().clamp(1, CENTURY) as u64
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("scheme", &self.info.scheme).field("prefix", &self.prefix).finish()
    }
}

#[async_trait]
impl Backend for Redis {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if self.scriptless().await?.is_some() {
            return self.acquire_scriptless(claim).await;
        }
        let keys = &self.keys(&claim.name)?;
        if self.layout == Layout::Plain
            && let Some(attempt) = self.plain_first(claim, keys).await?
        {
            return Ok(attempt);
        }
        let call = match self.layout {
            Layout::Redisson => self.redisson_attempt(claim, keys)?,
            Layout::Plain => self.plain_attempt(claim, keys),
        };
        let until = self.info.drift.until(self.info.clock().now(), claim.lease);
        let reply = self.send_attempt(claim, keys, call).await?;
        let attempt = self.read_attempt(claim, keys, reply, until)?;
        if self.layout == Layout::Plain && claim.wait.is_none() && !matches!(attempt, Attempt::Granted { .. })
        {
            // Nothing is there that would have a record.
            self.described.forget(claim.id);
        }
        Ok(attempt)
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.watch_channel(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        if self.scriptless().await?.is_some() {
            let renewals = join_all(claims.iter().map(|claim| self.renew_scriptless(claim)).collect()).await;
            let unanswered = |e: Error| if claims.len() > 1 { Ok(Renewal::Unanswered) } else { Err(e) };
            return renewals.into_iter().map(|renewal| renewal.or_else(unanswered)).collect();
        }
        self.renew_batched(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        if let Some(command) = self.scriptless().await? {
            return self.release_scriptless(command, claim, left).await;
        }
        let keys = &self.keys(&claim.name)?;
        let sent = match self.layout {
            Layout::Redisson => self.release_redisson(claim, left, keys).await?,
            Layout::Plain => {
                let call = self.plain_release(claim, left, keys);
                let sent = self.transport.call_after_attempt(claim.id, call).await;
                if left == 0 && sent.is_ok() {
                    self.described.forget(claim.id);
                }
                sent
            }
        };
        self.release_outcome(claim, keys, sent)
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        self.run_count(name, counter, op, id).await
    }

    fn shard(&self, name: &Name) -> usize {
        self.transport.shard(Keys::new(&self.prefix, name).name().as_bytes())
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Admin for Redis {
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>> {
        match query {
            Query::Name(name) => Ok(self.inspect_name(&name).await?.into_iter().collect()),
            Query::Prefix { prefix, limit, idle } => self.inspect_prefix(&prefix, limit, idle).await,
        }
    }

    async fn expel(&self, name: &Name, kind: Kind, holder: &str) -> Result<Released> {
        self.force_release(name, kind, holder).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>> {
        self.run_checks().await
    }
}
