//! The holders or the waiters of one name, in order of arrival.
//!
//! Few of them, as almost always, are simply scanned. For many there is an index by id, by end and by kind, so that one
//! attempt among thousands costs no more than among a hundred. The index is not stored: entries are written and read as
//! a plain list, and the first change of a long list builds its index.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Expiry, Now};
use crate::backend::HoldId;

/// Up to this number of entries, a scan is as fast as an index.
const FEW: usize = if cfg!(test) { 2 } else { 16 };

/// What [`Entries`] must know about an entry. Its id, and whether it blocks later entries, never change.
pub trait Entry {
    /// Its id, unique among the entries.
    fn id(&self) -> HoldId;
    /// How many permits it has; zero if it is not about permits.
    fn permits(&self) -> u64;
    /// Whether it blocks those who come later although they could share the name.
    fn is_barring(&self) -> bool;
    /// When it ends.
    fn expiry(&self) -> &Expiry;
    /// Gives it a full term from now if its end was set by another clock. Returns whether that was necessary.
    fn adopt(&mut self, now: Now) -> bool;
}

/// Entries in order of arrival.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # use tenure_core::ledger::LedgerStore;
/// # let memory = std::sync::Arc::new(tenure_core::Memory::new());
/// # let client = tenure_core::Client::with(memory.clone(), tenure_core::Settings::default());
/// let guard = client.lock("orders/42").acquire().await?;
/// let (ledger, now) = memory.store().peek(guard.name()).await?.expect("it is in use");
/// assert!(ledger.waiters.is_empty());
/// assert_eq!(ledger.holders.len(), 1);
/// assert_eq!(ledger.holders.first().map(|holder| holder.id), Some(guard.id()));
/// assert_eq!(ledger.holders.last().map(|holder| holder.holds), Some(1));
/// for holder in ledger.holders.iter() {
///     println!("{} has {:?} left", holder.id, holder.expiry.left(now));
/// }
/// # guard.release().await }
/// ```
///
/// Each has a number, which is larger than those of all entries before it, and which it keeps until expired entries are
/// removed.
#[derive(Clone, Debug)]
pub struct Entries<T> {
    /// `None` where an entry was removed, except at both ends. So a removal moves no other entry.
    slots: VecDeque<Option<T>>,
    /// The number of the first slot.
    offset: u64,
    len: usize,
    index: Option<Box<Index>>,
}

/// Where to find an entry among many, valid for one clock that does not step back.
#[derive(Clone, Debug)]
struct Index {
    clock: u128,
    tick: u64,
    by_id: HashMap<HoldId, u64>,
    by_end: BTreeSet<(u64, u64)>,
    barring: BTreeSet<u64>,
    permits: u64,
}

impl Index {
    /// Adds an entry. Returns `false` if its end is not known on this clock.
    fn add(&mut self, number: u64, entry: &impl Entry) -> bool {
        let Some(end) = entry.expiry().end_on(self.clock) else { return false };
        self.by_id.insert(entry.id(), number);
        self.by_end.insert((end, number));
        if entry.is_barring() {
            self.barring.insert(number);
        }
        self.permits += entry.permits();
        true
    }

    fn remove(&mut self, number: u64, entry: &impl Entry) {
        self.by_id.remove(&entry.id());
        if let Some(end) = entry.expiry().end_on(self.clock) {
            self.by_end.remove(&(end, number));
        }
        self.barring.remove(&number);
        self.permits -= entry.permits();
    }
}

