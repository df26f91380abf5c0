//! Things to look at, each at its time, so that a look visits what is due and nothing else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::backend::Time;

/// What is in an agenda, by its time.
///
/// A time that was moved to later is noticed when the earlier one has come; one that was moved to sooner must be told,
/// with [`Agenda::sooner`].
#[derive(Debug)]
pub(crate) struct Agenda<T>(BTreeMap<(Time, u64), T>);

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What can be in one agenda at a time.
pub(crate) trait Item {
    /// Its number, of which there is one in an agenda.
    fn n(&self) -> u64;

    fn place(&self) -> &Place;
}

/// Where something is in its agenda. Changed by the agenda only.
#[derive(Debug)]
pub(crate) struct Place(AtomicU64);

const NOWHERE: u64 = 0;

impl Place {
    pub(crate) const fn nowhere() -> Self {
        Self(AtomicU64::new(NOWHERE))
    }

    fn get(&self) -> Option<Time> {
        match self.0.load(SeqCst) {
            NOWHERE => None,
            nanos => Some(Time::from_nanos(nanos)),
        }
    }

    fn set(&self, at: Option<Time>) {
        self.0.store(at.map_or(NOWHERE, Time::as_nanos), SeqCst);
    }
}

impl<T: Item> Agenda<T> {
    pub(crate) fn insert(&mut self, item: T, at: Time) {
        let at = at.max(Time::from_nanos(NOWHERE + 1));
        item.place().set(Some(at));
        self.0.insert((at, item.n()), item);
    }

    /// Removes it. Returns whether it was there.
    pub(crate) fn remove(&mut self, item: &impl Item) -> bool {
        self.take(item).is_some()
    }

    fn take(&mut self, item: &impl Item) -> Option<T> {
        let at = item.place().get()?;
        item.place().set(None);
        self.0.remove(&(at, item.n()))
    }

    /// Moves it to `at` if it is there, and that is sooner. Returns whether it was moved.
    pub(crate) fn sooner(&mut self, item: &impl Item, at: Time) -> bool {
        if item.place().get().is_none_or(|planned| planned <= at) {
            return false;
        }
        let taken = self.take(item);
        let moved = taken.is_some();
        if let Some(item) = taken {
            self.insert(item, at);
        }
        moved
    }

    /// Takes out what is to be looked at until `at`, the soonest first and `at_most` so many.
    pub(crate) fn take_until(&mut self, at: Time, at_most: usize) -> Vec<T> {
        let mut taken = Vec::new();
        while taken.len() < at_most
            && let Some(first) = self.0.first_entry().filter(|first| first.key().0 <= at)
        {
            let item = first.remove();
            item.place().set(None);
            taken.push(item);
        }
        taken
    }

    /// When the first of them is to be looked at.
    pub(crate) fn next(&self) -> Time {
        self.0.first_key_value().map_or(Time::MAX, |((at, _), _)| *at)
    }
}

impl<T> Agenda<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    struct Thing(u64, Place);

    impl Item for Arc<Thing> {
        fn n(&self) -> u64 {
            self.0
        }

        fn place(&self) -> &Place {
            &self.1
        }
    }

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn each_comes_once_at_the_soonest_time_that_was_told() {
        let mut agenda = Agenda::default();
        let things: Vec<_> = (0..4).map(|n| Arc::new(Thing(n, Place::nowhere()))).collect();
        for (thing, when) in things.iter().zip([30, 10, 20, 10]) {
            agenda.insert(thing.clone(), at(when));
        }
        assert!(agenda.sooner(&things[0], at(15)));
        assert!(!agenda.sooner(&things[2], at(25)), "it is looked at before, and has its new time then");
        assert!(agenda.remove(&things[3]));
        assert!(!agenda.remove(&things[3]) && !agenda.sooner(&things[3], at(1)), "it is gone");
        assert_eq!(agenda.next(), at(10));
        let mut taken = |until, at_most| -> Vec<u64> {
            agenda.take_until(at(until), at_most).iter().map(|thing| thing.0).collect()
        };
        assert_eq!(taken(19, 1), [1]);
        assert_eq!(taken(19, 9), [0]);
        assert_eq!(taken(19, 9), [0; 0]);
        assert_eq!(taken(20, 9), [2]);
        assert!(agenda.is_empty() && agenda.next() == Time::MAX);
    }

    #[test]
    fn what_is_due_at_the_beginning_of_time_is_found_again() {
        let mut agenda = Agenda::default();
        let thing = Arc::new(Thing(7, Place::nowhere()));
        agenda.insert(thing.clone(), at(0));
        assert!(agenda.remove(&thing) && agenda.is_empty());
    }
}
