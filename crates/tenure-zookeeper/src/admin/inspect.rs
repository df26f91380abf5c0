//! Snapshots: the holders and waiters of a name, for people.

use std::collections::HashMap;

use futures_util::future::{join, join_all};
use tenure_core::backend::{Counter, Holder, Mode, Snapshot, Waiter};
use tenure_core::ledger::Ledger;
use tenure_core::{Family, Fence, Name};

use crate::error::RequestResult;
use crate::recipe::Store;
use crate::recipe::counters::{has_idle_size, has_only_remembered_ops};
use crate::recipe::node::{Child, Marker};
use crate::recipe::path::{COUNTERS, LEASES, LOCKS};
use crate::recipe::queue::Queue;
use crate::recipe::revoke::REVOKE;
use crate::session::Session;
use crate::wire::Stat;

/// How many children of one name are read at most.
const MAX_CHILDREN: usize = 1000;
/// Requests in flight at once.
pub(crate) const MAX_IN_FLIGHT: usize = 64;

/// A child, with the data and metadata of its node.
struct Read {
    child: Child,
    data: Vec<u8>,
    stat: Stat,
}

impl Store {
    /// The state of one name; `None` when it is not in use.
    pub(crate) async fn inspect_name(
        &self,
        session: &Session,
        name: &Name,
        path: &str,
    ) -> RequestResult<Option<Snapshot>> {
        match session.client.list(path).await {
            Ok(children) => self.snapshot(session, name, path, &children).await,
            Err(error) if error.is_no_node() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn snapshot(
        &self,
        session: &Session,
        name: &Name,
        path: &str,
        children: &[String],
    ) -> RequestResult<Option<Snapshot>> {
        let queue = Queue::new(children.iter().cloned());
        let ledger = match children.iter().any(|c| c == COUNTERS) {
            true => self.read_ledger(session, path).await?,
            false => None,
        };
        let mut snapshot = empty_snapshot(name.clone());
        let family = apply_ledger(&mut snapshot, ledger.as_ref());
        if let Some(first) = queue.children.first() {
            snapshot.family = first.family();
            let holder_count = queue.holder_count();
            let all = read(session, path, queue).await?;
            snapshot.holders = all.iter().take(holder_count).map(|read| read.holder()).collect();
            snapshot.waiters = all.iter().skip(holder_count).map(Read::waiter).collect();
        } else if children.iter().any(|c| c == LEASES || c == LOCKS) {
            snapshot.family = Family::Permit;
            let (locks, leases) = (format!("{path}/{LOCKS}"), format!("{path}/{LEASES}"));
            let folder = async |folder: &str| match session.client.list(folder).await {
                Ok(names) => read(session, folder, Queue::new(names)).await,
                Err(error) if error.is_no_node() => Ok(Vec::new()),
                Err(error) => Err(error),
            };
            let (waiting, taken) = join(folder(&locks), folder(&leases)).await;
            snapshot.waiters = waiting?.iter().map(Read::waiter).collect();
            snapshot.holders = permits(&taken?);
        } else if let Some(family) = family {
            snapshot.family = family;
        }
        snapshot.fence = snapshot.holders.iter().filter_map(|holder| holder.fence).max();
        let is_idle = snapshot.is_idle();
        let forgotten = is_idle && ledger.as_ref().is_some_and(has_idle_size);
        // The clients that used it may be gone, so tidy up here. Best effort: this login may lack the right.
        if forgotten || ledger.as_ref().is_some_and(has_only_remembered_ops) {
            drop(self.prune_ledger(path).await);
        }
        let is_known = family.is_some() && !forgotten;
        Ok((!is_idle || is_known).then_some(snapshot))
    }
}

/// An empty snapshot.
pub(crate) fn empty_snapshot(name: Name) -> Snapshot {
    Snapshot::new(name, Family::Lock)
}

/// Copies the counters of a ledger into the snapshot. Returns the family that they imply.
fn apply_ledger(snapshot: &mut Snapshot, ledger: Option<&Ledger>) -> Option<Family> {
    let ledger = ledger?;
    snapshot.size = ledger.size;
    snapshot.count = ledger.count.as_ref().map(|count| count.value);
    match &ledger.count {
        Some(count) if count.of == Counter::Latch => Some(Family::Latch),
        Some(_) => Some(Family::Count),
        None => ledger.size.map(|_| Family::Permit),
    }
}

/// Reads the nodes of a queue, in order. Skips those that are deleted meanwhile.
async fn read(session: &Session, folder: &str, queue: Queue) -> RequestResult<Vec<Read>> {
    let mut all = Vec::new();
    let mut rest = queue.children.into_iter().take(MAX_CHILDREN).peekable();
    while rest.peek().is_some() {
        let some: Vec<Child> = rest.by_ref().take(MAX_IN_FLIGHT).collect();
        let paths: Vec<String> = some.iter().map(|child| format!("{folder}/{}", child.name)).collect();
        let answers = join_all(paths.iter().map(|path| session.client.read(path))).await;
        for (child, answer) in some.into_iter().zip(answers) {
            match answer {
                Ok((data, stat)) => all.push(Read { child, data, stat }),
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(all)
}

/// The holders of permits: a hold of this library has one node per permit.
fn permits(taken: &[Read]) -> Vec<Holder> {
    let mut holders: Vec<Holder> = Vec::new();
    let mut at = HashMap::new();
    for read in taken {
        let holder = read.holder();
        let known = read.child.id().map(|_| *at.entry(holder.id.clone()).or_insert(holders.len()));
        match known.and_then(|at| holders.get_mut(at)) {
            Some(same) => {
                same.holds += 1;
                same.fence = same.fence.max(holder.fence);
            }
            None => holders.push(holder),
        }
    }
    holders
}

impl Read {
    fn mode(&self) -> Mode {
        match self.child.marker {
            Marker::Read => Mode::Shared,
            Marker::Lease => Mode::Permits,
            Marker::Lock | Marker::Latch | Marker::Write => Mode::Exclusive,
        }
    }

    /// The hold id; for another library, the name of the node.
    fn id(&self) -> String {
        self.child.id().map_or_else(|| self.child.name.clone(), |id| id.to_string())
    }

    fn note(&self) -> Option<String> {
        let has_note = !self.data.is_empty() && self.data != REVOKE;
        has_note.then(|| String::from_utf8_lossy(&self.data).into_owned())
    }

    /// When its node was created, by the servers' clock: the start of its wait, if it had to wait.
    fn since(&self) -> Option<u64> {
        u64::try_from(self.stat.ctime).ok().map(|ms| ms * 1000)
    }

    fn holder(&self) -> Holder {
        let process = self.child.process();
        let mut holder = Holder::new(self.id(), self.mode());
        holder.fence = Some(Fence(self.stat.czxid as u64));
        (holder.since, holder.note) = (self.since(), self.note());
        (holder.host, holder.pid) = process.map(|p| (p.host, p.pid)).unzip();
        holder.foreign = self.child.id().is_none();
        holder
    }

    fn waiter(&self) -> Waiter {
        let process = self.child.process();
        let mut waiter = Waiter::new(self.id(), self.mode());
        (waiter.since, waiter.note) = (self.since(), self.note());
        (waiter.host, waiter.pid) = process.map(|p| (p.host, p.pid)).unzip();
        waiter.foreign = self.child.id().is_none();
        waiter
    }
}
