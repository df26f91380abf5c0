//! A master, two replicas and three sentinels that promote one of them when the master is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Error, PATIENCE, Redis, RedisOptions, Replicated, Result, Value, eventually};

/// What the sentinels call the master.
const NAME: &str = "main";
const QUORUM: usize = 2;

/// Sentinels work in seconds. These settings, how often one asks and tells the others, are for the patience of tests.
/// Only a replica that was asked within five periods of pings is promoted, and while the master is down replicas are
/// asked once in a second: that leaves 200 ms as the shortest period.
const PERIODS: [&str; 8] =
    ["info-period", "500", "ping-period", "300", "ask-period", "100", "publish-period", "200"];

/// Three sentinels with what they watch.
#[derive(Debug)]
pub struct Sentinels {
    // Before the servers, so that they are dropped before them: no fail-over at the end.
    sentinels: Vec<Redis>,
    servers: Replicated,
}

impl Sentinels {
    /// Starts all of them, and waits until they know each other.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn start() -> Result<Self> {
        Self::start_with(RedisOptions::default())
    }

    /// The same with these options for the servers. The sentinels are open to everybody.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn start_with(options: RedisOptions) -> Result<Self> {
        let login = options.login();
        let servers = Replicated::start_with(2, options)?;
        let mut lines = vec![
            format!("sentinel monitor {NAME} 127.0.0.1 {} {QUORUM}", servers.master().port()),
            format!("sentinel down-after-milliseconds {NAME} 1000"),
            format!("sentinel failover-timeout {NAME} 2000"),
            format!("sentinel parallel-syncs {NAME} 2"),
        ];
        if let Some(user) = login {
            lines.extend([
                format!("sentinel auth-user {NAME} {user}"),
                format!("sentinel auth-pass {NAME} {user}"),
            ]);
        }
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let options = RedisOptions { lines: lines.clone(), ..RedisOptions::default() };
            let sentinel = Redis::start_sentinel(options)?;
            hurry(&sentinel)?;
            sentinels.push(sentinel);
        }
        let all = Self { sentinels, servers };
        all.wait_until_settled(PATIENCE)?;
        Ok(all)
    }

    /// For tests that stop no server: the master is not taken for gone, and no replica promoted, because the machine is
    /// busy.
    ///
    /// # Errors
    /// When a sentinel does not answer.
    pub fn steady(self) -> Result<Self> {
        for sentinel in &self.sentinels {
            sentinel.cmd(&["SENTINEL", "SET", NAME, "down-after-milliseconds", "600000"])?;
        }
        Ok(self)
    }

    /// What the sentinels call the master.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The sentinels themselves.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// `127.0.0.1:PORT` of each sentinel.
    pub fn addresses(&self) -> Vec<String> {
        self.sentinels.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect()
    }

    /// `redis://127.0.0.1:PORT` of each sentinel.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::url).collect()
    }

    /// The servers that the sentinels watch: the first master in front, whatever became of it.
    pub fn servers(&self) -> &[Redis] {
        self.servers.nodes()
    }

    /// The master, as most sentinels see it.
    ///
    /// # Errors
    /// When they do not agree.
    pub fn master(&self) -> Result<&Redis> {
        let mut votes = BTreeMap::<u16, usize>::new();
        for port in self.sentinels.iter().filter_map(master_port) {
            *votes.entry(port).or_default() += 1;
        }
        let port = votes.iter().find(|(_, n)| **n >= QUORUM).map(|(port, _)| *port);
        let master = port.and_then(|port| self.servers().iter().find(|s| s.port() == port));
        master.ok_or_else(|| Error::failed(format!("the sentinels do not agree on a master: {votes:?}")))
    }

    /// Has another server promoted, although the master is well. Does not wait for it.
    ///
    /// # Errors
    /// When the sentinel that is asked refuses.
    pub fn fail_over(&self) -> Result<()> {
        // It may not yet know how good the replicas are.
        let mut last = None;
        let done = eventually("a fail-over begins", PATIENCE, || {
            let asked = self.sentinels[0].cmd(&["SENTINEL", "FAILOVER", NAME]);
            last = asked.err();
            last.is_none().then_some(())
        });
        done.map_err(|e| last.unwrap_or(e))
    }

    /// Waits until all sentinels that run see another master than the server at `old`, and it is one.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_for_new_master(&self, old: u16, within: Duration) -> Result<&Redis> {
        eventually("there is a new master", within, || {
            let mut seen = self.sentinels.iter().filter(|s| s.answers()).map(master_port);
            let first = seen.next()??;
            if first == old || seen.any(|port| port != Some(first)) {
                return None;
            }
            let server = self.servers().iter().find(|s| s.port() == first)?;
            (server.info("replication").ok()?["role"] == "master").then_some(server)
        })
    }

    /// Waits until all sentinels and servers are up and know each other.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_until_settled(&self, within: Duration) -> Result<()> {
        let mut seen = Vec::new();
        let settled = eventually("all sentinels know all", within, || {
            seen = self.sentinels.iter().map(|s| self.seen_by(s)).collect();
            seen.iter().all(|s| s.as_ref().is_ok_and(|s| self.is_all(s))).then_some(())
        });
        settled.map_err(|e| Error::failed(format!("{e}: {seen:?}")))
    }

    fn is_all(&self, seen: &Seen) -> bool {
        let Seen { flags, others, replicas } = seen;
        let good = |r: &BTreeMap<String, String>| r["flags"] == "slave" && r["master-link-status"] == "ok";
        flags == "master"
            && *others == self.sentinels.len() - 1
            && replicas.len() == self.servers().len() - 1
            && replicas.iter().all(good)
    }

    fn seen_by(&self, sentinel: &Redis) -> Result<Seen> {
        let mut client = sentinel.client()?;
        let flags = pairs(&client.cmd(&["SENTINEL", "MASTER", NAME])?).remove("flags").unwrap_or_default();
        let others = client.cmd(&["SENTINEL", "SENTINELS", NAME])?;
        let others = others.items().iter().filter(|s| pairs(s)["flags"] == "sentinel").count();
        let replicas = client.cmd(&["SENTINEL", "REPLICAS", NAME])?.items().iter().map(pairs).collect();
        Ok(Seen { flags, others, replicas })
    }
}

/// What a sentinel knows.
#[derive(Debug)]
struct Seen {
    flags: String,
    others: usize,
    replicas: Vec<BTreeMap<String, String>>,
}

/// Asked of a sentinel after each start: it does not keep these settings.
fn hurry(sentinel: &Redis) -> Result<()> {
    let words: Vec<&str> = ["SENTINEL", "DEBUG"].into_iter().chain(PERIODS).collect();
    sentinel.cmd(&words).map(drop)
}

fn master_port(sentinel: &Redis) -> Option<u16> {
    let address = sentinel.cmd(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
    address.texts().get(1)?.parse().ok()
}

/// Names and values, one after the other.
fn pairs(value: &Value) -> BTreeMap<String, String> {
    value.texts().chunks(2).filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone()))).collect()
}