impl<T: Entry> Entries<T> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns them in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().inspect(|_| look()).flatten()
    }

    /// Returns the first to arrive.
    pub fn first(&self) -> Option<&T> {
        self.first_numbered().map(|(_, entry)| entry)
    }

    /// Returns the last to arrive.
    pub fn last(&self) -> Option<&T> {
        self.slots.back()?.as_ref()
    }

    pub(super) fn first_numbered(&self) -> Option<(u64, &T)> {
        Some((self.offset, self.slots.front()?.as_ref()?))
    }

    /// Returns the first entry that blocks those who come later.
    pub(super) fn first_barring(&self) -> Option<(u64, &T)> {
        match &self.index {
            Some(index) => index.barring.first().and_then(|number| Some((*number, self.at(*number)?))),
            None => self.numbered().find(|(_, entry)| entry.is_barring()),
        }
    }

    /// Returns how many permits all of them have.
    pub(super) fn permits(&self) -> u64 {
        match &self.index {
            Some(index) => index.permits,
            None => self.iter().map(Entry::permits).sum(),
        }
    }

    /// Returns when the first of them ends, on the clock of `now`.
    pub(super) fn first_end(&self, now: Now) -> Option<&Expiry> {
        match &self.index {
            Some(index) if index.clock == now.clock => {
                index.by_end.first().and_then(|(_, number)| self.at(*number)).map(Entry::expiry)
            }
            _ => self.iter().map(Entry::expiry).min_by_key(|expiry| expiry.left(now)),
        }
    }

    /// Returns the number of the entry with this id.
    pub(super) fn find(&self, id: HoldId) -> Option<u64> {
        match &self.index {
            Some(index) => index.by_id.get(&id).copied(),
            None => self.numbered().find(|(_, entry)| entry.id() == id).map(|(number, _)| number),
        }
    }

    pub(super) fn get(&self, id: HoldId) -> Option<&T> {
        self.find(id).and_then(|number| self.at(number))
    }

    fn at(&self, number: u64) -> Option<&T> {
        self.slots.get(self.slot(number)?)?.as_ref()
    }

    fn slot(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.offset)?).ok()
    }

    fn numbered(&self) -> impl Iterator<Item = (u64, &T)> {
        let numbered = (self.offset..).zip(&self.slots).inspect(|_| look());
        numbered.filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
    }

    /// Adds an entry at the end.
    pub(super) fn push(&mut self, entry: T) {
        let number = self.offset + self.slots.len() as u64;
        if self.index.as_mut().is_some_and(|index| !index.add(number, &entry)) {
            self.index = None;
        }
        self.slots.push_back(Some(entry));
        self.len += 1;
    }

    /// Changes the entry with this id, and returns what `change` returns; `None` if there is no such entry.
    pub(super) fn update<R>(&mut self, id: HoldId, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let number = self.find(id)?;
        let slot = self.slot(number)?;
        let entry = self.slots.get_mut(slot)?.as_mut()?;
        let Some(index) = &mut self.index else { return Some(change(entry)) };
        index.remove(number, entry);
        let result = change(entry);
        if !index.add(number, entry) {
            self.index = None;
        }
        Some(result)
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let slot = self.slot(number)?;
        let entry = self.slots.get_mut(slot)?.take()?;
        self.len -= 1;
        if let Some(index) = &mut self.index {
            index.remove(number, &entry);
        }
        self.trim();
        Some(entry)
    }

    /// Removes the empty slots at both ends.
    fn trim(&mut self) {
        while let Some(None) = self.slots.back() {
            self.slots.pop_back();
        }
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.offset += 1;
        }
    }

    /// Removes all entries for which `keep` returns `false`.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        self.index = None;
        self.slots.retain_mut(|entry| {
            look();
            entry.as_mut().is_some_and(&mut keep)
        });
        self.len = self.slots.len();
    }

    /// Removes what has ended, and passes it to `ended`. What was stamped under another clock gets one full term from
    /// now; returns whether there was any of that.
    pub(super) fn prune(&mut self, now: Now, mut ended: impl FnMut(&T)) -> bool {
        if self.is_empty() {
            return false;
        }
        if self.len <= FEW || self.slots.len() > 2 * self.len {
            self.index = None;
        }
        if let Some(index) = self.index.as_mut().filter(|i| i.clock == now.clock && i.tick <= now.tick) {
            index.tick = now.tick;
            while let Some((_, number)) = self.first_to_end().filter(|(end, _)| *end <= now.tick) {
                look();
                self.remove(number).iter().for_each(&mut ended);
            }
            return false;
        }
        let mut adopted = false;
        self.retain(|entry| {
            adopted |= entry.adopt(now);
            let alive = !entry.expiry().is_over(now);
            if !alive {
                ended(entry);
            }
            alive
        });
        if self.len > FEW {
            self.index = self.build(now);
        }
        adopted
    }

    fn first_to_end(&self) -> Option<(u64, u64)> {
        self.index.as_ref()?.by_end.first().copied()
    }

    fn build(&self, now: Now) -> Option<Box<Index>> {
        let mut index = Index {
            clock: now.clock,
            tick: now.tick,
            by_id: HashMap::with_capacity(self.len),
            by_end: BTreeSet::new(),
            barring: BTreeSet::new(),
            permits: 0,
        };
        self.numbered().all(|(number, entry)| index.add(number, entry)).then(|| Box::new(index))
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { slots: VecDeque::new(), offset: 0, len: 0, index: None }
    }
}

impl<T: PartialEq> PartialEq for Entries<T> {
    fn eq(&self, other: &Self) -> bool {
        self.slots.iter().flatten().eq(other.slots.iter().flatten())
    }
}

impl<T> From<Vec<T>> for Entries<T> {
    fn from(entries: Vec<T>) -> Self {
        let slots: VecDeque<_> = entries.into_iter().map(Some).collect();
        Self { len: slots.len(), slots, ..Self::default() }
    }
}

impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.slots.iter().flatten())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

/// Counts a visit to an entry, for the tests of what a change costs.
fn look() {
    #[cfg(test)]
    super::tests::LOOKED_AT.with(|looked_at| looked_at.set(looked_at.get() + 1));
}

#[cfg(test)]
impl<T: Entry + PartialEq> Entries<T> {
    pub(super) fn is_indexed(&self) -> bool {
        self.index.is_some()
    }

    /// Whether the index agrees with the entries.
    pub(super) fn is_indexed_right(&self) -> bool {
        let ends = [self.slots.front(), self.slots.back()];
        if self.len != self.slots.iter().flatten().count() || ends.contains(&Some(&None)) {
            return false;
        }
        let Some(index) = &self.index else { return true };
        let by_end: BTreeSet<_> =
            self.numbered().filter_map(|(n, e)| Some((e.expiry().end_on(index.clock)?, n))).collect();
        let barring = self.numbered().filter(|(_, e)| e.is_barring()).map(|(n, _)| n);
        self.numbered().all(|(n, e)| index.by_id.get(&e.id()) == Some(&n))
            && index.by_id.len() == self.len
            && index.by_end == by_end
            && index.barring.iter().copied().eq(barring)
            && index.permits == self.iter().map(Entry::permits).sum::<u64>()
    }
}
