//! Where the driver puts a grant for a waiter, so that a future that nobody polls holds nobody up.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::count::Taken;
use crate::signs::Tally;
use crate::{Error, Guard};

/// What a waiter gets. Dropping it gives it back.
pub(crate) enum Grant {
    Guard(Guard),
    Taken(Taken),
}

/// How a wait ended.
pub(crate) enum Letter {
    Grant(Grant),
    TimedOut,
    Failed(Error),
    /// Granted, but not collected in time: given back, and the wait begins anew.
    Reclaimed,
}

enum State {
    Waiting(Option<Waker>),
    Full(Letter),
    Abandoned,
}

pub(crate) struct Mailbox {
    state: Mutex<State>,
    /// Its claim may have a place among the store's waiters.
    placed: AtomicBool,
    /// Why the last attempt got no answer, and since when none did. `None` once the store has said that it is busy.
    failure: Mutex<Option<(Instant, Error)>>,
    pub(crate) tally: Tally,
}

impl Mailbox {
    pub(crate) fn new(placed: bool) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::Waiting(None)),
            placed: AtomicBool::new(placed),
            failure: Mutex::default(),
            tally: Tally::default(),
        })
    }

    pub(crate) fn place(&self) {
        self.placed.store(true, SeqCst);
    }

    pub(crate) fn is_placed(&self) -> bool {
        self.placed.load(SeqCst)
    }

    /// What the last attempt came to: why the store did not answer, or nothing where it is busy.
    pub(crate) fn tried(&self, failure: Option<&Error>) {
        let mut last = self.failure.lock().unwrap();
        let since = last.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *last = failure.map(|error| (since, error.clone()));
    }

    /// Why it was not served in time, where that was not because others held it: the store is not ready, or has not
    /// answered for `patience`. A call that failed once says little.
    pub(crate) fn failure(&self, patience: Duration) -> Option<Error> {
        let last = self.failure.lock().unwrap();
        let (since, error) = last.as_ref()?;
        (error.retry_after().is_some() || since.elapsed() >= patience).then(|| error.clone())
    }

    /// Puts a letter in. Gives it back when nobody waits any more.
    pub(crate) fn deliver(&self, letter: Letter) -> Result<(), Letter> {
        let mut state = self.state.lock().unwrap();
        let State::Waiting(waker) = &mut *state else { return Err(letter) };
        let waker = waker.take();
        *state = State::Full(letter);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Takes a grant back that was not collected.
    pub(crate) fn reclaim(&self) -> Option<Grant> {
        let mut state = self.state.lock().unwrap();
        if !matches!(*state, State::Full(Letter::Grant(_))) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Full(Letter::Reclaimed)) {
            State::Full(Letter::Grant(grant)) => Some(grant),
            _ => None,
        }
    }

    /// Whether nobody will collect anything from it any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state.lock().unwrap(), State::Abandoned)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*self.state.lock().unwrap(), State::Waiting(_))
    }

    pub(crate) async fn collect(&self) -> Letter {
        poll_fn(|cx| {
            let mut state = self.state.lock().unwrap();
            match &mut *state {
                State::Waiting(waker) => {
                    *waker = Some(cx.waker().clone());
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

    /// Nobody will collect. What was in it falls back.
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
