//! What a history consists of: one event per line of JSON, written by the process in which it happened.
//!
//! The times decide what the checks may conclude, so each event says when its clock is read:
//!
//! | event | `at` is read |
//! | --- | --- |
//! | a call | before the call is made |
//! | its answer | after the call returned, and before the guard is asked for anything |
//! | `held` | before the guard is asked |
//! | `not-held` | after the guard was asked |
//! | `dropped`, `detached` | before the guard is dropped or detached |
//! | a fault | before and after it is caused, before and after it is healed |
//! | `exiting` | before the client is closed |
//! | `killed` | after the process is known to be dead |
//!
//! So a process may stand still between any two instructions without making its own log wrong. All times are those of
//! the boot clock (`CLOCK_BOOTTIME`), which all processes of one machine share.

use serde::{Deserialize, Serialize};

use crate::fault::{Class, Phase, Target};
use crate::run::Run;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds of the boot clock.
    pub at: u64,
    /// The process that it happened in; for `killed` the one that was killed. A restarted process has a new number.
    pub process: u32,
    /// What happened.
    pub what: What,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Says what the history is of; the first event, if it is there.
    Run(Run),
    /// The process began. `clients` are the ids that its holds begin with, if they are known.
    Started {
        /// The ids of its clients.
        #[serde(default)]
        clients: Vec<String>,
    },
    /// The process is about to close its clients and to end.
    Exiting,
    /// The process was killed.
    Killed,
    /// A call began.
    Call {
        /// The number of the call, unique within its process.
        op: u64,
        /// The worker that made it.
        worker: u32,
        /// What was called.
        call: Call,
    },
    /// A call returned. One that never returned has no such event.
    Answer {
        /// The call.
        op: u64,
        /// What it returned.
        answer: Answer,
    },
    /// The guard that `of` returned said that it is held.
    Held {
        /// The acquire.
        of: u64,
    },
    /// The guard that `of` returned said that it is no longer held.
    NotHeld {
        /// The acquire.
        of: u64,
        /// Why, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The guard that `of` returned was dropped: it is released in the background.
    Dropped {
        /// The acquire.
        of: u64,
    },
    /// The guard that `of` returned was detached.
    Detached {
        /// The acquire.
        of: u64,
        /// What its `remaining` was just before, in nanoseconds: asked for after `at` was read.
        remaining: u64,
    },
    /// The queue of the store has the waiter `of`: from now on whoever comes is behind it.
    Queued {
        /// The acquire.
        of: u64,
    },
    /// A resource was read or written.
    Access(Access),
    /// An observer of an election saw a leader.
    Observed {
        /// The observer, unique within its process.
        observer: u32,
        /// The election.
        name: String,
        /// The term that it saw.
        term: u64,
    },
    /// A fault begins or ends.
    Fault {
        /// The number of the fault, unique within the history.
        id: u32,
        /// What kind of fault.
        class: Class,
        /// What it hits.
        target: Target,
        /// What happens to it now.
        phase: Phase,
    },
    /// Something panicked.
    Panicked {
        /// The message.
        message: String,
    },
    /// What the store shows of a name at the end.
    Inspected(Inspected),
}

/// A call, whose answer is an event of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// Acquires a name.
    Acquire(Acquire),
    /// Releases the guard that the acquire `of` of the same process returned.
    Release {
        /// The acquire.
        of: u64,
    },
    /// Releases a hold by its id, from any process.
    ReleaseBy {
        /// The id of the hold.
        hold: String,
    },
    /// Takes a name from whoever holds it.
    Force {
        /// The name.
        name: String,
    },
    /// Sets the number of permits of a semaphore.
    Resize {
        /// The name.
        name: String,
        /// The new number.
        to: u32,
    },
    /// Sets the count of a latch, if it is open.
    SetCount {
        /// The name.
        name: String,
        /// The count.
        to: u64,
    },
    /// Counts a latch down by one.
    CountDown {
        /// The name.
        name: String,
    },
    /// Reads the count of a latch.
    Count {
        /// The name.
        name: String,
    },
    /// Removes a latch, which opens it.
    Delete {
        /// The name.
        name: String,
    },
    /// Waits until a latch is open.
    Wait {
        /// The name.
        name: String,
        /// How long.
        wait: Wait,
    },
}

/// What is acquired, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acquire {
    /// The name.
    pub name: String,
    /// As what.
    pub kind: Kind,
    /// The owner, unique within its process; none is a fresh one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How long to wait.
    pub wait: Wait,
    /// The lease, in nanoseconds, if it is fixed; none is renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
    /// The minimum time that it is held for, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<u64>,
}

/// What a name is acquired as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A lock.
    Lock,
    /// A fair lock.
    Fair,
    /// The read half of a read/write lock.
    Read,
    /// The write half of a read/write lock.
    Write,
    /// A leadership; its fence is its term.
    Leader,
    /// Permits of a semaphore.
    Permits {
        /// How many.
        n: u32,
        /// The limit that the code names.
        limit: u32,
    },
}

/// How long a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Not at all.
    Try,
    /// For at most this many nanoseconds.
    For(u64),
    /// Without a limit.
    Forever,
}

/// What a call returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It was acquired.
    Granted(Granted),
    /// Others hold it, and the call did not wait.
    Busy,
    /// Others held it for as long as the call waited.
    TimedOut,
    /// It was released.
    Released,
    /// It had been lost before.
    Lost {
        /// Why.
        reason: String,
    },
    /// Done; with the count, for calls that return one, and 0 or 1 for those that return whether they did something.
    Done {
        /// The number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<u64>,
    },
    /// Certainly not executed.
    Unavailable {
        /// The error.
        error: String,
    },
    /// Refused as wrong: a misuse, or something that the store does not support.
    Refused {
        /// The error.
        error: String,
    },
    /// It may or may not have been executed.
    Unknown {
        /// The error.
        error: String,
    },
}

/// A grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// Its fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// The id of its hold; none if it was granted to another library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// What its guard says remains, in nanoseconds: asked for after the time of the answer was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
}

/// An access to a resource that numbers all accesses in the order in which they happen to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The resource.
    pub register: String,
    /// The place of this access in the order of the resource.
    pub seq: u64,
    /// The acquire, of the same process, whose guard covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The fence that came with it. A resource that checks fences notes those of reads, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// Whether the resource accepted it.
    pub accepted: bool,
    /// What it was.
    pub action: Action,
}

/// What was done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Its value was read.
    Read {
        /// The value.
        value: u64,
    },
    /// It was written.
    Write {
        /// The value.
        value: u64,
        /// The `seq` of the write whose value it was computed from; 0 if there was none.
        based_on: u64,
    },
}

/// What the store shows of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspected {
    /// The name.
    pub name: String,
    /// The ids of its holds.
    #[serde(default)]
    pub holders: Vec<String>,
    /// The ids of its waiters.
    #[serde(default)]
    pub waiters: Vec<String>,
}

impl Call {
    /// The name that it is about, if it says so itself.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Acquire(acquire) => Some(&acquire.name),
            Self::Force { name }
            | Self::Resize { name, .. }
            | Self::SetCount { name, .. }
            | Self::CountDown { name }
            | Self::Count { name }
            | Self::Delete { name }
            | Self::Wait { name, .. } => Some(name),
            Self::Release { .. } | Self::ReleaseBy { .. } => None,
        }
    }
}

impl Kind {
    /// Whether two of it may be inside at the same time.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Read | Self::Permits { .. })
    }
}
