//! The rules of the border. A model has all of them, or all but one, to see what that one prevents.

use std::fmt;

/// One rule. The first part is of every hold, the second of those that are passed on within a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// An id whose release was sent is never tried again.
    DeadId,
    /// The undo of an unanswered attempt follows it on the connection of the attempt.
    SameLane,
    /// An undo that finds nothing is repeated while an attempt of a broken connection may still arrive.
    UndoUntilCertain,
    /// No command shortens the remaining time of a hold.
    NeverShorten,
    /// Validity counts from before the request was sent.
    FromSending,
    /// Validity is shorter than the lease by the drift.
    Drift,
    /// A release removes the hold with its id, and no other.
    OwnerCheck,
    /// A renewal creates nothing.
    RenewalCreatesNothing,
    /// An answer that comes after the end of validity does not count.
    LostStaysLost,
    /// The id of a lost guard is released.
    LostIsReleased,
    /// An attempt that was given up is undone.
    Undo,
    /// A hold ends in the store unless it is renewed.
    Lease,
    /// A fence is not below the wall clock of the store.
    FenceFromClock,
    /// A fence is larger than the last one.
    FenceAboveLast,
    /// What was granted before a suspicion is verified.
    Suspicion,
    /// What was granted before a suspicion and answered after it is verified.
    SuspicionInFlight,

    /// The right to release a hold moves with it.
    OneRight,
    /// A hold is passed on only while no re-entry into it is open.
    NoOpenEntry,
    /// A hold is passed on only while no renewal of it is open.
    NoOpenRenewal,
    /// A hold is passed on only while there is no suspicion about it.
    NoSuspicion,
    /// The validity of the next guard counts from the last answer of the store.
    FromLastProof,
    /// An answer about a hold is for the guard that has it now.
    CurrentGuard,
    /// A hold that somebody outside can name is not passed on.
    NotNamed,
    /// Who passes a hold on leaves the table of re-entries before the next guard exists.
    LeavesTable,
    /// A hold with a re-entry is not passed on.
    OnlyOne,
    /// A hold is passed on only if what is left of it is as much as the next guard asked for.
    EnoughLeft,
    /// A hold is passed on only while there are numbers left for its fences.
    InsideRange,
    /// The acquire stores the end of its range of fences.
    RangeStored,
    /// Every release publishes.
    Publishes,
    /// A hold is passed on only so often.
    Turns,
    /// The claim of a waiter that was handed a hold is undone.
    WaiterUndone,
}

impl Rule {
    /// What the library does.
    pub const OF_THE_LIBRARY: [Self; 16] = [
        Self::DeadId,
        Self::SameLane,
        Self::UndoUntilCertain,
        Self::NeverShorten,
        Self::FromSending,
        Self::Drift,
        Self::OwnerCheck,
        Self::RenewalCreatesNothing,
        Self::LostStaysLost,
        Self::LostIsReleased,
        Self::Undo,
        Self::Lease,
        Self::FenceFromClock,
        Self::FenceAboveLast,
        Self::Suspicion,
        Self::SuspicionInFlight,
    ];

    /// What passing a hold on within a client needs beside these.
    pub const OF_A_HAND_OVER: [Self; 15] = [
        Self::OneRight,
        Self::NoOpenEntry,
        Self::NoOpenRenewal,
        Self::NoSuspicion,
        Self::FromLastProof,
        Self::CurrentGuard,
        Self::NotNamed,
        Self::LeavesTable,
        Self::OnlyOne,
        Self::EnoughLeft,
        Self::InsideRange,
        Self::RangeStored,
        Self::Publishes,
        Self::Turns,
        Self::WaiterUndone,
    ];

    /// Returns the rule as a sentence without a full stop.
    pub fn words(self) -> &'static str {
        match self {
            Self::DeadId => "an id whose release was sent is never tried again",
            Self::SameLane => "the undo of an unanswered attempt follows it on the same connection",
            Self::UndoUntilCertain => "an undo that finds nothing is repeated while the attempt may arrive",
            Self::NeverShorten => "no command shortens the remaining time of a hold",
            Self::FromSending => "validity counts from before the request was sent",
            Self::Drift => "validity is shorter than the lease by the drift",
            Self::OwnerCheck => "a release removes the hold with its id, and no other",
            Self::RenewalCreatesNothing => "a renewal creates nothing",
            Self::LostStaysLost => "an answer that comes after the end of validity does not count",
            Self::LostIsReleased => "the id of a lost guard is released",
            Self::Undo => "an attempt that was given up is undone",
            Self::Lease => "a hold ends in the store unless it is renewed",
            Self::FenceFromClock => "a fence is not below the wall clock of the store",
            Self::FenceAboveLast => "a fence is larger than the last one",
            Self::Suspicion => "what was granted before a suspicion is verified",
            Self::SuspicionInFlight => {
                "what was granted before a suspicion and answered after it is verified"
            }
            Self::OneRight => "the right to release a hold moves with it",
            Self::NoOpenEntry => "a hold is passed on only while no re-entry into it is open",
            Self::NoOpenRenewal => "a hold is passed on only while no renewal of it is open",
            Self::NoSuspicion => "a hold is passed on only while there is no suspicion about it",
            Self::FromLastProof => "the validity of the next guard counts from the last answer of the store",
            Self::CurrentGuard => "an answer about a hold is for the guard that has it now",
            Self::NotNamed => "a hold that somebody outside can name is not passed on",
            Self::LeavesTable => "who passes a hold on leaves the table of re-entries first",
            Self::OnlyOne => "a hold with a re-entry is not passed on",
            Self::EnoughLeft => "as much is left of a hold that is passed on as the next guard asked for",
            Self::InsideRange => "a hold is passed on only while there are numbers left for its fences",
            Self::RangeStored => "the acquire stores the end of its range of fences",
            Self::Publishes => "every release publishes",
            Self::Turns => "a hold is passed on only so often",
            Self::WaiterUndone => "the claim of a waiter that was handed a hold is undone",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// The rules that a model follows: all of them, unless some are taken out.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    out: u32,
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self { out: 0 };

    /// Takes a rule out.
    #[must_use]
    pub const fn without(self, rule: Rule) -> Self {
        Self { out: self.out | 1 << rule as u32 }
    }

    /// Whether a rule is followed.
    pub fn has(self, rule: Rule) -> bool {
        self.out & (1 << rule as u32) == 0
    }
}
