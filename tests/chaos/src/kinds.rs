//! The kinds of the workload, and the names that they use.

use std::fmt;

use checker::Store;
use serde::{Deserialize, Serialize};

/// What a name is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Use {
    Lock,
    Fair,
    Rwlock,
    Permits,
    Leader,
    Latch,
}

/// How many names of each kind there are: few enough that workers meet.
const NAMES: u32 = 2;

/// The permits of each semaphore.
pub(crate) const LIMIT: u32 = 3;

impl Use {
    pub(crate) const ALL: [Self; 6] =
        [Self::Lock, Self::Fair, Self::Rwlock, Self::Permits, Self::Leader, Self::Latch];

    /// What a store supports.
    pub(crate) fn on(store: Store) -> &'static [Self] {
        match store {
            Store::RedisPlain | Store::Redlock => &[Self::Lock],
            _ => &Self::ALL,
        }
    }

    /// All its names.
    pub(crate) fn names(self) -> impl Iterator<Item = String> {
        (0..NAMES).map(move |n| format!("{self}-{n}"))
    }

    /// One of its names.
    pub(crate) fn name(self, chance: &mut fastrand::Rng) -> String {
        format!("{self}-{}", chance.u32(0..NAMES))
    }

    /// What this name is used as.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let (word, _) = name.rsplit_once('-')?;
        Self::ALL.into_iter().find(|one| one.to_string() == word)
    }
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::Fair => "fair",
            Self::Rwlock => "rwlock",
            Self::Permits => "permits",
            Self::Leader => "leader",
            Self::Latch => "latch",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_they_are_used_as() {
        for one in Use::ALL {
            assert!(one.names().all(|name| Use::of(&name) == Some(one)), "{one}");
        }
        assert_eq!(Use::of("register-1"), None);
    }
}
