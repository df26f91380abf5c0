//! Owners of one client that wait for each other. Each wait is an edge: from who waits, by the name, to who holds it.
//! Whoever would close a circle is told, at the moment of joining and under one lock; the others go on when it
//! releases what it holds.
//!
//! Only what cannot end by itself is an edge. No edge is: a wait with a time limit; a hold with a lease of its own or
//! `max_hold`; a permit, since any holder may give one back; a hold that was taken, or entered, in another task than
//! the one that waits, or whose task waits twice at once, since then its owner does several things at a time.

use std::sync::{Arc, Mutex};

use crate::backend::{Deadlock, Kind, Link, Name, Owner, Result};
use crate::engine::core::Core;
use crate::engine::flow::Flow;
use crate::engine::hold::Hold;
use crate::engine::mailbox::Mailbox;

/// Those of one client who wait for as long as it takes.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Vec<Wait>>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) owner: u64,
    pub(crate) flow: Flow,
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    /// Tells whether it still waits.
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Wait {
    fn is_of(&self, owner: u64, flow: Flow) -> bool {
        self.owner == owner && self.flow == flow
    }

    /// Whether it cannot get in as long as `hold` lasts, whatever others do.
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

/// A wait that is seen by others until it is dropped.
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
    /// Adds a wait, unless it would close a circle.
    pub(crate) fn join(&self, core: &Core, wait: Wait) -> Result<Seen<'_>, Deadlock> {
        let mut waits = self.0.lock().unwrap();
        // One who waits twice at once does not stand still while it waits.
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

/// The search for a circle through a new wait.
struct Search<'a> {
    waits: &'a [Wait],
    new: &'a Wait,
    /// What does not end by itself.
    holds: Vec<Arc<Hold>>,
    /// From the new wait to the one that is looked at, each with the hold that led to it.
    path: Vec<(&'a Wait, Option<Arc<Hold>>)>,
    /// Waits that lead nowhere.
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

    /// Goes on from who waits to those who are in its way, and returns the hold of the new one that ends the circle.
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

    /// The one thing that whoever took `hold` waits for.
    fn wait_of(&self, hold: &Hold) -> Option<&'a Wait> {
        let mut its = self.waits.iter().filter(|w| hold.is_of(w.owner, w.flow));
        its.next().filter(|first| its.next().is_none() && first.mailbox.is_waiting())
    }
}
