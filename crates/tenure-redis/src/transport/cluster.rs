//! Cluster topology: the slot of a key, and which master serves a slot. Learned from any node that answers, corrected by
//! `MOVED` replies.

use super::Transport;
use super::connections::Connections;
use super::failure::{ErrorClass, Failure, announced_address, classify};
use super::map::{Asking, Map};
use super::wire::{Value, request};
use crate::Address;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::time::{Duration, Instant};
use tenure_core::backend::random;
use tokio::task::JoinSet;

/// How many nodes are asked in parallel: one may be down, another partitioned.
const AT_ONCE: usize = 3;

/// For how long a `MOVED` reply takes precedence over a layout.
const GOSSIP: Duration = Duration::from_secs(2);

/// Minimum interval between refreshes caused by `MOVED`: slots migrate one by one, and not all nodes know at once.
const SPACING: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Address>,
    layout: RwLock<Arc<Layout>>,
    /// The number of doubts raised, and that number when the last successful refresh started. If they differ, the
    /// layout is refreshed before the next call.
    doubts: AtomicU64,
    answered: AtomicU64,
    asking: Asking,
    /// When a `MOVED` reply last caused a refresh.
    asked: Mutex<Option<Instant>>,
    /// Recent `MOVED` redirects by slot: other nodes learn of them later.
    moved: Mutex<HashMap<u16, (Address, Instant)>>,
    sharded: OnceLock<bool>,
}

#[derive(Clone, Debug, Default)]
struct Layout {
    /// The owner of each slot, as an index into `masters`.
    slots: Vec<Option<u16>>,
    masters: Vec<Address>,
    /// Replicas: only asked for the layout.
    others: Vec<Address>,
    age: Age,
}

/// How recent a layout is. A partitioned node has an outdated one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Age {
    /// Whether the reporting node sees most of the others; true if it does not say.
    connected: bool,
    /// Grows with each failover.
    epoch: u64,
}

impl Age {
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

impl Layout {
    fn owner(&self, slot: u16) -> Option<&Address> {
        let place = (*self.slots.get(usize::from(slot))?)?;
        self.masters.get(usize::from(place))
    }

    fn place(&mut self, master: Address) -> u16 {
        let at = self.masters.iter().position(|m| *m == master).unwrap_or_else(|| {
            self.masters.push(master);
            self.masters.len() - 1
        });
        at as u16
    }

    fn assign(&mut self, slot: u16, to: &Address) {
        let place = self.place(to.clone());
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            *slot = Some(place);
        }
    }

    /// Parses the reply of node `from` to `CLUSTER SLOTS`.
    fn read(value: &Value, from: &Address) -> Option<Self> {
        let mut layout = Self { slots: vec![None; SLOTS], ..Self::default() };
        for range in value.array()? {
            let range = range.array()?;
            let (first, last) = (range.first()?.int()?, range.get(1)?.int()?);
            let mut nodes = range.iter().skip(2).map(|node| {
                let node = node.array()?;
                let host = node.first()?.text().unwrap_or_default();
                Some(announced_address(host, u16::try_from(node.get(1)?.int()?).ok()?, from))
            });
            let master = layout.place(nodes.next()??);
            let range = usize::try_from(first).ok()?..=usize::try_from(last).ok()?;
            layout.slots.get_mut(range)?.fill(Some(master));
            layout.others.extend(nodes.flatten());
        }
        (!layout.masters.is_empty()).then_some(layout)
    }
}

impl Cluster {
    pub(crate) fn new(seeds: &[Address]) -> tenure_core::Result<Self> {
        if seeds.is_empty() {
            return Err(tenure_core::Error::Config("no node of the cluster is named".to_owned()));
        }
        Ok(Self {
            seeds: seeds.to_vec(),
            layout: RwLock::default(),
            doubts: AtomicU64::new(1),
            answered: AtomicU64::new(0),
            asking: Asking::default(),
            asked: Mutex::default(),
            moved: Mutex::default(),
            sharded: OnceLock::new(),
        })
    }

