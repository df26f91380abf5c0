//! How tasks or threads take turns on one name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tenure::{Client, Lock};

/// The loop of each task: acquire, hold, release, pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    pub(crate) kind: Kind,
    pub(crate) hold: Duration,
    pub(crate) pause: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Lock,
    Fair,
}

impl Turns {
    /// As fast as possible.
    pub(crate) const BUSY: Self = Self { kind: Kind::Lock, hold: Duration::ZERO, pause: Duration::ZERO };

    /// Like a service that works under the lock, and then elsewhere.
    pub(crate) const FAIR: Self =
        Self { kind: Kind::Fair, hold: Duration::from_millis(1), pause: Duration::from_millis(5) };
}

impl Kind {
    pub(crate) fn lock(self, client: &Client, name: &str) -> Lock {
        match self {
            Self::Lock => client.lock(name),
            Self::Fair => client.lock(name).fair(),
        }
    }

    /// The driver's word for the kind.
    pub(crate) fn driver_word(self) -> &'static str {
        match self {
            Self::Lock => "plain",
            Self::Fair => "fair",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::Fair => "fair",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Self::Lock, Self::Fair];
        all.into_iter().find(|kind| kind.to_string() == word).ok_or_else(|| format!("no kind {word:?}"))
    }
}
