//! A master and its replicas, without failover.

use crate::{PATIENCE, Redis, RedisOptions, Result, eventually};

/// A master and its replicas.
#[derive(Debug)]
pub struct Replicated {
    nodes: Vec<Redis>,
}

impl Replicated {
    /// Starts a master and `replicas`, and waits until these are in sync.
    ///
    /// # Errors
    /// When they are not in sync in time.
    pub fn start(replicas: usize) -> Result<Self> {
        Self::start_with(replicas, RedisOptions::default())
    }

    /// Starts a master and `replicas` with these options, and waits until they are in sync.
    ///
    /// # Errors
    /// When they are not in sync in time.
    pub fn start_with(replicas: usize, options: RedisOptions) -> Result<Self> {
        let master = Redis::start(options.clone())?;
        let port = master.port();
        let mut nodes = vec![master];
        for _ in 0..replicas {
            nodes.push(Redis::start(options.clone())?);
        }
        let all = Self { nodes };
        for replica in all.replicas() {
            // By a command: with a line in its configuration a replica waits a second before it connects.
            replica.cmd(&["REPLICAOF", "127.0.0.1", &port.to_string()])?;
        }
        eventually("all replicas are linked", PATIENCE, || {
            let online = all.master().info("replication").ok()?;
            let online = online.values().filter(|v| v.contains("state=online")).count();
            let linked = all.replicas().iter().all(is_linked);
            (online == replicas && linked).then_some(())
        })?;
        Ok(all)
    }

    /// The node that was started as the master.
    pub fn master(&self) -> &Redis {
        &self.nodes[0]
    }

    /// The nodes that were started as replicas.
    pub fn replicas(&self) -> &[Redis] {
        &self.nodes[1..]
    }

    /// The master, and then the replicas.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Promotes this replica to a master. The old master and the other replicas are not reconfigured.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn promote(&self, replica: usize) -> Result<&Redis> {
        let node = &self.replicas()[replica];
        node.cmd(&["REPLICAOF", "NO", "ONE"])?;
        Ok(node)
    }

    /// Waits until this replica has all that the master has now.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub fn wait_until_synced(&self, replica: usize) -> Result<()> {
        let node = &self.replicas()[replica];
        let offset = |of: &Redis| -> Option<i64> {
            of.info("replication").ok()?.get("master_repl_offset")?.parse().ok()
        };
        let goal = offset(self.master());
        let there = || (offset(node) >= goal && is_linked(node)).then_some(());
        eventually("the replica has caught up", PATIENCE, there)
    }
}

/// Whether a replica is connected to its master and in sync.
pub(crate) fn is_linked(replica: &Redis) -> bool {
    replica.info("replication").is_ok_and(|info| info.get("master_link_status").is_some_and(|s| s == "up"))
}
