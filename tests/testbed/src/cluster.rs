//! A Redis cluster of three masters with a replica each, formed by plain commands.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::replicated::is_linked;
use crate::resp::fields;
use crate::{Error, PATIENCE, Redis, RedisOptions, Result, SLOTS, SlotMove, eventually, slot_of};

const MASTERS: usize = 3;

/// After how many milliseconds without an answer a node counts as failed.
const NODE_TIMEOUT: u64 = 1500;

/// Six nodes. The first three start as masters; the replica of node *n* is node *n* + 3.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
    ids: Vec<String>,
    login: Option<&'static str>,
}

impl Cluster {
    /// Starts all nodes, and waits until the cluster is complete.
    ///
    /// # Errors
    /// When it is not complete in time.
    pub fn start() -> Result<Self> {
        Self::start_with(RedisOptions::default())
    }

    /// Starts all nodes with these options, and waits until the cluster is complete.
    ///
    /// # Errors
    /// When it is not complete in time.
    pub fn start_with(mut options: RedisOptions) -> Result<Self> {
        let lines = [
            format!("cluster-node-timeout {NODE_TIMEOUT}"),
            // A replica is promoted however long it was disconnected.
            "cluster-replica-validity-factor 0".into(),
            // Replicas stay with their masters, so that tests know which belong together.
            "cluster-allow-replica-migration no".into(),
        ];
        options.lines.splice(0..0, lines);
        let login = options.login();
        let mut nodes = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..2 * MASTERS {
            let node = Redis::start_in_cluster(options.clone())?;
            ids.push(node.cmd(&["CLUSTER", "MYID"])?.text());
            nodes.push(node);
        }
        let cluster = Self { nodes, ids, login };
        cluster.form()?;
        Ok(cluster)
    }

    /// Raises the node timeout for tests that stop no node, so that a busy machine does not cause a failover.
    ///
    /// # Errors
    /// When a node does not answer.
    pub fn steady(self) -> Result<Self> {
        for node in &self.nodes {
            node.cmd(&["CONFIG", "SET", "cluster-node-timeout", "600000"])?;
        }
        Ok(self)
    }

    fn form(&self) -> Result<()> {
        for (n, node) in self.nodes.iter().enumerate() {
            let mut client = node.client()?;
            // Distinct epochs from the start, so that nodes need not resolve conflicts first. Set on all nodes before
            // the first MEET, since a node that knows others refuses the command.
            client.cmd(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()])?;
            if n < MASTERS {
                let (first, last) = share(n).into_inner();
                client.cmd(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
            }
        }
        for (n, node) in self.nodes.iter().enumerate() {
            let mut client = node.client()?;
            // Every node meets every other: waiting for gossip would take longer.
            for other in &self.nodes[n + 1..] {
                let [port, bus] = [0, 1].map(|i| other.instance().ports[i].to_string());
                client.cmd(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
        }
        for (n, replica) in self.nodes.iter().enumerate().skip(MASTERS) {
            let master = &self.ids[n - MASTERS];
            eventually("a replica knows its master", PATIENCE, || {
                replica.cmd(&["CLUSTER", "REPLICATE", master]).ok()
            })?;
        }
        self.wait_until_whole(PATIENCE)
    }

    /// All nodes, in the order of their start.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The node's id in the cluster.
    pub fn id(&self, node: usize) -> &str {
        &self.ids[node]
    }

    /// `127.0.0.1:PORT` of each node.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect()
    }

    /// `redis+cluster://127.0.0.1:PORT,…`, all nodes.
    pub fn url(&self) -> String {
        format!("redis+cluster://{}", self.addresses().join(","))
    }

    /// The node that serves a key.
    ///
    /// # Errors
    /// When there is none.
    pub fn node_of(&self, key: &str) -> Result<&Redis> {
        Ok(&self.nodes[self.owner_of(slot_of(key))?])
    }

    /// Returns the index of the node that serves a slot. If several claim it, the one with the newest epoch wins.
    ///
    /// # Errors
    /// When there is none.
    pub fn owner_of(&self, slot: u16) -> Result<usize> {
        let claims = self.views().filter_map(|(n, view)| {
            let me = view.into_iter().find(|line| line.is_myself && line.has(slot))?;
            Some((me.epoch, n))
        });
        let owner = claims.max().map(|(_, n)| n);
        owner.ok_or_else(|| Error::failed(format!("no node serves slot {slot}")))
    }

    /// The owner of a slot, if all nodes that answer agree.
    pub(crate) fn agreed_owner_of(&self, slot: u16) -> Option<usize> {
        let mut owners = self.views().map(|(_, view)| {
            let owner = view.into_iter().find(|line| line.has(slot))?;
            self.ids.iter().position(|id| *id == owner.id)
        });
        let first = owners.next()??;
        owners.all(|owner| owner == Some(first)).then_some(first)
    }

    /// Starts the migration of a slot to a node.
    ///
    /// # Errors
    /// When it is there already, or a node does not answer.
    pub fn begin_move(&self, slot: u16, to: usize) -> Result<SlotMove<'_>> {
        SlotMove::begin(self, slot, to)
    }

    /// Migrates a slot with all its keys to a node.
    ///
    /// # Errors
    /// When it is there already, or a node does not answer.
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<()> {
        let moving = self.begin_move(slot, to)?;
        moving.migrate_all()?;
        moving.finish()
    }

