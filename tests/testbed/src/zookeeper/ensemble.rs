//! An ensemble of three ZooKeeper servers.

use std::time::Duration;

use super::{Member, ZooKeeper, ZooKeeperOptions};
use crate::server::{Failure, on_free_ports};
use crate::{Error, PATIENCE, Proxy, Result, eventually};

const MEMBERS: usize = 3;

/// Three servers, of which two are a quorum.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<ZooKeeper>,
    /// A proxy from each server to each other, if started with links.
    links: Links,
}

type Links = Vec<Vec<Option<Proxy>>>;

impl Ensemble {
    /// Starts all servers, and waits until all of them serve.
    ///
    /// # Errors
    /// When they do not in time.
    pub fn start() -> Result<Self> {
        Self::start_with(ZooKeeperOptions::default())
    }

    /// Starts all servers with these options, and waits until all of them serve.
    ///
    /// # Errors
    /// When they do not in time.
    pub fn start_with(options: ZooKeeperOptions) -> Result<Self> {
        Self::start_linked_if(false, &options)
    }

    /// Starts all servers with proxies between them that can inject faults: see [`Ensemble::link`].
    ///
    /// # Errors
    /// When they do not in time.
    pub fn start_linked(options: ZooKeeperOptions) -> Result<Self> {
        Self::start_linked_if(true, &options)
    }

    fn start_linked_if(linked: bool, options: &ZooKeeperOptions) -> Result<Self> {
        let each = options.ports(true);
        let (servers, links) = on_free_ports(MEMBERS * each, |ports| {
            let ports: Vec<_> = ports.chunks(each).map(<[u16]>::to_vec).collect();
            let links = if linked { start_links(&ports)? } else { Links::new() };
            Ok((start_members(options, &ports, &links)?, links))
        })?;
        let ensemble = Self { servers, links };
        ensemble.wait_until_whole(PATIENCE)?;
        Ok(ensemble)
    }

    /// The proxy through which `from` connects to `to` when that one leads. Only elections bypass it.
    ///
    /// # Panics
    /// When it was not started with [`Ensemble::start_linked`], or they are the same.
    pub fn link(&self, from: &ZooKeeper, to: &ZooKeeper) -> &Proxy {
        let instance = |server: &ZooKeeper| self.servers.iter().position(|s| s.port() == server.port());
        let (from, to) = (instance(from).expect("one of these"), instance(to).expect("one of these"));
        self.links[from][to].as_ref().expect("two of them")
    }

    /// All servers.
    pub fn servers(&self) -> &[ZooKeeper] {
        &self.servers
    }

    /// `127.0.0.1:PORT` of each server, for plain connections.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(ZooKeeper::address).collect()
    }

    /// `zookeeper://127.0.0.1:PORT,127.0.0.1:PORT,127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("zookeeper://{}", self.addresses().join(","))
    }

    /// Returns the server that reports itself as the leader.
    ///
    /// # Errors
    /// When there is none, or an old leader has not noticed yet that there is a new one.
    pub fn leader(&self) -> Result<&ZooKeeper> {
        match self.who_say("leader")[..] {
            [leader] => Ok(leader),
            ref leaders => Err(Error::failed(format!("there are {} leaders", leaders.len()))),
        }
    }

    /// The servers that report themselves as followers.
    pub fn followers(&self) -> Vec<&ZooKeeper> {
        self.who_say("follower")
    }

    fn who_say(&self, mode: &str) -> Vec<&ZooKeeper> {
        self.servers.iter().filter(|server| server.mode().is_ok_and(|said| said == mode)).collect()
    }

    /// Waits until there is one leader, with enough followers for a quorum.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_for_leader(&self, within: Duration) -> Result<&ZooKeeper> {
        self.wait_for(1, within)
    }

    /// Waits until there is one leader, and all others are followers.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_until_whole(&self, within: Duration) -> Result<()> {
        self.wait_for(MEMBERS - 1, within).map(drop)
    }

    fn wait_for(&self, followers: usize, within: Duration) -> Result<&ZooKeeper> {
        let what = format!("one leads and {followers} or more follow");
        eventually(&what, within, || {
            let leader = self.leader().ok()?;
            (self.followers().len() >= followers).then_some(leader)
        })
    }

    /// Restarts all servers with their files: all at once, because one alone does not serve.
    ///
    /// # Errors
    /// When one does not serve, with its log.
    pub fn restart_all(&self) -> Result<()> {
        self.servers.iter().try_for_each(|server| server.kill())?;
        std::thread::scope(|scope| {
            let starts: Vec<_> =
                self.servers.iter().map(|server| scope.spawn(move || server.restart())).collect();
            starts.into_iter().try_for_each(|start| start.join().unwrap_or_else(|_| Err(panicked())))
        })?;
        self.wait_until_whole(PATIENCE)
    }
}

/// Starts all at once, because one alone does not serve.
fn start_members(
    options: &ZooKeeperOptions,
    ports: &[Vec<u16>],
    links: &Links,
) -> std::result::Result<Vec<ZooKeeper>, Failure> {
    std::thread::scope(|scope| {
        let start = |n: usize| {
            let link = |to: usize| links.get(n)?[to].as_ref().map(Proxy::port);
            let reach = ports.iter().enumerate().map(|(to, ports)| link(to).unwrap_or(ports[1])).collect();
            let member = Member { id: n + 1, ports: ports.to_vec(), reach };
            ZooKeeper::start_in(options.clone(), member, ports[n].clone())
        };
        let starts: Vec<_> = (0..ports.len()).map(|n| scope.spawn(move || start(n))).collect();
        starts.into_iter().map(|start| start.join().unwrap_or_else(|_| Err(panicked().into()))).collect()
    })
}

fn start_links(ports: &[Vec<u16>]) -> Result<Links> {
    let link = |from: usize, to: usize| (from != to).then(|| Proxy::start_raw(ports[to][1])).transpose();
    let links = |from: usize| (0..ports.len()).map(|to| link(from, to)).collect();
    (0..ports.len()).map(links).collect()
}

fn panicked() -> Error {
    Error::failed("the thread that started a server panicked")
}
