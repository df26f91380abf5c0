//! Numbers without holders: latches, counting semaphores, sizes.

use serde::{Deserialize, Serialize};

/// Which number of a name is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// A count-down latch: gone at zero.
    Latch,
    /// A counting semaphore.
    Semaphore,
    /// The size of a semaphore with recorded permits.
    Size,
}

/// What to do with a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountOp {
    /// Only read it.
    Get,
    /// Set it if there is none.
    Init(u64),
    /// Set it, whatever it is.
    Set(u64),
    /// Add to it; a latch stops at zero, and one that is absent stays so.
    Add(i64),
    /// Subtract if at least that much is there.
    TakeIfAtLeast(u64),
    /// Undo a `TakeIfAtLeast` of this client; if it has not come yet it never will have an effect.
    Undo(u64),
    /// Take all there is.
    Drain,
    /// Remove it.
    Delete,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CountReply {
    /// Whether the operation had its effect.
    pub applied: bool,
    /// The number before.
    pub before: Option<i64>,
    /// The number after.
    pub after: Option<i64>,
    /// Identity of a latch: another one means that the first has opened. Zero where the store cannot tell.
    pub born: u64,
}
