//! What has to be so in every state, and from every state on.

use std::fmt;

use crate::state::{Call, Entered, Leaving, State};
use crate::world::World;

/// A promise that a run may break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Property {
    /// At most one owner is certain to hold the name.
    Exclusion,
    /// Each grant has a larger fence than all before it.
    Fence,
    /// No live hold is freed by a command that was sent for another one.
    NotFreed,
    /// Only the owner unlocks.
    OwnerUnlocks,
    /// What the store has belongs to somebody who waits for it, holds it or releases it.
    NothingLeft,
    /// A lost guard stays lost.
    StaysLost,
    /// What the store has called gone is not held.
    GoneIsLost,
    /// A guard is given for as long as was asked for.
    LongEnough,
    /// Nobody sleeps while the name is free.
    Woken,
    /// Others are not passed over more often than was said.
    InTurn,
    /// Whatever has happened, all that is held or waited for can still come to an end.
    Ends,
    /// Whatever has happened, one who asks can still get the name.
    Granted,
}

impl Property {
    /// Returns the promise as a sentence without a full stop.
    pub fn words(self) -> &'static str {
        match self {
            Self::Exclusion => "at most one owner is certain to hold the name",
            Self::Fence => "each grant has a larger fence than all before it",
            Self::NotFreed => "no live hold is freed by a command that was sent for another one",
            Self::OwnerUnlocks => "only the owner unlocks",
            Self::NothingLeft => "what the store has is waited for, held or being released",
            Self::StaysLost => "a lost guard stays lost",
            Self::GoneIsLost => "what the store has called gone is not held",
            Self::LongEnough => "a guard is given for as long as was asked for",
            Self::Woken => "nobody sleeps while the name is free",
            Self::InTurn => "others are not passed over more often than was said",
            Self::Ends => "all that is held or waited for can come to an end",
            Self::Granted => "one who asks can get the name",
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl State {
    /// Returns what is broken in this state, or was by the step to it.
    pub fn broken(&self, world: &World) -> Option<Property> {
        if self.broken.is_some() {
            return self.broken;
        }
        let strangers = self.clients.iter().any(|client| {
            let older = |hold: &crate::state::Hold| hold.entered == Entered::Older;
            client.live().is_some_and(older)
        });
        if strangers || (0..world.clients).filter(|c| self.is_certain(*c)).count() > 1 {
            return Some(Property::Exclusion);
        }
        if self.is_left_behind() {
            return Some(Property::NothingLeft);
        }
        let asleep = world.hand_over
            && self.store.hold.is_none()
            && self.clients.iter().any(|client| {
                let sleeps = |ask: crate::state::Ask| !ask.sent && !ask.signal;
                client.ask.is_some_and(sleeps) && !client.unaware
            });
        asleep.then_some(Property::Woken)
    }

    /// Whether the guard of a client reports that it holds, and the store has not lost the hold in a way that the client
    /// has not had time to find out.
    fn is_certain(&self, client: u8) -> bool {
        let of = &self.clients[usize::from(client)];
        of.live().is_some_and(|hold| {
            let is_told = !of.unaware && !hold.doubt && hold.call != Call::Prove;
            let is_forgotten = self.store.forgot == Some((client, hold.claim)) && !self.store.has_again;
            !is_forgotten || is_told || hold.given_in_doubt
        })
    }

    /// Whether the store has a hold that nobody will release.
    fn is_left_behind(&self) -> bool {
        self.store.hold.is_some_and(|stored| {
            let client = &self.clients[usize::from(stored.client)];
            let asks = client.ask.is_some() && client.begun == stored.claim;
            let holds = client.hold.is_some_and(|hold| hold.claim == stored.claim);
            let leaves = client.releases[usize::from(stored.claim) - 1].leaving != Leaving::No;
            !(stored.unknown || client.dead || asks || holds || leaves)
        })
    }

    /// Whether nothing is held, asked for or under way.
    pub fn is_over(&self) -> bool {
        self.store.hold.is_none()
            && self.clients.iter().all(|client| {
                let left = |release: &crate::state::Release| release.leaving != Leaving::No;
                client.ask.is_none() && client.hold.is_none() && !client.releases.iter().any(left)
            })
    }

    /// Whether somebody holds, or nobody asks any more.
    pub fn is_served(&self) -> bool {
        let holds = self.clients.iter().any(|client| client.live().is_some());
        holds || !self.clients.iter().any(|client| client.ask.is_some())
    }
}
