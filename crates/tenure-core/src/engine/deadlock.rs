//! Deadlock detection between the owners of one client. Each wait is an edge from the waiting owner, through the name,
//! to the owner that holds it. The wait that would close a cycle gets an error, checked under one lock when it joins;
//! the others continue when that owner releases what it holds.
//!
//! Only what cannot end by itself is an edge. These are not: a wait with a deadline; a hold with a fixed lease or
//! `max_hold`; a permit, because any holder may release one; a hold that was acquired or re-entered in a task other
//! than the waiting one, or whose task has two waits at once, because such an owner does several things concurrently.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};

use crate::backend::{Deadlock, Kind, Link, Name, Owner, Result};
use crate::engine::acquisition::Flow;
use crate::engine::core::Core;
use crate::engine::hold::Hold;
use crate::engine::mailbox::Mailbox;

/// All waits without a deadline in one client, and the holds of its owners.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    graph: Mutex<Graph>,
    /// How many waits and holds were visited.
    #[cfg(test)]
    visited: std::sync::atomic::AtomicUsize,
}

/// The task of an owner.
type Party = (u64, Flow);

/// Waits and holds, found by what connects them: a wait leads to the holds of its name, a hold to the waits of its party.
#[derive(Debug, Default)]
struct Graph {
    next: u64,
    waits: HashMap<Party, BTreeMap<u64, Wait>>,
    holds: HashMap<Party, BTreeMap<u64, Arc<Hold>>>,
    by_name: HashMap<Name, BTreeMap<u64, Arc<Hold>>>,
}

/// One wait without a deadline.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) owner: u64,
    pub(crate) flow: Flow,
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    /// Shows whether it still waits.
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Wait {
    fn party(&self) -> Party {
        (self.owner, self.flow)
    }

    /// Whether it cannot be granted while `hold` lasts, whatever others do.
    fn is_blocked_by(&self, hold: &Hold) -> bool {
        let (name, held) = (&hold.claim.name, hold.claim.kind);
        *name == self.name
            && hold.owner != Some(self.owner)
            && match self.kind {
                Kind::Read { .. } => held == Kind::Write,
                Kind::Write => matches!(held, Kind::Read { .. } | Kind::Write),
                // These may be mixed on one name.
                Kind::Lock | Kind::FairLock | Kind::Leader => {
                    matches!(held, Kind::Lock | Kind::FairLock | Kind::Leader)
                }
                Kind::Permit { .. } => false,
            }
    }
}

/// A registered wait, which is removed on drop.
pub(crate) struct Seen<'a> {
    waits: &'a Waits,
    party: Party,
    n: u64,
}

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        remove(&mut self.waits.graph.lock().unwrap().waits, &self.party, self.n);
    }
}

/// Removes one entry, and the map that it was in if that is empty now.
fn remove<K: Eq + std::hash::Hash, T>(maps: &mut HashMap<K, BTreeMap<u64, T>>, key: &K, n: u64) {
    if let Some(map) = maps.get_mut(key) {
        map.remove(&n);
        if map.is_empty() {
            maps.remove(key);
        }
    }
}

