//! Each rule, a world in which it is needed, and what breaks there without it.

use crate::property::Property;
use crate::rules::Rule;
use crate::search::{Run, explore};
use crate::world::World;

/// A rule that is taken out of a world, or a promise that is taken in full.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The rule that is taken out; `None` if it is about an exception from a promise.
    pub rule: Option<Rule>,
    /// The world that is explored.
    pub world: World,
    /// What the shortest run breaks.
    pub breaks: Property,
}

const fn case(rule: Rule, world: World, breaks: Property) -> Case {
    Case { rule: Some(rule), world: world.without(rule), breaks }
}

impl Case {
    /// The rules of the library.
    pub const OF_THE_LIBRARY: [Self; 16] = [
        case(Rule::DeadId, World::network(), Property::NotFreed),
        case(Rule::SameLane, World::network(), Property::NothingLeft),
        case(Rule::UndoUntilCertain, World::network(), Property::NothingLeft),
        case(Rule::NeverShorten, World::reentry(), Property::Exclusion),
        case(Rule::FromSending, World { slow: 0, ..World::network() }, Property::Exclusion),
        case(Rule::Drift, World::network(), Property::Exclusion),
        case(Rule::OwnerCheck, World::network(), Property::OwnerUnlocks),
        case(Rule::RenewalCreatesNothing, World::network(), Property::NothingLeft),
        case(Rule::LostStaysLost, World::network(), Property::StaysLost),
        case(Rule::LostIsReleased, World::network(), Property::NothingLeft),
        case(Rule::Undo, World::network(), Property::NothingLeft),
        case(Rule::Lease, World::network(), Property::Ends),
        case(Rule::FenceFromClock, World::restart(), Property::Fence),
        case(Rule::FenceAboveLast, World::restart(), Property::Fence),
        case(Rule::Suspicion, World::restart(), Property::Exclusion),
        case(Rule::SuspicionInFlight, World::restart(), Property::Exclusion),
    ];

    /// What passing a hold on within a client needs beside these.
    pub const OF_A_HAND_OVER: [Self; 14] = [
        case(Rule::OneRight, World::hand_over(), Property::NotFreed),
        case(Rule::NoOpenEntry, World::hand_over_shared(), Property::Exclusion),
        case(Rule::NoSuspicion, World::hand_over_restart(), Property::Exclusion),
        case(Rule::FromLastProof, World::hand_over(), Property::Exclusion),
        case(
            Rule::CurrentGuard,
            World::hand_over_restart().without(Rule::NoOpenRenewal),
            Property::GoneIsLost,
        ),
        case(Rule::NotNamed, World::hand_over_shared(), Property::NotFreed),
        case(Rule::LeavesTable, World::hand_over_shared(), Property::Exclusion),
        case(Rule::OnlyOne, World::hand_over_shared(), Property::Exclusion),
        case(Rule::EnoughLeft, World::hand_over(), Property::LongEnough),
        case(
            Rule::InsideRange,
            World { turns: 3, acquires: 3, in_all: 4, ..World::hand_over() },
            Property::Fence,
        ),
        case(Rule::RangeStored, World::hand_over(), Property::Fence),
        case(Rule::Publishes, World::hand_over(), Property::Woken),
        case(Rule::Turns, World { range: 3, acquires: 3, in_all: 4, ..World::hand_over() }, Property::InTurn),
        case(Rule::WaiterUndone, World::hand_over(), Property::NothingLeft),
    ];

    /// The promises that hold with an exception.
    pub const EXCEPTIONS: [Self; 2] = [
        Self {
            rule: None,
            world: World { repeats: 0, ..World::network() }.strict(),
            breaks: Property::NothingLeft,
        },
        Self { rule: None, world: World::hand_over_restart().strict(), breaks: Property::Fence },
    ];

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OF_THE_LIBRARY.into_iter().chain(Self::OF_A_HAND_OVER).chain(Self::EXCEPTIONS)
    }

    /// Returns what it shows, in a sentence.
    pub fn title(&self) -> String {
        match self.rule {
            Some(rule) => format!("Without: {rule}."),
            None => format!("Not without exception: {}.", self.breaks),
        }
    }

    /// Returns the shortest run that breaks something.
    pub fn run(&self) -> Option<Run> {
        explore(&self.world).broken
    }
}
