//! Cluster topology: the slot of a key, and which master serves a slot. Learned from any node that answers, corrected by
//! `MOVED` replies.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant};

use tenure_core::backend::{Reason, random};
use tokio::task::JoinSet;

use super::Transport;
use super::advice::refused;
use super::connections::Connections;
use super::discovery::{Discovery, SingleFlight};
use super::failure::{ErrorClass, Failure, announced_address, classify};
use super::wire::{Value, write_command};
use crate::Address;

/// How many nodes are asked in parallel: one may be down, another partitioned.
const PARALLEL_QUERIES: usize = 3;

/// For how long a `MOVED` reply takes precedence over a slot map.
const MOVED_PRECEDENCE: Duration = Duration::from_secs(2);

/// Minimum interval between refreshes caused by `MOVED`: slots migrate one by one, and not all nodes know at once.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Address>,
    slot_map: RwLock<Arc<SlotMap>>,
    /// The number of invalidations raised, and that number when the last successful refresh started. If they differ, the
    /// slot map is refreshed before the next call.
    invalidations: AtomicU64,
    refreshed: AtomicU64,
    refreshing: SingleFlight,
    /// When a `MOVED` reply last caused a refresh.
    last_moved_refresh: Mutex<Option<Instant>>,
    /// Recent `MOVED` redirects by slot: other nodes learn of them later.
    moved: Mutex<HashMap<u16, (Address, Instant)>>,
    sharded: OnceLock<bool>,
}

#[derive(Clone, Debug, Default)]
struct SlotMap {
    /// The owner of each slot, as an index into `masters`.
    slots: Vec<Option<u16>>,
    masters: Vec<Address>,
    /// Replicas: only asked for the slot map.
    others: Vec<Address>,
    freshness: Freshness,
}

/// How recent a slot map is. A partitioned node has an outdated one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Freshness {
    /// Whether the reporting node sees most of the others; true if it does not say.
    connected: bool,
    /// Grows with each failover.
    epoch: u64,
}

impl Freshness {
    /// Parses the reply to `CLUSTER INFO`. If the user may not run it, any node is believed.
    fn read(value: &Value, latest: u64) -> Self {
        let of = |name: &str| value.text().and_then(|t| t.lines().find_map(|l| l.strip_prefix(name)));
        Self {
            connected: of("cluster_state:") != Some("fail"),
            epoch: of("cluster_current_epoch:").map_or(latest, |e| e.parse().unwrap_or(latest)),
        }
    }

    fn is_newer_or_same(self, latest: u64) -> bool {
        self.connected && self.epoch >= latest
    }
}

impl SlotMap {
    fn owner(&self, slot: u16) -> Option<&Address> {
        let index = (*self.slots.get(usize::from(slot))?)?;
        self.masters.get(usize::from(index))
    }

    fn master_index(&mut self, master: Address) -> u16 {
        let at = self.masters.iter().position(|m| *m == master).unwrap_or_else(|| {
            self.masters.push(master);
            self.masters.len() - 1
        });
        at as u16
    }

    fn assign(&mut self, slot: u16, to: &Address) {
        let index = self.master_index(to.clone());
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            *slot = Some(index);
        }
    }

    /// Parses the reply of node `from` to `CLUSTER SLOTS`.
    fn read(value: &Value, from: &Address) -> Option<Self> {
        let mut slot_map = Self { slots: vec![None; SLOTS], ..Self::default() };
        for range in value.array()? {
            let range = range.array()?;
            let (first, last) = (range.first()?.int()?, range.get(1)?.int()?);
            let mut nodes = range.iter().skip(2).map(|node| {
                let node = node.array()?;
                let host = node.first()?.text().unwrap_or_default();
                Some(announced_address(host, u16::try_from(node.get(1)?.int()?).ok()?, from))
            });
            let master = slot_map.master_index(nodes.next()??);
            let range = usize::try_from(first).ok()?..=usize::try_from(last).ok()?;
            slot_map.slots.get_mut(range)?.fill(Some(master));
            slot_map.others.extend(nodes.flatten());
        }
        (!slot_map.masters.is_empty()).then_some(slot_map)
    }
}