impl Waits {
    /// Adds a wait, unless it would close a cycle.
    pub(crate) fn join(&self, core: &Core, wait: Wait) -> Result<Seen<'_>, Deadlock> {
        let mut graph = self.graph.lock().unwrap();
        let party = wait.party();
        // An owner with two waits at once is not blocked by either.
        if !graph.waits.contains_key(&party)
            && let Some(cycle) = self.find_cycle(&graph, &wait)
        {
            return Err(Deadlock { backend: core.backend.info().scheme, name: wait.name, cycle });
        }
        graph.next += 1;
        let n = graph.next;
        graph.waits.entry(party).or_default().insert(n, wait);
        Ok(Seen { waits: self, party, n })
    }

    /// Adds a hold, if it has an owner.
    pub(crate) fn add_hold(&self, hold: &Arc<Hold>) {
        let Some(owner) = hold.owner else { return };
        let mut graph = self.graph.lock().unwrap();
        let n = hold.claim.id.n;
        graph.holds.entry((owner, hold.flow)).or_default().insert(n, hold.clone());
        graph.by_name.entry(hold.claim.name.clone()).or_default().insert(n, hold.clone());
    }

    pub(crate) fn remove_hold(&self, hold: &Hold) {
        let Some(owner) = hold.owner else { return };
        let mut graph = self.graph.lock().unwrap();
        let n = hold.claim.id.n;
        remove(&mut graph.holds, &(owner, hold.flow), n);
        remove(&mut graph.by_name, &hold.claim.name, n);
    }

    /// Searches for a cycle through `new`, depth first. Without recursion, because a chain of waits may be long.
    fn find_cycle(&self, graph: &Graph, new: &Wait) -> Option<Vec<Link>> {
        /// A wait on the path from the new one.
        struct Step<'a> {
            wait: &'a Wait,
            /// The hold that led to it.
            hold: Option<Arc<Hold>>,
            /// The holds that block it and were not followed yet.
            blocking: std::vec::IntoIter<Arc<Hold>>,
        }
        graph.holds.get(&new.party())?.values().inspect(|_| self.visit()).find(|hold| hold.is_lasting())?;
        let mut passed = HashSet::new();
        let mut path = vec![Step { wait: new, hold: None, blocking: self.blocking(graph, new) }];
        while let Some(step) = path.last_mut() {
            let Some(hold) = step.blocking.next() else {
                path.pop();
                continue;
            };
            if hold.is_of(new.owner, new.flow) {
                path[0].hold = Some(hold);
                return path.into_iter().map(|step| step.hold.map(|hold| link(step.wait, &hold))).collect();
            }
            if let Some((n, wait)) = self.only_wait(graph, &hold)
                && passed.insert(n)
            {
                path.push(Step { wait, hold: Some(hold), blocking: self.blocking(graph, wait) });
            }
        }
        None
    }

    /// Returns the holds that block `wait` and do not end by themselves.
    fn blocking(&self, graph: &Graph, wait: &Wait) -> std::vec::IntoIter<Arc<Hold>> {
        let holds = graph.by_name.get(&wait.name).into_iter().flat_map(BTreeMap::values);
        let blocking = holds.inspect(|_| self.visit()).filter(|h| wait.is_blocked_by(h) && h.is_lasting());
        blocking.cloned().collect::<Vec<_>>().into_iter()
    }

    /// Returns the only wait of the task that took `hold`, if it has exactly one.
    fn only_wait<'a>(&self, graph: &'a Graph, hold: &Hold) -> Option<(u64, &'a Wait)> {
        self.visit();
        let waits = graph.waits.get(&(hold.owner?, hold.flow))?;
        let (n, only) = waits.first_key_value().filter(|_| waits.len() == 1)?;
        only.mailbox.is_waiting().then_some((*n, only))
    }

    fn visit(&self) {
        #[cfg(test)]
        self.visited.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }

    /// How many parties wait or hold something.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let graph = self.graph.lock().unwrap();
        graph.waits.len() + graph.holds.len() + graph.by_name.len()
    }
}

fn link(wait: &Wait, hold: &Hold) -> Link {
    Link {
        owner: Owner::from_id(wait.owner),
        holds: hold.claim.name.clone(),
        hold: hold.claim.id,
        note: hold.claim.note.clone(),
        waits_for: wait.name.clone(),
    }
}

#[cfg(test)]
mod histories;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use crate::{Client, Deadlocks, Memory, Owner, Settings};

    /// Lets `n` owners hold a name each and wait for the same one. Returns how many waits and holds were visited.
    async fn owners_that_wait(n: usize) -> usize {
        let settings = Settings { deadlocks: Deadlocks::Report, ..Settings::default() };
        let client = Client::with(std::sync::Arc::new(Memory::new()), settings);
        let core = &client.engine.core;
        let held = client.lock("x").owner(&Owner::new()).acquire().await.unwrap();
        let tasks: Vec<_> = (0..n)
            .map(|i| {
                let me = Owner::new();
                let (own, x) = (client.lock(format!("n{i}")).owner(&me), client.lock("x").owner(&me));
                tokio::spawn(async move {
                    let own = own.acquire().await.unwrap();
                    x.acquire().await.unwrap().release().await.unwrap();
                    own.release().await.unwrap();
                })
            })
            .collect();
        testbed::until("all wait", async || core.waits.graph.lock().unwrap().waits.len() == n).await;
        held.release().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(core.waits.len(), 0, "nothing is left of them");
        core.waits.visited.load(SeqCst) + core.keeper.visited.load(SeqCst)
    }

    #[tokio::test]
    async fn an_owner_that_waits_costs_no_more_when_more_wait() {
        let (few, many) = (owners_that_wait(100).await, owners_that_wait(400).await);
        assert!(many <= 5 * few, "{few} visits for 100 owners, {many} for 400");
        assert!(many <= 10 * 400, "{many} visits for 400 owners");
    }
}
