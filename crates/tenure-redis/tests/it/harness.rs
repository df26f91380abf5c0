//! What a test works with: a server of its own, and clients of it, straight or through a network that fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Backend, Claim, Client, ClientId, Error, Guard, HoldId, Kind, Lock, Name, Settings};
use tenure_redis::{Address, Options, Topology};
use testbed::{FAR, Proxy, Redis, RedisOptions, Seen, Value, has_grown, retry, until, until_true};

/// The default lease of clients here, renewed every third of it: long enough for a machine that stands still for a
/// while.
pub(crate) const LEASE: Duration = Duration::from_secs(9);

/// The lease of what has to last and is not renewed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The lease of what has to end.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

/// How long a call may take that has to run out of time.
pub(crate) const CALL: Duration = Duration::from_secs(1);

/// No call takes this long unless it hangs.
const ANSWER: Duration = Duration::from_secs(60);

/// A server of its own.
pub(crate) struct Harness {
    pub(crate) redis: Redis,
}

impl Harness {
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

    /// Runs a command and returns its reply as a number.
    pub(crate) fn number(&self, words: &[&str]) -> i64 {
        self.cmd(words).int().expect("a number")
    }

    /// The ids in the hash of a lock.
    pub(crate) fn holders(&self, name: &str) -> Vec<String> {
        holders(&self.redis, name)
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
    pub(crate) fn covers(&self, key: &str, guard: &Guard) -> bool {
        let (remaining, then) = (guard.remaining(), Instant::now());
        let left = self.left(key);
        left + then.elapsed() >= remaining
    }

    /// What the server's clock says, in milliseconds.
    pub(crate) fn time(&self) -> f64 {
        let time = self.cmd(&["TIME"]).texts();
        time[0].parse::<f64>().expect("seconds") * 1e3 + time[1].parse::<f64>().expect("microseconds") / 1e3
    }

    /// How many commands it has executed so far, those inside scripts included.
    pub(crate) fn executed(&self) -> u64 {
        let stats = self.redis.info("commandstats").expect("statistics");
        let calls = |text: &String| text.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok();
        stats.iter().filter(|(name, _)| *name != "cmdstat_info").filter_map(|(_, text)| calls(text)).sum()
    }

    /// Lets all waiters of a name look dead this long after now, all at the same moment.
    pub(crate) fn ends_stamps(&self, name: &str, after: Duration) {
        let script = "local t = redis.call('TIME') local over = t[1] * 1000 + t[2] / 1000 + ARGV[1]
            for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], over, id) end";
        let stamps = format!("tenure_stamps:{{{name}}}");
        self.cmd(&["EVAL", script, "1", &stamps, &after.as_millis().to_string()]);
    }
}

/// A way to the server that can fail.
pub(crate) struct Network {
    pub(crate) proxy: Proxy,
}

impl Network {
    pub(crate) fn options(&self) -> Options {
        options(self.proxy.port())
    }

    /// Whose calls run out of time where the network does not answer.
    pub(crate) fn hasty(&self) -> Options {
        let mut options = self.options();
        options.timeout = CALL;
        options
    }

    pub(crate) async fn client(&self) -> Client {
        warmed(self.options(), settings()).await
    }

    pub(crate) async fn client_with(&self, settings: Settings) -> Client {
        warmed(self.options(), settings).await
    }

    pub(crate) async fn hasty_client(&self, settings: Settings) -> Client {
        warmed(self.hasty(), settings).await
    }
}

/// A client whose scripts are known to the server: what is cut is what was meant to be.
pub(crate) async fn warmed(options: Options, settings: Settings) -> Client {
    let backend = open(options).await;
    warm(&Client::with(backend.clone(), self::settings())).await;
    Client::with(backend, settings)
}

pub(crate) fn options(port: u16) -> Options {
    with(Topology::Standalone(Address::tcp("127.0.0.1", port)))
}

/// What works is never out of time.
pub(crate) fn with(topology: Topology) -> Options {
    let mut options = Options::new(topology);
    options.timeout = ANSWER;
    options
}

/// On a busy machine it may take those in a hurry more than one call to get there.
pub(crate) async fn open(options: Options) -> Arc<tenure_redis::Redis> {
    let open = || tenure_redis::Redis::open(options.clone());
    Arc::new(retry("the store opens", Error::is_transient, open).await)
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.lease = LEASE;
    (settings.call_timeout, settings.outage, settings.close_timeout) = (ANSWER, ANSWER, ANSWER);
    settings
}

pub(crate) fn leasing(lease: Duration) -> Settings {
    let mut settings = settings();
    settings.lease = lease;
    settings
}

/// Settings with which waiters look this often.
pub(crate) fn polling(poll: Duration) -> Settings {
    let mut settings = settings();
    settings.poll = Some(poll);
    settings
}

/// Nobody is woken by a clock: no test lives to see the end of a lease or of a poll.
pub(crate) fn woken_only() -> Settings {
    let mut settings = polling(FAR);
    settings.lease = FAR;
    settings
}

/// Gives up soon where the store refuses.
pub(crate) fn hasty() -> Settings {
    let mut settings = settings();
    settings.call_timeout = Duration::from_millis(200);
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

/// All of them, held.
pub(crate) async fn all_held(client: &Client, suffix: &str) -> Vec<(String, Lock, Guard)> {
    let mut held = Vec::new();
    for (name, lock) in templates(client, suffix) {
        let guard = take(&lock).await;
        held.push((name, lock, guard));
    }
    held
}

/// Takes what is free. An answer that comes after a short lease is none: it is asked for again.
pub(crate) async fn take(lock: &Lock) -> Guard {
    retry("what is free", Error::is_transient, || lock.acquire()).await
}

/// Has the server know the scripts, and leaves nothing but sizes and fences.
pub(crate) async fn warm(client: &Client) {
    for (name, lock) in templates(client, "warm") {
        let guard = lock.acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        // A busy machine may need longer to answer.
        let _ = lock.try_acquire_for(Duration::from_millis(1)).await;
        guard.release().await.expect("released");
    }
    let latch = client.latch("latch-warm");
    assert!(latch.try_set_count(1).await.expect("set"));
    latch.count_down().await.expect("counted");
}

/// A claim as a client makes it, without one: nobody renews it.
/// The ids in the hash of a lock on this server, without its records.
pub(crate) fn holders(redis: &Redis, name: &str) -> Vec<String> {
    let mut fields = redis.cmd(&["HKEYS", name]).expect("a hash").texts();
    fields.retain(|field| !field.ends_with(":d"));
    fields
}

pub(crate) fn claim(name: &str, kind: Kind) -> Claim {
    let id = HoldId { client: ClientId::new(), n: 1 };
    Claim { lease: LONG, stamp: LONG, ..Claim::of(id, Name::new(name).expect("a name"), kind) }
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

/// Until each of these guards has been renewed.
pub(crate) async fn renewed(guards: impl IntoIterator<Item = &Guard>) {
    let guards = guards.into_iter();
    let mut missing: Vec<_> =
        guards.map(|guard| has_grown(Duration::ZERO, move || guard.remaining())).collect();
    until_true("renewed", || {
        missing.retain_mut(|is_renewed| !is_renewed());
        missing.is_empty()
    })
    .await;
}

/// Until so many wait for it, as the store says.
pub(crate) async fn waiting(look: &Client, name: &str, n: usize) {
    until("they wait", || async {
        look.show(name).await.expect("an answer").is_some_and(|s| s.waiters.len() == n)
    })
    .await;
}