impl Cluster {
    pub(crate) fn new(seeds: &[Address]) -> tenure_core::Result<Self> {
        if seeds.is_empty() {
            return Err(tenure_core::Error::Config("the address names no node of the cluster".to_owned()));
        }
        Ok(Self {
            seeds: seeds.to_vec(),
            slot_map: RwLock::default(),
            invalidations: AtomicU64::new(1),
            refreshed: AtomicU64::new(0),
            refreshing: SingleFlight::default(),
            last_moved_refresh: Mutex::default(),
            moved: Mutex::default(),
            sharded: OnceLock::new(),
        })
    }

    fn slot_map(&self) -> Arc<SlotMap> {
        self.slot_map.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn masters(&self) -> Vec<Address> {
        self.slot_map().masters.clone()
    }

    /// The replicas as they are now, each once.
    pub(crate) async fn replicas(&self, transport: &Arc<Transport>) -> Vec<Address> {
        // If nobody answers, the last known ones.
        let _ = self.refreshing.run(transport, refresh(Arc::downgrade(transport))).await;
        let mut all = self.slot_map().others.clone();
        all.sort();
        all.dedup();
        all
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<Address> {
        self.slot_map().owner(slot).cloned()
    }

    /// Whether pub/sub is sharded. AttemptState once the first connection is established.
    pub(crate) fn sharded(&self) -> bool {
        self.sharded.get().copied().unwrap_or(false)
    }

    pub(crate) fn set_sharded(&self, sharded: bool) {
        let _ = self.sharded.set(sharded);
    }

    fn recently_moved(&self) -> MutexGuard<'_, HashMap<u16, (Address, Instant)>> {
        self.moved.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn invalidate(&self) {
        self.recently_moved().clear();
        self.invalidations.fetch_add(1, Relaxed);
    }

    /// Records a `MOVED` reply. The rest of the slot map is refreshed in the background.
    pub(crate) fn moved(&self, transport: &Arc<Transport>, slot: u16, to: &Address) {
        self.recently_moved().insert(slot, (to.clone(), Instant::now()));
        let mut slot_map = self.slot_map.write().unwrap_or_else(|e| e.into_inner());
        if slot_map.owner(slot) != Some(to) {
            Arc::make_mut(&mut slot_map).assign(slot, to);
        }
        drop(slot_map);
        let mut last = self.last_moved_refresh.lock().unwrap_or_else(|e| e.into_inner());
        if last.is_none_or(|last| last.elapsed() >= MIN_REFRESH_INTERVAL) {
            *last = Some(Instant::now());
            drop(last);
            let _ = self.refreshing.start(transport, refresh(Arc::downgrade(transport)));
        }
    }

    /// The owner of the slot; any master if `None`.
    pub(crate) async fn find(
        &self,
        transport: &Arc<Transport>,
        connections: &Connections,
        slot: Option<u16>,
        deadline: Instant,
    ) -> Result<Address, Failure> {
        if self.invalidations.load(Relaxed) != self.refreshed.load(Relaxed) {
            self.refreshing
                .run_until(transport, connections, deadline, refresh(Arc::downgrade(transport)))
                .await?;
        }
        let slot_map = self.slot_map();
        let node = match slot {
            Some(slot) => slot_map.owner(slot),
            None => slot_map.masters.first(),
        };
        node.cloned().ok_or_else(|| {
            self.invalidate();
            Failure::not_executed(format!("no node of the cluster serves slot {}", slot.unwrap_or(0)))
        })
    }

    /// All nodes to ask for the slot map, each once, in random order.
    fn nodes_to_ask(&self) -> Vec<Address> {
        let slot_map = self.slot_map();
        let mut seen = HashSet::new();
        let all = slot_map.masters.iter().chain(&slot_map.others).chain(&self.seeds);
        let mut all: Vec<(u64, Address)> = all
            .filter(|a| seen.insert((*a).clone()))
            .map(|a| ((random() * u32::MAX as f64) as u64, a.clone()))
            .collect();
        all.sort();
        all.into_iter().map(|(_, address)| address).collect()
    }

    fn install(&self, transport: &Transport, mut new: SlotMap) {
        let mut moved = self.recently_moved();
        moved.retain(|_, (_, said)| said.elapsed() < MOVED_PRECEDENCE);
        moved.iter().for_each(|(slot, (to, _))| new.assign(*slot, to));
        drop(moved);
        let mut slot_map = self.slot_map.write().unwrap_or_else(|e| e.into_inner());
        let old = std::mem::replace(&mut *slot_map, Arc::new(new.clone()));
        drop(slot_map);
        // Migrated slots keep their keys; the slots of a demoted master have only what its replica had.
        let demoted: Vec<_> = old.masters.iter().filter(|m| !new.masters.contains(m)).collect();
        let lost = (0..SLOTS as u16).any(|s| old.owner(s).is_some_and(|o| demoted.contains(&o)));
        for node in demoted {
            // A node that is not listed at all may just be unknown yet to the node that was asked.
            transport.forget(node, new.others.contains(node), "the server is no longer a master");
        }
        if lost {
            transport.suspicion.raise();
        }
    }
}

async fn refresh(transport: Weak<Transport>) -> Result<(), Failure> {
    let Some(transport) = transport.upgrade() else { return Err(Failure::not_executed("closed")) };
    let Discovery::Cluster(cluster) = &transport.discovery else {
        unreachable!("only the discovery of a cluster refreshes it")
    };
    // Suspicions raised from now on are not covered by this refresh.
    let invalidations = cluster.invalidations.load(Relaxed);
    let mut waiting = cluster.nodes_to_ask().into_iter();
    let mut asked = JoinSet::new();
    let latest = cluster.slot_map().freshness.epoch;
    let ask = |address| query_node(transport.clone(), address, transport.timeout / 3, latest);
    waiting.by_ref().take(PARALLEL_QUERIES).for_each(|address| drop(asked.spawn(ask(address))));
    let mut last = Failure::not_executed("no node of the cluster is known");
    let mut best: Option<SlotMap> = None;
    let until = tokio::time::Instant::now() + transport.timeout * 2 / 3;
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.join_next()).await {
        match answer {
            Ok(Ok(slot_map)) => {
                let good = slot_map.freshness.is_newer_or_same(latest);
                if best.as_ref().is_none_or(|best| slot_map.freshness > best.freshness) {
                    best = Some(slot_map);
                }
                if good {
                    break;
                }
            }
            Ok(Err(failure)) => last = failure,
            Err(e) => last = Failure::not_executed(e.to_string()),
        }
        waiting.by_ref().take(1).for_each(|address| drop(asked.spawn(ask(address))));
    }
    // If no node has a recent slot map, the best one is used: the cluster may have been created anew.
    let slot_map = best.ok_or(last)?;
    cluster.install(&transport, slot_map);
    cluster.refreshed.store(invalidations, Relaxed);
    Ok(())
}

async fn query_node(
    transport: Arc<Transport>,
    at: Address,
    limit: Duration,
    latest: u64,
) -> Result<SlotMap, Failure> {
    let place = transport.connector.place(&at);
    let failed = |why: Reason| Failure::NotExecuted(why.at(&place));
    let mut out = Vec::new();
    write_command(&mut out, &[b"CLUSTER", b"INFO"]);
    write_command(&mut out, &[b"CLUSTER", b"SLOTS"]);
    let asked = async {
        let (mut framed, _) = transport.connector.connect(&at, limit).await?;
        framed.round_trip(&out, 2).await.map_err(|e| failed(e.into()))
    };
    let mut replies = match tokio::time::timeout(limit, asked).await {
        Ok(replies) => replies?,
        Err(_) => return Err(failed(Reason::timed_out("no answer in time"))),
    };
    let slots = replies.remove(1);
    if let Value::Error(reply) = &slots {
        return Err(match classify(reply, &at) {
            ErrorClass::NotExecuted(_) => failed(reply.message.as_str().into()),
            _ => refused(&place, reply),
        });
    }
    let slot_map = SlotMap::read(&slots, &at).ok_or_else(|| failed("the node reports no slots".into()))?;
    Ok(SlotMap { freshness: Freshness::read(&replies[0], latest), ..slot_map })
}

/// Reads a reply as that to `CLUSTER SLOTS`, and as that to `CLUSTER INFO`. Returns whether it is a slot map.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn read_reply(value: &Value, from: &Address) -> bool {
    let _ = Freshness::read(value, 1);
    SlotMap::read(value, from).is_some_and(|slots| slots.owner(slot(b"{orders}/42")).is_some())
}

