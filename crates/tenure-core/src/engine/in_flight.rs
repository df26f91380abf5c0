//! Requests started in the caller's task and not answered yet. Dropping the future undoes them at once. If the future
//! is only no longer polled, as in a `select!` loop that is busy elsewhere, the keeper has them undone, so that waiters
//! are not blocked by a grant that nobody uses.
//!
//! A request that completes in the first poll, as on an embedded store, is never registered: that happens only when a
//! poll returns `Pending`.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use crate::backend::{Result, Time};
use crate::engine::agenda::{Item, Place};
use crate::engine::core::Core;
use crate::engine::worker::wake;

/// How to undo something that may have taken effect.
pub(crate) trait Undo: Clone + Send + 'static {
    fn undo(self, core: &Arc<Core>);
}

/// A request until it is answered. Dropping it undoes the request, unless [`InFlight::keep`] was called.
pub(crate) struct InFlight<'a, U: Undo> {
    core: &'a Arc<Core>,
    what: &'a U,
    flight: Option<Arc<Flight>>,
    kept: bool,
}

/// How work that was run for a request ended.
pub(crate) enum Ran<T> {
    Done(T),
    /// It was not polled for longer than the patience, or the client was closed: it is undone, and the caller starts
    /// again with another id.
    Revoked,
    OutOfTime,
}

impl<'a, U: Undo> InFlight<'a, U> {
    pub(crate) fn new(core: &'a Arc<Core>, what: &'a U) -> Self {
        Self { core, what, flight: None, kept: false }
    }

    /// Runs `work` until `limit`. Work that completes in the first poll sets no alarm.
    pub(crate) async fn run<T>(
        &mut self,
        limit: Option<Instant>,
        patience: Duration,
        work: impl Future<Output = T>,
    ) -> Result<Ran<T>> {
        let mut work = pin!(work);
        let core = self.core;
        let mut alarm = limit.map(|at| core.alarm(at)).transpose()?;
        let ran = poll_fn(|cx| {
            if !self.may_go_on() {
                return Poll::Ready(Ran::Revoked);
            }
            if let Poll::Ready(out) = work.as_mut().poll(cx) {
                self.forget();
                return Poll::Ready(Ran::Done(out));
            }
            if !self.waits(cx, patience) {
                return Poll::Ready(Ran::Revoked);
            }
            match &mut alarm {
                Some(alarm) => Pin::new(alarm).poll(cx).map(|()| Ran::OutOfTime),
                None => Poll::Pending,
            }
        });
        Ok(ran.await)
    }

    /// Keeps the effect: there was none, or something else owns it now.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }

    /// Called before each poll: a revoked attempt must not be sent again, nor its answer count.
    fn may_go_on(&self) -> bool {
        match &self.flight {
            Some(flight) if !flight.enter() => {
                // The keeper may not have undone it yet, and the next attempt would find its own leftover.
                flight.undo(self.core);
                false
            }
            _ => true,
        }
    }

    /// Called after a poll that returned `Pending`: from now on the keeper supervises it.
    fn waits(&mut self, cx: &Context<'_>, patience: Duration) -> bool {
        let flight = match &self.flight {
            Some(flight) => {
                flight.waker.register(cx.waker());
                flight.state.store(OPEN, SeqCst);
                flight.clone()
            }
            None => {
                let flight = Arc::new(Flight::new(self.core.next(), self.what.clone(), patience));
                flight.waker.register(cx.waker());
                self.core.keeper.supervise(&flight, self.core.clock.now());
                self.flight = Some(flight.clone());
                flight
            }
        };
        // A client closed meanwhile has not seen it, or saw it while it was being polled.
        if self.core.check_open().is_err() {
            flight.close();
        }
        if flight.is_revoked() {
            flight.undo(self.core);
            return false;
        }
        true
    }

