//! What a test works with: a server of its own, clients of it, straight or through a network that fails, and waiting
//! with a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Backend, Claim, Client, ClientId, HoldId, Kind, Lock, Name, Settings};
use tenure_redis::{Address, Options, Topology};
use testbed::{Proxy, Redis, RedisOptions, Seen, Value};

/// No test waits longer than this for anything that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The default lease of clients here. Renewed every third of it.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// How long a call over a network that fails may take.
pub(crate) const CALL: Duration = Duration::from_millis(400);

/// A server of its own.
pub(crate) struct Bench {
    pub(crate) redis: Redis,
}

impl Bench {
    pub(crate) fn start() -> Self {
        Self::with(RedisOptions::default())
    }

    pub(crate) fn with(options: RedisOptions) -> Self {
        Self { redis: Redis::start(options).expect("a server") }
    }

    /// With these lines in its configuration.
    pub(crate) fn configured(lines: &[&str]) -> Self {
        Self::with(RedisOptions {
            lines: lines.iter().map(|l| (*l).to_owned()).collect(),
            ..RedisOptions::default()
        })
    }

    pub(crate) fn options(&self) -> Options {
        options(self.redis.port())
    }

    pub(crate) async fn backend(&self) -> Arc<tenure_redis::Redis> {
        open(self.options()).await
    }

    /// A client of its own.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(settings()).await
    }

    pub(crate) async fn client_with(&self, settings: Settings) -> Client {
        Client::with(self.backend().await, settings)
    }

    /// A way to the server that can fail.
    pub(crate) fn network(&self) -> Network {
        Network { proxy: Proxy::start(self.redis.port()).expect("a proxy") }
    }

    /// A command to the server, on a connection of its own.
    pub(crate) fn cmd(&self, words: &[&str]) -> Value {
        self.redis.cmd(words).unwrap_or_else(|e| panic!("{words:?}: {e}"))
    }

    /// The same, for a number.
    pub(crate) fn number(&self, words: &[&str]) -> i64 {
        self.cmd(words).int().expect("a number")
    }

    pub(crate) fn exists(&self, key: &str) -> bool {
        self.number(&["EXISTS", key]) == 1
    }

    /// All keys there are.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = self.cmd(&["KEYS", "*"]).texts();
        keys.sort();
        keys
    }

    /// How many milliseconds are left to a key.
    pub(crate) fn left(&self, key: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(&["PTTL", key])).unwrap_or(0))
    }

    /// Whether the server lets `key` live for as long as a guard counts on it.
    pub(crate) fn covers(&self, key: &str, guard: &tenure_core::Guard) -> bool {
        let (remaining, then) = (guard.remaining(), Instant::now());
        let left = self.left(key);
        left + then.elapsed() >= remaining
    }
}

/// A way to the server that can fail.
pub(crate) struct Network {
    pub(crate) proxy: Proxy,
}

impl Network {
    pub(crate) fn options(&self) -> Options {
        let mut options = options(self.proxy.port());
        options.timeout = CALL;
        options
    }

    /// On a busy machine it may take more than one call to get there.
    pub(crate) async fn backend(&self) -> Arc<tenure_redis::Redis> {
        let mut opened = None;
        eventually("the store opens", async || {
            opened = tenure_redis::Redis::open(self.options()).await.ok();
            opened.is_some()
        })
        .await;
        Arc::new(opened.expect("it was waited for"))
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(settings()).await
    }

    /// Its scripts are known to the server: what is cut is what was meant to be.
    pub(crate) async fn client_with(&self, settings: Settings) -> Client {
        let client = Client::with(self.backend().await, settings);
        warm(&client).await;
        client
    }
}

pub(crate) fn options(port: u16) -> Options {
    Options::new(Topology::Standalone(Address::tcp("127.0.0.1", port)))
}

pub(crate) async fn open(options: Options) -> Arc<tenure_redis::Redis> {
    Arc::new(tenure_redis::Redis::open(options).await.expect("the store opens"))
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.lease = LEASE;
    settings
}

/// Settings with which waiters look this often.
pub(crate) fn polling(poll: Duration) -> Settings {
    let mut settings = settings();
    settings.poll = Some(poll);
    settings
}

/// Every kind that is held, each on a name of its own.
pub(crate) fn templates(client: &Client, suffix: &str) -> Vec<(String, Lock)> {
    let name = |kind: &str| format!("{kind}-{suffix}");
    vec![
        (name("lock"), client.lock(name("lock"))),
        (name("fair"), client.lock(name("fair")).fair()),
        (name("read"), client.rwlock(name("read")).read()),
        (name("write"), client.rwlock(name("write")).write()),
        (name("permits"), client.semaphore(name("permits"), 5).permits(3)),
    ]
}

/// Has the server know the scripts, and leaves nothing but sizes and fences.
pub(crate) async fn warm(client: &Client) {
    for (name, lock) in templates(client, "warm") {
        let guard = lock.acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(lock.try_acquire_for(Duration::from_millis(1)).await.is_ok());
        guard.release().await.expect("released");
    }
    let latch = client.latch("latch-warm");
    assert!(latch.try_set_count(1).await.expect("set"));
    latch.count_down().await.expect("counted");
}

/// A claim as a client makes it, without one: nobody renews it.
pub(crate) fn claim(name: &str, kind: Kind) -> Claim {
    let id = HoldId { client: ClientId::new(), n: 1 };
    Claim { lease: LEASE, stamp: LEASE, ..Claim::of(id, Name::new(name).expect("a name"), kind) }
}

pub(crate) async fn granted(backend: &dyn Backend, claim: &Claim) -> bool {
    let answer = backend.try_acquire(claim).await.expect("an answer");
    matches!(answer, tenure_core::backend::Attempt::Granted { .. })
}

/// The scripts that clients ran, those inside of scripts left out.
pub(crate) fn scripts(seen: &[Seen]) -> Vec<&Seen> {
    seen.iter().filter(|s| !s.is_in_script() && matches!(&*s.name(), "EVALSHA" | "EVAL")).collect()
}

/// Of these, the ones about a name.
pub(crate) fn about<'a>(seen: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    scripts(seen).into_iter().filter(|s| s.words.iter().any(|w| w == name)).collect()
}

/// Fails unless `work` ends in time.
pub(crate) async fn within<F: Future>(limit: Duration, what: &str, work: F) -> F::Output {
    match tokio::time::timeout(limit, work).await {
        Ok(out) => out,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

/// Waits until `holds` says yes; fails after [`PATIENCE`].
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a task comes to, in time.
pub(crate) async fn done<T>(what: &str, task: tokio::task::JoinHandle<T>) -> T {
    within(PATIENCE, what, task).await.expect("no panic")
}

/// Until so many wait for it, as the store says.
pub(crate) async fn waiting(look: &Client, name: &str, n: usize) {
    eventually("they wait", async || {
        look.show(name).await.expect("an answer").is_some_and(|s| s.waiters.len() == n)
    })
    .await;
}
