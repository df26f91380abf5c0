//! Mailboxes, in which the gate puts grants for waiters, so that a future that is not polled does not block other
//! waiters.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crate::backend::Error;
use crate::engine::count::Taken;
use crate::engine::entry::Entry;
use crate::engine::telemetry::AcquireStats;
use crate::engine::worker::wake;

/// What a waiter gets. Dropping it gives it back.
pub(crate) enum Grant {
    Entry(Entry),
    Taken(Taken),
}

/// How a wait ended.
pub(crate) enum Letter {
    Grant(Grant),
    TimedOut,
    Failed(Error),
    /// Granted but not collected in time: it was given back, and the wait starts again.
    Expired,
}

enum State {
    Waiting(Option<Waker>),
    Full(Letter),
    Abandoned,
}

pub(crate) struct Mailbox {
    state: Mutex<State>,
    /// Whether its claim may have a position in the store's queue.
    placed: AtomicBool,
    pub(crate) stats: AcquireStats,
}

impl Mailbox {
    pub(crate) fn new(placed: bool) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Waiting(None)),
            placed: AtomicBool::new(placed),
            stats: AcquireStats::default(),
        })
    }

    pub(crate) fn place(&self) {
        self.placed.store(true, SeqCst);
    }

    pub(crate) fn is_placed(&self) -> bool {
        self.placed.load(SeqCst)
    }

    /// Delivers a letter, or returns it if nobody waits any more.
    pub(crate) fn deliver(&self, letter: Letter) -> Result<(), Letter> {
        let mut state = self.state.lock().unwrap();
        let State::Waiting(waker) = &mut *state else { return Err(letter) };
        let waker = waker.take();
        *state = State::Full(letter);
        drop(state);
        if let Some(waker) = waker {
            wake(waker);
        }
        Ok(())
    }

    /// Takes back a grant that was not collected.
    pub(crate) fn reclaim(&self) -> Option<Grant> {
        let mut state = self.state.lock().unwrap();
        if !matches!(*state, State::Full(Letter::Grant(_))) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Full(Letter::Expired)) {
            State::Full(Letter::Grant(grant)) => Some(grant),
            _ => None,
        }
    }

    /// Whether nothing will be collected from it any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state.lock().unwrap(), State::Abandoned)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.state.lock().unwrap(), State::Waiting(_))
    }

    pub(crate) async fn collect(&self) -> Letter {
        poll_fn(|cx| {
            let mut waker = Some(cx.waker().clone());
            let mut state = self.state.lock().unwrap();
            match &mut *state {
                State::Waiting(known) => {
                    // The previous waker is dropped after the lock: it may be the last reference to a task.
                    std::mem::swap(known, &mut waker);
                    Poll::Pending
                }
                _ => match std::mem::replace(&mut *state, State::Abandoned) {
                    State::Full(letter) => Poll::Ready(letter),
                    _ => Poll::Pending,
                },
            }
        })
        .await
    }

    /// Marks it as never to be collected. Dropping the content gives a grant back.
    pub(crate) fn abandon(&self) {
        let last = std::mem::replace(&mut *self.state.lock().unwrap(), State::Abandoned);
        drop(last);
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailbox")
    }
}
