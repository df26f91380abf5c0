//! Owners of one client that wait for each other. Each wait is an edge: from who waits, by the name, to who holds it.
//! Whoever would close a circle is told, at the moment of joining and under one lock; the others go on when it
//! releases what it holds.
//!
//! Only what cannot end by itself is an edge. No edge is: a wait with a time limit; a hold with a lease of its own or
//! `max_hold`; a permit, since any holder may give one back; a hold that was taken, or entered, in another task than
//! the one that waits, or whose task waits twice at once, since then its owner does several things at a time.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use crate::client::Core;
use crate::flow::Flow;
use crate::hold::Hold;
use crate::mailbox::Mailbox;
use crate::owner::Owner;
use crate::{Error, HoldId, Kind, Name, Result};

/// What becomes of owners that wait for each other.
///
/// ```
/// # use tenure_core::{Client, Deadlocks, Error, Memory, Owner, Settings};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// let mut settings = Settings::default();
/// settings.deadlocks = Deadlocks::Report;
/// let client = Client::with(std::sync::Arc::new(Memory::new()), settings);
/// let take = |first: &'static str, then: &'static str| {
///     let client = client.clone();
///     tokio::spawn(async move {
///         let me = Owner::new();
///         let one = client.lock(first).owner(&me).acquire().await?;
///         tokio::task::yield_now().await;
///         let two = client.lock(then).owner(&me).acquire().await?;
///         two.release().await?;
///         one.release().await
///     })
/// };
/// let (a, b) = (take("a", "b"), take("b", "a"));
/// let told = [a.await.unwrap(), b.await.unwrap()];
/// assert_eq!(told.iter().filter(|t| matches!(t, Err(Error::Deadlock(_)))).count(), 1);
/// assert_eq!(told.iter().filter(|t| t.is_ok()).count(), 1); // the other one went on
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Deadlocks {
    /// They wait.
    #[default]
    Ignore,
    /// The one that closes the circle gets [`Error::Deadlock`] instead. For programs in which an owner does one thing
    /// after the other: what it holds it releases itself, and not before a wait of its own has ended. A wait inside
    /// `select!`, `join!` or a timeout of the program's own may end in ways that are not seen here; use
    /// [`try_acquire_for`](crate::Lock::try_acquire_for), which is never told of a deadlock.
    Report,
}

impl fmt::Display for Deadlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ignore => "ignore",
            Self::Report => "report",
        })
    }
}

impl FromStr for Deadlocks {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        match s {
            "ignore" => Ok(Self::Ignore),
            "report" => Ok(Self::Report),
            _ => Err(Error::Config(format!("{s:?} is no way to treat deadlocks: expected report or ignore"))),
        }
    }
}

/// Owners that would wait for each other for ever. Nothing was changed: what they hold is still held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{backend}: waiting for {name} would never end: {}; release what is held before waiting, take names in one order, \
     or take them together with multi",
    self.circle()
)]
#[non_exhaustive]
pub struct Deadlock {
    /// Scheme of the store.
    pub backend: &'static str,
    /// The name that was asked for.
    pub name: Name,
    /// Who waits for whom. The first is who was told; each waits for the next, and the last for the first.
    pub cycle: Vec<Link>,
}

/// One of those who wait for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// Who.
    pub owner: Owner,
    /// What it holds, and the one before it in the circle waits for.
    pub holds: Name,
    /// That hold.
    pub hold: HoldId,
    /// What was said with it, for people.
    pub note: Option<Arc<str>>,
    /// What it waits for.
    pub waits_for: Name,
}

impl Deadlock {
    /// The circle in words.
    pub(crate) fn circle(&self) -> String {
        let links: Vec<_> = self.cycle.iter().map(ToString::to_string).collect();
        links.join(", ")
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, holds, note, waits_for, .. } = self;
        write!(f, "owner {}", owner.id())?;
        if let Some(note) = note {
            write!(f, " ({note})")?;
        }
        write!(f, " holds {holds} and waits for {waits_for}")
    }
}

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