    /// Ends the supervision. Returns whether it still has to be undone.
    fn forget(&mut self) -> bool {
        let Some(flight) = self.flight.take() else { return true };
        self.core.keeper.dismiss(&flight);
        let revoked = flight.state.swap(OVER, SeqCst) == REVOKED;
        if revoked {
            // The keeper may not have undone it yet, and the next attempt would find its own leftover.
            flight.undo(self.core);
        }
        !revoked
    }
}

impl<U: Undo> Drop for InFlight<'_, U> {
    fn drop(&mut self) {
        if self.forget() && !self.kept {
            self.what.clone().undo(self.core);
        }
    }
}

/// Sent, and not being polled at the moment.
const OPEN: u8 = 0;
/// Its task was woken, to check whether it is still polled.
const ASKED: u8 = 1;
/// Being polled: it must not be revoked now, or it might send what has already been undone.
const POLLED: u8 = 2;
/// Answered, or dropped.
const OVER: u8 = 3;
/// Undone: its id is dead.
const REVOKED: u8 = 4;

type Job = Box<dyn FnOnce(&Arc<Core>) + Send>;

/// The part of a request in flight that the keeper sees.
pub(crate) struct Flight {
    n: u64,
    state: AtomicU8,
    /// For how long it may go without a poll.
    patience: Duration,
    /// Whether its task was woken at the last look.
    asked: AtomicBool,
    place: Place,
    waker: AtomicWaker,
    undo: Mutex<Option<Job>>,
}

/// What the keeper has to do about it.
pub(crate) enum Look {
    /// To look again then.
    Again(Time),
    /// To wake its task, and to look again then.
    Wake(Time),
    Undo,
}

impl Item for Arc<Flight> {
    fn n(&self) -> u64 {
        self.n
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

impl Flight {
    pub(crate) fn new(n: u64, what: impl Undo, patience: Duration) -> Self {
        Self {
            n,
            state: AtomicU8::new(OPEN),
            patience,
            asked: AtomicBool::new(false),
            place: Place::nowhere(),
            waker: AtomicWaker::new(),
            undo: Mutex::new(Some(Box::new(move |core| what.undo(core)))),
        }
    }

    fn turn(&self, from: &[u8], to: u8) -> bool {
        self.state.fetch_update(SeqCst, SeqCst, |s| from.contains(&s).then_some(to)).is_ok()
    }

    fn enter(&self) -> bool {
        self.turn(&[OPEN, ASKED], POLLED)
    }

    fn is_revoked(&self) -> bool {
        self.state.load(SeqCst) == REVOKED
    }

    /// When the keeper looks at it for the first time.
    pub(crate) fn first_look(&self, now: Time) -> Time {
        now.after(self.patience - self.patience / 4)
    }

    /// A slow store is no reason to revoke: its task is woken first, and only if it is not polled then, it counts as
    /// abandoned.
    pub(crate) fn look(&self, now: Time) -> Look {
        let asked = self.asked.load(SeqCst);
        if asked && self.turn(&[ASKED], REVOKED) {
            Look::Undo
        } else if !asked && self.turn(&[OPEN], ASKED) {
            self.asked.store(true, SeqCst);
            Look::Wake(now.after(self.window()))
        } else {
            // It was polled after the wake-up, or is being polled now.
            self.asked.store(false, SeqCst);
            Look::Again(now.after(self.patience / 2))
        }
    }

    /// How long a woken task may take to poll. A shorter lease ends by itself soon enough.
    fn window(&self) -> Duration {
        (self.patience / 4).max(Duration::from_millis(50))
    }

    /// Revokes it whether or not it is still polled, but not during a poll. Returns whether it did.
    pub(crate) fn close(&self) -> bool {
        self.turn(&[OPEN, ASKED], REVOKED)
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            wake(waker);
        }
    }

    /// Undoes a revoked request, once. A second caller blocks until the undo has been started.
    pub(crate) fn undo(&self, core: &Arc<Core>) {
        let mut undo = self.undo.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(undo) = undo.take() {
            undo(core);
        }
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flight({})", self.state.load(SeqCst))
    }
}