const SLOTS: usize = 16384;

pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS as u16
}

/// The text between the first `{` and the next `}`; the whole key if there is none or it is empty.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|b| *b == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|b| *b == b'}') {
        Some(close) if close > 0 => &inside[..close],
        _ => key,
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = ((i as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_cut_off_or_behind_is_not_believed_first() {
        let freshness = |state: &str, epoch: u64| {
            let text =
                format!("cluster_state:{state}\r\ncluster_size:3\r\ncluster_current_epoch:{epoch}\r\n");
            Freshness::read(&Value::Bulk(text.into_bytes()), 7)
        };
        assert!(freshness("ok", 7).is_newer_or_same(7) && freshness("ok", 8).is_newer_or_same(7));
        assert!(!freshness("ok", 6).is_newer_or_same(7) && !freshness("fail", 9).is_newer_or_same(7));
        assert!(freshness("ok", 6) > freshness("fail", 9) && freshness("ok", 6) > freshness("ok", 5));
        let denied = Value::Error(crate::transport::failure::ErrorReply::new("NOPERM no"));
        assert!(Freshness::read(&denied, 7).is_newer_or_same(7));
    }

    #[test]
    fn a_layout_is_read_with_hosts_that_are_not_told() {
        let node =
            |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::Bulk(b"id".to_vec())]);
        let bulk = |b: &[u8]| Value::Bulk(b.to_vec());
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let value = Value::Array(vec![
            range(0, 99, vec![node(bulk(b""), 1), node(bulk(b"10.0.0.9"), 2)]),
            range(200, 200, vec![node(bulk(b"?"), 3)]),
            range(300, 16383, vec![node(Value::Nil, 1)]),
        ]);
        let slot_map = SlotMap::read(&value, &Address::tcp("asked", 7)).unwrap();
        assert_eq!(slot_map.owner(99), Some(&Address::tcp("asked", 1)));
        assert_eq!(slot_map.owner(100), None);
        assert_eq!(slot_map.owner(200), Some(&Address::tcp("asked", 3)));
        assert_eq!(slot_map.owner(16383), slot_map.owner(0));
        assert_eq!((slot_map.masters.len(), slot_map.others), (2, vec![Address::tcp("10.0.0.9", 2)]));
        assert!(SlotMap::read(&Value::Array(vec![]), &Address::tcp("asked", 7)).is_none());
        let wrong = Value::Array(vec![range(0, 16384, vec![node(bulk(b"h"), 1)])]);
        assert!(SlotMap::read(&wrong, &Address::tcp("asked", 7)).is_none());
    }

    #[test]
    fn as_the_server_computes_them() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b""), 0);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{foo}.bar"), slot(b"foo"));
        assert_eq!(tag(b"a{}b{c}"), b"a{}b{c}");
        assert_eq!(tag(b"a{{b}}"), b"{b");
        assert_eq!(tag(b"a{b"), b"a{b");
    }
}
