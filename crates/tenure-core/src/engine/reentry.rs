//! The holds of each owner, so that it can re-enter them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::backend::Name;
use crate::engine::core::Core;
use crate::engine::hold::Hold;

/// The holds of one owner on one name.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Locked by the task that re-enters or makes a first attempt: one at a time.
    pub(crate) entering: tokio::sync::Mutex<()>,
    pub(crate) holds: Mutex<Vec<Arc<Hold>>>,
}

impl Slot {
    /// Returns the holds that are still held.
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

/// A slot in use. When the use ends, an empty slot is removed.
pub(crate) struct SlotUse<'a> {
    core: &'a Core,
    owner: u64,
    name: &'a Name,
    slot: Option<Arc<Slot>>,
    /// Whether other waiters of this owner must check the slot afterwards.
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

    /// Removes a slot that is empty and not in use.
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