    fn layout(&self) -> Arc<Layout> {
        self.layout.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(crate) fn masters(&self) -> Vec<Address> {
        self.layout().masters.clone()
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<Address> {
        self.layout().owner(slot).cloned()
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

    pub(crate) fn doubt(&self) {
        self.recently_moved().clear();
        self.doubts.fetch_add(1, Relaxed);
    }

    /// Records a `MOVED` reply. The rest of the layout is refreshed in the background.
    pub(crate) fn moved(&self, transport: &Arc<Transport>, slot: u16, to: &Address) {
        self.recently_moved().insert(slot, (to.clone(), Instant::now()));
        let mut layout = self.layout.write().unwrap_or_else(|e| e.into_inner());
        if layout.owner(slot) != Some(to) {
            Arc::make_mut(&mut layout).assign(slot, to);
        }
        drop(layout);
        let mut asked = self.asked.lock().unwrap_or_else(|e| e.into_inner());
        if asked.is_none_or(|asked| asked.elapsed() >= SPACING) {
            *asked = Some(Instant::now());
            drop(asked);
            self.asking.hint(transport, refresh(Arc::downgrade(transport)));
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
        if self.doubts.load(Relaxed) != self.answered.load(Relaxed) {
            self.asking.ask(transport, connections, deadline, refresh(Arc::downgrade(transport))).await?;
        }
        let layout = self.layout();
        let node = match slot {
            Some(slot) => layout.owner(slot),
            None => layout.masters.first(),
        };
        node.cloned().ok_or_else(|| {
            self.doubt();
            Failure::NotExecuted(format!("no node of the cluster serves slot {}", slot.unwrap_or(0)))
        })
    }

    /// All nodes to ask for the layout, each once, in random order.
    fn askable(&self) -> Vec<Address> {
        let layout = self.layout();
        let mut seen = HashSet::new();
        let all = layout.masters.iter().chain(&layout.others).chain(&self.seeds);
        let mut all: Vec<(u64, Address)> = all
            .filter(|a| seen.insert((*a).clone()))
            .map(|a| ((random() * u32::MAX as f64) as u64, a.clone()))
            .collect();
        all.sort();
        all.into_iter().map(|(_, address)| address).collect()
    }

    fn learn(&self, transport: &Transport, mut new: Layout) {
        let mut moved = self.recently_moved();
        moved.retain(|_, (_, said)| said.elapsed() < GOSSIP);
        moved.iter().for_each(|(slot, (to, _))| new.assign(*slot, to));
        drop(moved);
        let mut layout = self.layout.write().unwrap_or_else(|e| e.into_inner());
        let old = std::mem::replace(&mut *layout, Arc::new(new.clone()));
        drop(layout);
        // Migrated slots keep their keys; the slots of a demoted master have only what its replica had.
        let demoted: Vec<_> = old.masters.iter().filter(|m| !new.masters.contains(m)).collect();
        let lost = (0..SLOTS as u16).any(|s| old.owner(s).is_some_and(|o| demoted.contains(&o)));
        for node in demoted {
            // A node that is not listed at all may just be unknown yet to the node that was asked.
            transport.forget(node, new.others.contains(node), "it is not a master any more");
        }
        if lost {
            transport.doubt.raise();
        }
    }
}

async fn refresh(transport: Weak<Transport>) -> Result<(), Failure> {
    let Some(transport) = transport.upgrade() else { return Err(Failure::NotExecuted("closed".to_owned())) };
    let Map::Cluster(cluster) = &transport.map else { unreachable!("only the map of a cluster asks for it") };
    // Doubts raised from now on are not covered by this refresh.
    let doubts = cluster.doubts.load(Relaxed);
    let mut waiting = cluster.askable().into_iter();
    let mut asked = JoinSet::new();
    let latest = cluster.layout().age.epoch;
    let ask = |address| ask(transport.clone(), address, transport.timeout / 3, latest);
    waiting.by_ref().take(AT_ONCE).for_each(|address| drop(asked.spawn(ask(address))));
    let mut last = Failure::NotExecuted("no node of the cluster is known".to_owned());
    let mut best: Option<Layout> = None;
    let until = tokio::time::Instant::now() + transport.timeout * 2 / 3;
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, asked.join_next()).await {
        match answer {
            Ok(Ok(layout)) => {
                let good = layout.age.is_newer_or_same(latest);
                if best.as_ref().is_none_or(|best| layout.age > best.age) {
                    best = Some(layout);
                }
                if good {
                    break;
                }
            }
            Ok(Err(failure)) => last = failure,
            Err(e) => last = Failure::NotExecuted(e.to_string()),
        }
        waiting.by_ref().take(1).for_each(|address| drop(asked.spawn(ask(address))));
    }
    // If no node has a recent layout, the best one is used: the cluster may have been created anew.
    let layout = best.ok_or(last)?;
    cluster.learn(&transport, layout);
    cluster.answered.store(doubts, Relaxed);
    Ok(())
}

async fn ask(
    transport: Arc<Transport>,
    at: Address,
    limit: Duration,
    latest: u64,
) -> Result<Layout, Failure> {
    let trouble = |why: &dyn std::fmt::Display| Failure::NotExecuted(format!("{at}: {why}"));
    let mut out = Vec::new();
    request(&mut out, &[b"CLUSTER", b"INFO"]);
    request(&mut out, &[b"CLUSTER", b"SLOTS"]);
    let asked = async {
        let (mut wire, _) = transport.connector.connect(&at, limit).await?;
        wire.ask(&out, 2).await.map_err(|e| trouble(&e))
    };
    let mut replies = match tokio::time::timeout(limit, asked).await {
        Ok(replies) => replies?,
        Err(_) => return Err(trouble(&"no answer in time")),
    };
    let slots = replies.remove(1);
    if let Value::Error(reply) = &slots {
        return Err(match classify(reply, &at) {
            ErrorClass::NotExecuted(_) => trouble(&reply.message),
            _ => Failure::Refused(reply.clone()),
        });
    }
    let layout = Layout::read(&slots, &at).ok_or_else(|| trouble(&"it knows no slots"))?;
    Ok(Layout { age: Age::read(&replies[0], latest), ..layout })
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
        let age = |state: &str, epoch: u64| {
            let text =
                format!("cluster_state:{state}\r\ncluster_size:3\r\ncluster_current_epoch:{epoch}\r\n");
            Age::read(&Value::Bulk(text.into_bytes()), 7)
        };
        assert!(age("ok", 7).is_newer_or_same(7) && age("ok", 8).is_newer_or_same(7));
        assert!(!age("ok", 6).is_newer_or_same(7) && !age("fail", 9).is_newer_or_same(7));
        assert!(age("ok", 6) > age("fail", 9) && age("ok", 6) > age("ok", 5));
        let denied = Value::Error(crate::transport::failure::ErrorReply::new("NOPERM no"));
        assert!(Age::read(&denied, 7).is_newer_or_same(7));
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
        let layout = Layout::read(&value, &Address::tcp("asked", 7)).unwrap();
        assert_eq!(layout.owner(99), Some(&Address::tcp("asked", 1)));
        assert_eq!(layout.owner(100), None);
        assert_eq!(layout.owner(200), Some(&Address::tcp("asked", 3)));
        assert_eq!(layout.owner(16383), layout.owner(0));
        assert_eq!((layout.masters.len(), layout.others), (2, vec![Address::tcp("10.0.0.9", 2)]));
        assert!(Layout::read(&Value::Array(vec![]), &Address::tcp("asked", 7)).is_none());
        let wrong = Value::Array(vec![range(0, 16384, vec![node(bulk(b"h"), 1)])]);
        assert!(Layout::read(&wrong, &Address::tcp("asked", 7)).is_none());
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
