//! One pipelined connection. A lone call writes and reads by itself: no other task or thread is woken for it. As soon
//! as a second call is in flight, the connection's driver task reads and writes for all, so that a future which nobody
//! polls does not block the others.
//!
//! The mutex is held for non-blocking polls only, never across an await.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tenure_core::HoldId;

use super::attempts::Attempts;
use super::failure::Failure;
use super::wire::{Input, Stream, Value, Wire};
use crate::Address;

static NUMBERS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) to: Address,
    /// The server's uptime, and when it was reported.
    pub(crate) up: Option<(Duration, Instant)>,
    attempts: Arc<Attempts>,
    /// Whether it accepts no more calls.
    dead: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// `None` once the connection is dead.
    pub(super) stream: Option<Stream>,
    input: Input,
    /// Requests to write; those before `at` are written.
    out: Vec<u8>,
    at: usize,
    /// The number of bytes written before those in `out`.
    gone: u64,
    pub(super) slots: VecDeque<Slot>,
    /// Whether the driver reads and writes. Otherwise the only call in flight does so itself.
    pub(super) driving: bool,
    /// Whether the driver is about to run anyway.
    pub(super) awake: bool,
    pub(super) driver: Option<Waker>,
    /// Whether the driver's timer is running.
    pub(super) ticking: bool,
    /// The number of calls so far.
    pub(super) calls: u64,
    /// When the last reply arrived.
    pub(super) heard: Instant,
    /// Whether any reply arrived.
    worked: bool,
    /// Whether TLS may have buffered bytes.
    held_back: bool,
    /// Why it closes after the last call in flight.
    retired: Option<String>,
    why: String,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its offset in all bytes ever sent.
    start: u64,
    want: usize,
    got: Vec<Value>,
    pub(super) sent: Instant,
    pub(super) deadline: Instant,
    attempt: Option<(HoldId, u64)>,
    /// `None` once nobody waits for it.
    pub(super) ticket: Option<Arc<Ticket>>,
}

/// Where a call receives its answer.
#[derive(Debug, Default)]
pub(super) struct Ticket(Mutex<Fate>);

#[derive(Debug, Default)]
struct Fate {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// The replies received; if some are missing, why.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) values: Vec<Value>,
    pub(crate) rest: Option<Failure>,
}

impl Answer {
    pub(crate) fn all(self) -> Result<Vec<Value>, Failure> {
        match self.rest {
            None => Ok(self.values),
            Some(failure) => Err(failure),
        }
    }
}

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, Fate> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes the answer; if there is none, the waker, so that the task being polled is not woken.
    fn look(&self) -> Result<Answer, Option<Waker>> {
        let mut fate = self.lock();
        fate.answer.take().ok_or_else(|| fate.waker.take())
    }

    fn wait(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    pub(super) fn settle(&self, answer: Answer, wake: &mut Vec<Waker>) {
        let mut fate = self.lock();
        fate.answer = Some(answer);
        wake.extend(fate.waker.take());
    }
}

/// Terms of requests that are sent together and answered together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The number of replies.
    pub(crate) want: usize,
    pub(crate) deadline: Instant,
    /// The hold that one of them may create, and its lease.
    pub(crate) attempt: Option<(HoldId, Duration)>,
}

impl Terms {
    pub(crate) fn new(want: usize, deadline: Instant) -> Self {
        Self { want, deadline, attempt: None }
    }
}

