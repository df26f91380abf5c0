//! Deadlock detection between the owners of one client. Each wait is an edge from the waiting owner, through the name,
//! to the owner that holds it. The wait that would close a cycle gets an error, checked under one lock when it joins;
//! the others continue when that owner releases what it holds.
//!
//! Only what cannot end by itself is an edge. These are not: a wait with a deadline; a hold with a fixed lease or
//! `max_hold`; a permit, because any holder may release one; a hold that was acquired or re-entered in a task other
//! than the waiting one, or whose task has two waits at once, because such an owner does several things concurrently.

use std::sync::{Arc, Mutex};

use crate::backend::{Deadlock, Kind, Link, Name, Owner, Result};
use crate::engine::acquisition::Flow;
use crate::engine::core::Core;
use crate::engine::hold::Hold;
use crate::engine::mailbox::Mailbox;

/// All waits without a deadline in one client.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Vec<Wait>>);

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
    fn is_of(&self, owner: u64, flow: Flow) -> bool {
        self.owner == owner && self.flow == flow
    }

    /// Whether it cannot be granted while `hold` lasts, whatever others do.
    fn is_blocked_by(&self, hold: &Hold) -> bool {
        let claim = &hold.claim;
        claim.name == self.name
            && claim.kind.family() == self.kind.family()
            && hold.owner != Some(self.owner)
            && match self.kind {
                Kind::Read { .. } => claim.kind == Kind::Write,
                Kind::Permit { .. } => false,
                Kind::Lock | Kind::FairLock | Kind::Leader | Kind::Write => true,
            }
    }
}

/// A registered wait, which is removed on drop.
pub(crate) struct Seen<'a> {
    waits: &'a Waits,
    mailbox: Arc<Mailbox>,
}

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        self.waits.0.lock().unwrap().retain(|w| !Arc::ptr_eq(&w.mailbox, &self.mailbox));
    }
}

impl Waits {
    /// Adds a wait, unless it would close a cycle.
    pub(crate) fn join(&self, core: &Core, wait: Wait) -> Result<Seen<'_>, Deadlock> {
        let mut waits = self.0.lock().unwrap();
        // An owner with two waits at once is not blocked by either.
        if !waits.iter().any(|w| w.is_of(wait.owner, wait.flow))
            && let Some(cycle) = Search::new(core, &waits, &wait).run()
        {
            return Err(Deadlock { backend: core.backend.info().scheme, name: wait.name, cycle });
        }
        let mailbox = wait.mailbox.clone();
        waits.push(wait);
        Ok(Seen { waits: self, mailbox })
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// The search for a cycle through a new wait.
struct Search<'a> {
    waits: &'a [Wait],
    new: &'a Wait,
    /// The holds that do not end by themselves.
    holds: Vec<Arc<Hold>>,
    /// The path from the new wait to the current one, each with the hold that led to it.
    path: Vec<(&'a Wait, Option<Arc<Hold>>)>,
    /// Waits that were already visited.
    passed: Vec<*const Wait>,
}

impl<'a> Search<'a> {
    fn new(core: &Core, waits: &'a [Wait], new: &'a Wait) -> Self {
        let holds = core.keeper.all().into_iter().filter(|hold| hold.is_lasting()).collect();
        Self { waits, new, holds, path: vec![(new, None)], passed: Vec::new() }
    }

    fn run(mut self) -> Option<Vec<Link>> {
        let own = |hold: &Arc<Hold>| hold.is_of(self.new.owner, self.new.flow);
        if !self.holds.iter().any(own) {
            return None;
        }
        let closing = self.follow(self.new)?;
        self.path[0].1 = Some(closing);
        let links = self.path.into_iter().map(|(wait, hold)| {
            let hold = hold?;
            Some(Link {
                owner: Owner::from_id(wait.owner),
                holds: hold.claim.name.clone(),
                hold: hold.claim.id,
                note: hold.claim.note.clone(),
                waits_for: wait.name.clone(),
            })
        });
        links.collect()
    }

    /// Follows the holds that block `wait`, depth first. Returns the hold of the new wait's owner that closes the
    /// cycle.
    fn follow(&mut self, wait: &'a Wait) -> Option<Arc<Hold>> {
        let in_the_way: Vec<_> = self.holds.iter().filter(|h| wait.is_blocked_by(h)).cloned().collect();
        for hold in in_the_way {
            if hold.is_of(self.new.owner, self.new.flow) {
                return Some(hold);
            }
            let Some(next) = self.wait_of(&hold) else { continue };
            if self.passed.contains(&std::ptr::from_ref(next)) {
                continue;
            }
            self.passed.push(next);
            self.path.push((next, Some(hold)));
            if let Some(closing) = self.follow(next) {
                return Some(closing);
            }
            self.path.pop();
        }
        None
    }

    /// Returns the only wait of the task that took `hold`, if it has exactly one.
    fn wait_of(&self, hold: &Hold) -> Option<&'a Wait> {
        let mut its = self.waits.iter().filter(|w| hold.is_of(w.owner, w.flow));
        its.next().filter(|first| its.next().is_none() && first.mailbox.is_waiting())
    }
}
