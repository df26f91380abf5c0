//! Numbers without holders: latches, counting semaphores, and sizes of semaphores.

use serde::{Deserialize, Serialize};

/// Selects one of the numbers of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// A count-down latch, removed when it reaches zero.
    Latch,
    /// A counting semaphore.
    Semaphore,
    /// The size of a semaphore with recorded permits.
    Size,
}

/// An operation on a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CountOp {
    /// Reads it.
    Get,
    /// Sets it if it does not exist.
    Init(u64),
    /// Sets it unconditionally.
    Set(u64),
    /// Adds to it. A latch stops at zero, and an absent latch stays absent.
    Add(i64),
    /// Subtracts if the number is at least that large.
    TakeIfAtLeast(u64),
    /// Undoes the `TakeIfAtLeast` of this client with this operation number. If that has not arrived yet, it will have
    /// no effect.
    Undo(u64),
    /// Takes everything.
    Drain,
    /// Removes it.
    Delete,
}

/// The answer to a [`CountOp`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CountReply {
    /// Whether the operation took effect.
    pub applied: bool,
    /// The number before the operation.
    pub before: Option<i64>,
    /// The number after the operation.
    pub after: Option<i64>,
    /// Identity of a latch: a different one means that the earlier latch has opened. Zero where the store cannot tell.
    pub born: u64,
}