impl Connection {
    pub(crate) fn new(
        to: Address,
        wire: Wire,
        up: Option<(Duration, Instant)>,
        attempts: Arc<Attempts>,
    ) -> Arc<Self> {
        let state = State {
            stream: Some(wire.stream),
            input: wire.input,
            out: Vec::new(),
            at: 0,
            gone: 0,
            slots: VecDeque::new(),
            driving: false,
            awake: true,
            driver: None,
            ticking: false,
            calls: 0,
            heard: Instant::now(),
            worked: false,
            held_back: false,
            retired: None,
            why: String::new(),
        };
        Arc::new(Self { to, up, attempts, dead: AtomicBool::new(false), state: Mutex::new(state) })
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Relaxed)
    }

    /// Whether it answered calls and was never retired.
    pub(crate) fn has_worked(&self) -> bool {
        let state = self.lock();
        state.worked && state.retired.is_none()
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.lock().slots.is_empty()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queues requests. They are written when the reply is first polled, or by the driver; if the `Reply` is dropped,
    /// the answer is discarded on arrival.
    pub(crate) fn send(self: &Arc<Self>, terms: Terms, encode: impl FnOnce(&mut Vec<u8>)) -> Reply {
        let ticket = Arc::new(Ticket::default());
        let mut state = self.lock();
        let (mut kick, number) = (None, state.calls);
        if state.stream.is_none() {
            let why = Failure::NotExecuted(state.why.clone());
            ticket.settle(Answer { values: Vec::new(), rest: Some(why) }, &mut Vec::new());
        } else {
            let attempt = terms.attempt.map(|(id, lease)| {
                let number = NUMBERS.fetch_add(1, Relaxed);
                self.attempts.sent(id, self, number, lease);
                (id, number)
            });
            let start = state.gone + state.out.len() as u64;
            encode(&mut state.out);
            state.slots.push_back(Slot {
                start,
                want: terms.want,
                got: Vec::with_capacity(terms.want),
                sent: Instant::now(),
                deadline: terms.deadline,
                attempt,
                ticket: Some(ticket.clone()),
            });
            state.calls += 1;
            kick = state.call_driver();
        }
        drop(state);
        if let Some(driver) = kick {
            driver.wake();
        }
        Reply { connection: self.clone(), ticket, number, done: false, pushes: false }
    }

    /// Closes it, whatever is in flight.
    pub(crate) fn close(&self, why: &str) {
        let mut wake = Vec::new();
        self.fail(&mut self.lock(), why, &mut wake);
        wake.into_iter().for_each(Waker::wake);
    }

    /// Closes it once everything in flight is answered: those answers count. Returns false if it was dead already.
    pub(crate) fn retire(&self, why: &str) -> bool {
        let mut wake = Vec::new();
        let mut state = self.lock();
        if self.dead.swap(true, Release) {
            return false;
        }
        state.retired = Some(why.to_owned());
        self.end_if_done(&mut state, &mut wake);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        true
    }

    fn end_if_done(&self, state: &mut State, wake: &mut Vec<Waker>) {
        if state.slots.is_empty()
            && let Some(why) = state.retired.clone()
        {
            self.fail(state, &why, wake);
        }
    }

    pub(super) fn fail(&self, state: &mut State, why: &str, wake: &mut Vec<Waker>) {
        if state.stream.take().is_none() {
            return;
        }
        self.dead.store(true, Release);
        state.why = format!("{}: {why}", self.to);
        let written = state.gone + state.at as u64;
        for slot in state.slots.drain(..) {
            let sent = slot.start < written;
            if let Some((id, number)) = slot.attempt {
                if sent { self.attempts.lost(id, number) } else { self.attempts.settled(id, number) }
            }
            let why = state.why.clone();
            let failure = if sent { Failure::Unknown(why) } else { Failure::NotExecuted(why) };
            if let Some(ticket) = slot.ticket {
                ticket.settle(Answer { values: slot.got, rest: Some(failure) }, wake);
            }
        }
        (state.out, state.at) = (Vec::new(), 0);
        wake.extend(state.driver.take());
    }

    /// Reads and delivers replies until nothing more is there or, unless `all`, until no call is in flight. Returns
    /// false if the connection has failed.
    pub(super) fn read(
        &self,
        state: &mut State,
        cx: &mut Context<'_>,
        all: bool,
        wake: &mut Vec<Waker>,
    ) -> bool {
        loop {
            if state.slots.is_empty() && !all {
                return true;
            }
            let Some(stream) = &mut state.stream else { return false };
            match stream.poll_read(cx, &mut state.input) {
                Poll::Pending => return true,
                Poll::Ready(Ok(0)) => self.fail(state, "the server closed the connection", wake),
                Poll::Ready(Err(e)) => self.fail(state, &e.to_string(), wake),
                Poll::Ready(Ok(_)) => self.hand_out(state, wake),
            }
        }
    }

    fn hand_out(&self, state: &mut State, wake: &mut Vec<Waker>) {
        let mut heard = None;
        loop {
            let value = match state.input.next() {
                Ok(Some(value)) => value,
                Ok(None) => return,
                Err(garbled) => return self.fail(state, garbled.0, wake),
            };
            let Some(slot) = state.slots.front_mut() else {
                return self.fail(state, "a reply that nobody asked for", wake);
            };
            // Nothing of the request was written yet. If this counted as its reply, all later replies would be off by
            // one.
            if slot.start >= state.gone + state.at as u64 {
                return self.fail(state, "a reply that nobody asked for", wake);
            }
            slot.got.push(value);
            state.heard = *heard.get_or_insert_with(Instant::now);
            state.worked = true;
            if slot.got.len() < slot.want {
                continue;
            }
            let slot = state.slots.pop_front().expect("it is the front one");
            if let Some((id, number)) = slot.attempt {
                self.attempts.settled(id, number);
            }
            if let Some(ticket) = slot.ticket {
                ticket.settle(Answer { values: slot.got, rest: None }, wake);
            }
            self.end_if_done(state, wake);
        }
    }

    /// Writes as much as the socket takes. Returns whether everything was written.
    pub(super) fn write(&self, state: &mut State, cx: &mut Context<'_>, wake: &mut Vec<Waker>) -> bool {
        while state.at < state.out.len() {
            let Some(stream) = &mut state.stream else { return false };
            match stream.poll_write(cx, &state.out[state.at..]) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0)) => self.fail(state, "the connection takes no more", wake),
                Poll::Ready(Ok(n)) => (state.at, state.held_back) = (state.at + n, true),
                Poll::Ready(Err(e)) => {
                    // A part of it may have been sent, encrypted, before the part that failed.
                    if matches!(stream, Stream::Tls(_)) {
                        state.at = state.out.len();
                    }
                    self.fail(state, &e.to_string(), wake);
                }
            }
        }
        state.gone += state.out.len() as u64;
        state.at = 0;
        state.out.clear();
        if !state.held_back {
            return true;
        }
        match state.stream.as_mut().map(|s| s.poll_flush(cx)) {
            Some(Poll::Ready(Ok(()))) => state.held_back = false,
            Some(Poll::Ready(Err(e))) => self.fail(state, &e.to_string(), wake),
            Some(Poll::Pending) | None => {}
        }
        !state.held_back
    }

    /// Polls for the only call in flight. Returns whether the driver is needed after all.
    fn poll_alone(
        &self,
        state: &mut State,
        cx: &mut Context<'_>,
        ticket: &Arc<Ticket>,
        wake: &mut Vec<Waker>,
    ) -> bool {
        let mine = |state: &State| match state.slots.front() {
            Some(slot) => slot.ticket.as_ref().is_some_and(|t| Arc::ptr_eq(t, ticket)),
            None => false,
        };
        if state.driving || !mine(state) {
            return false;
        }
        // Reading first detects a closed connection before anything is written, and registers for the reply.
        if !self.read(state, cx, false, wake) || !mine(state) {
            return false;
        }
        !self.write(state, cx, wake) && state.stream.is_some()
    }
}

