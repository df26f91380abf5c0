//! Who holds: an identity that re-enters what it holds. Never a thread or a task, since tasks move between threads
//! and the branches of `join!` share one task.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::Name;
use crate::client::Core;
use crate::hold::Hold;

static NEXT: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static AMBIENT: u64;
}

/// An identity under which locks are re-entered. Each acquire has a fresh one unless one is named.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let me = tenure_core::Owner::new();
/// let lock = client.lock("orders/42").owner(&me);
/// let outer = lock.acquire().await?;
/// let inner = lock.acquire().await?; // the same owner enters again
/// assert_eq!(inner.holds(), 2);
/// assert!(client.lock("orders/42").try_acquire().await?.is_none()); // anyone else does not
/// # drop((inner, outer)); Ok(()) }
/// ```
///
/// An owner is known inside one client only: two clients given the same owner exclude each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// A fresh one.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self(NEXT.fetch_add(1, Relaxed))
    }

    /// Makes this the owner of every acquire inside `work` that names no other. All branches inside, also those of
    /// `join!`, re-enter each other's locks; spawned tasks are outside.
    pub async fn scope<F: Future>(&self, work: F) -> F::Output {
        AMBIENT.scope(self.0, work).await
    }

    pub(crate) fn from_id(id: u64) -> Self {
        Self(id)
    }

    pub(crate) fn id(&self) -> u64 {
        self.0
    }

    pub(crate) fn ambient() -> Option<u64> {
        AMBIENT.try_with(|owner| *owner).ok()
    }
}

/// What one owner holds of one name.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Held by whoever enters or makes a first attempt: one at a time.
    pub(crate) entering: tokio::sync::Mutex<()>,
    pub(crate) holds: Mutex<Vec<Arc<Hold>>>,
}

impl Slot {
    /// What is still held.
    pub(crate) fn held(&self) -> Vec<Arc<Hold>> {
        let mut holds = self.holds.lock().unwrap();
        holds.retain(|h| h.is_held());
        holds.clone()
    }

    pub(crate) fn add(&self, hold: &Arc<Hold>) {
        let mut holds = self.holds.lock().unwrap();
        if !holds.iter().any(|h| Arc::ptr_eq(h, hold)) {
            holds.push(hold.clone());
        }
    }
}

/// A slot in use. When the use ends, however it does, a slot that holds nothing is forgotten.
pub(crate) struct SlotUse<'a> {
    core: &'a Core,
    owner: u64,
    name: &'a Name,
    slot: Option<Arc<Slot>>,
    /// Whether others of this owner who wait shall look at it afterwards.
    tells: bool,
}

impl<'a> SlotUse<'a> {
    pub(crate) fn new(core: &'a Core, owner: u64, name: &'a Name, tells: bool) -> Self {
        Self { core, owner, name, slot: Some(core.slots.of(owner, name)), tells }
    }
}

impl std::ops::Deref for SlotUse<'_> {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        self.slot.as_ref().expect("until it is dropped")
    }
}

impl Drop for SlotUse<'_> {
    fn drop(&mut self) {
        self.slot = None;
        self.core.slots.tidy(self.owner, self.name);
        if self.tells {
            self.core.gates.recheck(self.name, self.owner);
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<HashMap<(u64, Name), Arc<Slot>>>);

impl Slots {
    fn of(&self, owner: u64, name: &Name) -> Arc<Slot> {
        self.0.lock().unwrap().entry((owner, name.clone())).or_default().clone()
    }

    /// Forgets a slot that holds nothing and that nobody uses.
    pub(crate) fn tidy(&self, owner: u64, name: &Name) {
        let mut slots = self.0.lock().unwrap();
        let key = (owner, name.clone());
        let Some(slot) = slots.get(&key) else { return };
        if Arc::strong_count(slot) > 1 {
            return;
        }
        if slot.held().is_empty() {
            slots.remove(&key);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
