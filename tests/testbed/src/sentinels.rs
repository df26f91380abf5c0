//! A master, two replicas, and three sentinels that promote a replica when the master fails.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::inner_port::{BIND_SOURCE, InnerPort};
use crate::replicated::is_linked;
use crate::{Error, PATIENCE, Redis, RedisOptions, Replicated, Result, Value, eventually};

/// The name of the master in the sentinels' configuration.
const NAME: &str = "main";
const QUORUM: usize = 2;

/// Shorter intervals than the sentinels' defaults, which are in seconds, so that tests need not wait. A replica is
/// promoted only if it answered within five ping periods, and while the master is down replicas are asked once a
/// second: so the shortest ping period is 200 ms.
const PERIODS: [&str; 8] =
    ["info-period", "500", "ping-period", "300", "ask-period", "100", "publish-period", "200"];

/// Three sentinels and the servers they monitor.
#[derive(Debug)]
pub struct Sentinels {
    // Dropped before the servers, so that there is no failover at the end.
    sentinels: Vec<Redis>,
    servers: Replicated,
    /// The port that each server announces, if that is another one than its own.
    announced: Vec<InnerPort>,
}

impl Sentinels {
    /// Starts all of them, and waits until they know each other.
    ///
    /// # Errors
    /// When they do not in time.
    pub fn start() -> Result<Self> {
        Self::start_with(RedisOptions::default())
    }

    /// Starts all of them, the servers with these options, and waits until they know each other. The sentinels require
    /// no authentication.
    ///
    /// # Errors
    /// When they do not in time.
    pub fn start_with(options: RedisOptions) -> Result<Self> {
        Self::start_if_behind_nat(options, false)
    }

    /// Starts all of them, as behind NAT: the servers announce ports at which only they and the sentinels reach them, see
    /// [`Sentinels::announced_port`].
    ///
    /// # Errors
    /// When they do not know each other in time.
    pub fn start_behind_nat() -> Result<Self> {
        let lines = vec![BIND_SOURCE.to_owned()];
        Self::start_if_behind_nat(RedisOptions { lines, ..RedisOptions::default() }, true)
    }

    fn start_if_behind_nat(options: RedisOptions, behind_nat: bool) -> Result<Self> {
        let login = options.login();
        let servers = Replicated::start_with(2, options)?;
        let announced = if behind_nat { announce_inner_ports(&servers)? } else { Vec::new() };
        let master = announced.first().map_or(servers.master().port(), InnerPort::port);
        let mut lines = vec![
            format!("sentinel monitor {NAME} 127.0.0.1 {master} {QUORUM}"),
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
        if behind_nat {
            // Otherwise they would announce where they connect from.
            lines.extend([BIND_SOURCE.to_owned(), "sentinel announce-ip 127.0.0.1".to_owned()]);
        }
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            let options = RedisOptions { lines: lines.clone(), ..RedisOptions::default() };
            let sentinel = Redis::start_sentinel(options)?;
            hurry(&sentinel)?;
            sentinels.push(sentinel);
        }
        let all = Self { sentinels, servers, announced };
        all.wait_until_settled(PATIENCE)?;
        Ok(all)
    }

    /// Raises the down-after time for tests that stop no server, so that a busy machine does not cause a failover.
    ///
    /// # Errors
    /// When a sentinel does not answer.
    pub fn steady(self) -> Result<Self> {
        for sentinel in &self.sentinels {
            sentinel.cmd(&["SENTINEL", "SET", NAME, "down-after-milliseconds", "600000"])?;
        }
        Ok(self)
    }

    /// The name of the master in the sentinels' configuration.
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