impl State {
    /// The call with this number, if it is in flight: replies arrive in order.
    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let answered = self.calls - self.slots.len() as u64;
        let place = usize::try_from(number.checked_sub(answered)?).ok()?;
        self.slots.get_mut(place)
    }

    /// The waker of the driver, if it must run because a call was added.
    fn call_driver(&mut self) -> Option<Waker> {
        self.driving |= self.slots.len() > 1;
        if (self.driving && !self.awake) || !self.ticking {
            self.ticking = true;
            self.awake = true;
            return self.driver.take();
        }
        None
    }

    fn hand_to_driver(&mut self) -> Option<Waker> {
        self.driving = true;
        self.awake = true;
        self.driver.take()
    }

    pub(super) fn all_written(&self) -> bool {
        self.at == self.out.len() && !self.held_back
    }

    /// Whether any byte of this call was written.
    pub(super) fn touched(&self, slot: &Slot) -> bool {
        slot.start < self.gone + self.at as u64
    }
}

/// A pending answer. If dropped, the answer is read and discarded.
#[derive(Debug)]
#[must_use]
pub(crate) struct Reply {
    connection: Arc<Connection>,
    ticket: Arc<Ticket>,
    /// The number of calls on this connection before it.
    number: u64,
    done: bool,
    /// Whether it writes by itself although there is a driver, whose runtime may not be running at the moment.
    pushes: bool,
}

impl Reply {
    pub(crate) fn pushing(mut self) -> Self {
        self.pushes = true;
        self
    }
}

impl Future for Reply {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let this = self.get_mut();
        let (mut wake, mut old) = (Vec::new(), None);
        // Answers are delivered under this lock, so none can be missed between the checks and the wait.
        let mut state = this.connection.lock();
        let polled = match this.ticket.look() {
            Ok(answer) => Poll::Ready(answer),
            Err(waker) => {
                let mut needs_driver = this.connection.poll_alone(&mut state, cx, &this.ticket, &mut wake);
                if std::mem::take(&mut this.pushes) && state.driving {
                    this.connection.write(&mut state, cx, &mut wake);
                    // The write has replaced the driver's waker at the socket.
                    needs_driver = true;
                }
                if needs_driver {
                    wake.extend(state.hand_to_driver());
                }
                match this.ticket.look() {
                    Ok(answer) => Poll::Ready(answer),
                    Err(_) => {
                        let (same, other) = match waker {
                            Some(waker) if waker.will_wake(cx.waker()) => (Some(waker), None),
                            other => (None, other),
                        };
                        this.ticket.wait(same.unwrap_or_else(|| cx.waker().clone()));
                        old = other;
                        Poll::Pending
                    }
                }
            }
        };
        drop(state);
        // Wakers are foreign code: they are woken and dropped outside of the lock.
        drop(old);
        wake.into_iter().for_each(Waker::wake);
        this.done = polled.is_ready();
        polled
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.connection.lock();
        let Some(slot) = state.slot(self.number) else { return };
        slot.ticket = None;
        // Nobody else would read its answer, nor write it if it was never polled.
        let driver = if state.driving && state.awake { None } else { state.hand_to_driver() };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}