    /// Kills the node that serves a key, and returns its index.
    ///
    /// # Errors
    /// When there is none.
    pub fn kill_master_of(&self, key: &str) -> Result<usize> {
        let node = self.owner_of(slot_of(key))?;
        self.nodes[node].kill()?;
        Ok(node)
    }

    /// Starts a coordinated failover to this replica, while its master is up. Does not wait for it.
    ///
    /// # Errors
    /// When it is no replica, or does not answer.
    pub fn fail_over(&self, replica: usize) -> Result<()> {
        self.nodes[replica].cmd(&["CLUSTER", "FAILOVER"]).map(drop)
    }

    /// Waits until all running nodes see another owner than `old` for a key, and the cluster serves again.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_for_fail_over(&self, key: &str, old: usize, within: Duration) -> Result<usize> {
        let slot = slot_of(key);
        eventually("another node has taken over", within, || {
            let new = self.agreed_owner_of(slot).filter(|new| *new != old)?;
            let mut answering = self.nodes.iter().filter(|node| node.answers());
            answering.all(is_ok).then_some(new)
        })
    }

    /// Waits until all nodes are up, know each other, and every replica is in sync with its master.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn wait_until_whole(&self, within: Duration) -> Result<()> {
        let whole = eventually("the cluster is whole", within, || {
            let mut views = 0;
            for (n, view) in self.views() {
                views += 1;
                let known = view.len() == self.nodes.len() && view.iter().all(|line| line.is_well);
                let replicas = view.iter().filter(|line| line.is_replica).count();
                let me_linked =
                    view.iter().any(|l| l.is_myself && (!l.is_replica || is_linked(&self.nodes[n])));
                if !known || replicas != self.nodes.len() - MASTERS || !me_linked || !is_ok(&self.nodes[n]) {
                    return None;
                }
            }
            (views == self.nodes.len()).then_some(())
        });
        whole.map_err(|e| {
            let seen = self
                .nodes
                .iter()
                .map(|n| n.cmd(&["CLUSTER", "NODES"]).map_or_else(|e| e.to_string(), |v| v.text()));
            Error::failed(format!("{e}; the nodes see\n{}", seen.collect::<Vec<_>>().join("\n")))
        })
    }

    pub(crate) fn login(&self) -> Option<&'static str> {
        self.login
    }

    /// What each node that answers reports about the cluster.
    fn views(&self) -> impl Iterator<Item = (usize, Vec<Line>)> + '_ {
        let answering = self.nodes.iter().enumerate().filter(|(_, node)| node.answers());
        answering.filter_map(|(n, node)| Some((n, view_of(node)?)))
    }
}

/// The slots that a master starts with.
fn share(master: usize) -> RangeInclusive<u16> {
    let begin = |n: usize| u16::try_from(n * usize::from(SLOTS) / MASTERS).unwrap_or(SLOTS);
    begin(master)..=begin(master + 1) - 1
}

fn is_ok(node: &Redis) -> bool {
    let info = node.cmd(&["CLUSTER", "INFO"]).map(|info| fields(&info.text()));
    info.is_ok_and(|info| info["cluster_state"] == "ok" && info["cluster_slots_ok"] == SLOTS.to_string())
}

fn view_of(node: &Redis) -> Option<Vec<Line>> {
    let nodes = node.cmd(&["CLUSTER", "NODES"]).ok()?.text();
    nodes.lines().map(Line::parse).collect()
}

/// A line of CLUSTER NODES: what one node reports about another.
#[derive(Debug, PartialEq)]
struct Line {
    id: String,
    is_myself: bool,
    is_replica: bool,
    /// Connected, and neither in handshake nor suspected.
    is_well: bool,
    epoch: u64,
    slots: Vec<RangeInclusive<u16>>,
}

impl Line {
    /// Parses `ID ADDRESS FLAGS MASTER PING PONG EPOCH LINK SLOTS…`.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, _address, flags, _master, _ping, _pong, epoch, link, slots @ ..] = &words[..] else {
            return None;
        };
        let flags: Vec<&str> = flags.split(',').collect();
        let ranges = slots.iter().filter(|s| !s.starts_with('[')).map(|s| {
            let (first, last) = s.split_once('-').unwrap_or((s, s));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        Some(Self {
            id: (*id).to_owned(),
            is_myself: flags.contains(&"myself"),
            is_replica: flags.contains(&"slave"),
            is_well: *link == "connected" && flags.iter().all(|f| ["myself", "master", "slave"].contains(f)),
            epoch: epoch.parse().ok()?,
            slots: ranges.collect::<Option<_>>()?,
        })
    }

    fn has(&self, slot: u16) -> bool {
        !self.is_replica && self.slots.iter().any(|range| range.contains(&slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cluster_nodes() {
        let line =
            "07c3 127.0.0.1:30001@31001,host myself,master - 0 1426238317239 4 connected 0-5 7 [9->-e7d1]";
        let line = Line::parse(line).unwrap();
        assert_eq!(line.slots, [0..=5, 7..=7]);
        assert!(line.is_myself && line.is_well && line.has(7) && !line.has(6) && !line.has(9));
        let gone = "07c3 127.0.0.1:30001@31001 slave,fail e7d1 0 1426238317239 4 disconnected";
        assert!(Line::parse(gone).is_some_and(|l| l.is_replica && !l.is_well));
    }

    #[test]
    fn all_slots_are_given_away() {
        let all: Vec<u16> = (0..MASTERS).flat_map(share).collect();
        assert_eq!(all, (0..SLOTS).collect::<Vec<_>>());
    }
}