    /// `redis+sentinel://127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT/NAME`, for programs that ask the sentinels.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/{NAME}", self.addresses().join(","))
    }

    /// `redis://127.0.0.1:PORT` of each sentinel.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::url).collect()
    }

    /// The servers that the sentinels monitor: the initial master first, even if it was demoted.
    pub fn servers(&self) -> &[Redis] {
        self.servers.nodes()
    }

    /// The port under which the sentinels know a server, by its index.
    pub fn announced_port(&self, server: usize) -> u16 {
        self.announced.get(server).map_or_else(|| self.servers()[server].port(), InnerPort::port)
    }

    /// The server that announces this port.
    fn announcing(&self, port: u16) -> Option<&Redis> {
        let index = (0..self.servers().len()).find(|index| self.announced_port(*index) == port)?;
        Some(&self.servers()[index])
    }

    /// Returns the master, as most sentinels see it.
    ///
    /// # Errors
    /// When they do not agree.
    pub fn master(&self) -> Result<&Redis> {
        let mut votes = BTreeMap::<u16, usize>::new();
        for port in self.sentinels.iter().filter_map(master_port) {
            *votes.entry(port).or_default() += 1;
        }
        let port = votes.iter().find(|(_, n)| **n >= QUORUM).map(|(port, _)| *port);
        let master = port.and_then(|port| self.announcing(port));
        master.ok_or_else(|| Error::failed(format!("the sentinels do not agree on a master: {votes:?}")))
    }

    /// Starts a failover although the master is up. Does not wait for it.
    ///
    /// # Errors
    /// When the sentinel that is asked refuses.
    pub fn fail_over(&self) -> Result<()> {
        // Retried: the sentinel may not have enough information about the replicas yet.
        let mut last = None;
        let done = eventually("a fail-over begins", PATIENCE, || {
            let asked = self.sentinels[0].cmd(&["SENTINEL", "FAILOVER", NAME]);
            last = asked.err();
            last.is_none().then_some(())
        });
        done.map_err(|e| last.unwrap_or(e))
    }

    /// Waits until all running sentinels see another master than the server at `old`, and that server is one.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_for_new_master(&self, old: u16, within: Duration) -> Result<&Redis> {
        eventually("there is a new master", within, || {
            let mut seen = self.sentinels.iter().filter(|s| s.answers()).map(master_port);
            let first = seen.next()??;
            if seen.any(|port| port != Some(first)) {
                return None;
            }
            let server = self.announcing(first).filter(|server| server.port() != old)?;
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

/// Has each server announce a port that only servers and sentinels can use, and replicate by it.
fn announce_inner_ports(servers: &Replicated) -> Result<Vec<InnerPort>> {
    let mut ports = Vec::new();
    for server in servers.nodes() {
        let port = InnerPort::start(server.port())?;
        server.cmd(&["CONFIG", "SET", "replica-announce-port", &port.port().to_string()])?;
        ports.push(port);
    }
    let master = ports[0].port().to_string();
    for replica in servers.replicas() {
        replica.cmd(&["REPLICAOF", "127.0.0.1", &master])?;
    }
    eventually("all replicas are linked by it", PATIENCE, || {
        servers.replicas().iter().all(is_linked).then_some(())
    })?;
    Ok(ports)
}

/// A sentinel's view of the deployment.
#[derive(Debug)]
struct Seen {
    flags: String,
    others: usize,
    replicas: Vec<BTreeMap<String, String>>,
}

/// Shortens the intervals; needed after each start, since a sentinel does not persist these settings. Before Redis 7.0 they
/// are fixed.
fn hurry(sentinel: &Redis) -> Result<()> {
    let words: Vec<&str> = ["SENTINEL", "DEBUG"].into_iter().chain(PERIODS).collect();
    match sentinel.cmd(&words) {
        Err(error) if error.reply().is_some_and(|text| text.contains("subcommand")) => Ok(()),
        answer => answer.map(drop),
    }
}

fn master_port(sentinel: &Redis) -> Option<u16> {
    let address = sentinel.cmd(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
    address.texts().get(1)?.parse().ok()
}

/// Parses a flat list of names and values.
fn pairs(value: &Value) -> BTreeMap<String, String> {
    value.texts().chunks(2).filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone()))).collect()
}
