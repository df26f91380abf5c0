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
use tenure_core::backend::Reason;

use super::attempts::Attempts;
use super::failure::Failure;
use super::wire::{Framed, ReplyBuffer, Stream, Value, closed_by_server};
use crate::Address;
use crate::nat::Place;

static NUMBERS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) to: Address,
    /// The server in errors.
    pub(crate) place: Place,
    /// The server's uptime, and when it was reported.
    pub(crate) uptime: Option<(Duration, Instant)>,
    attempts: Arc<Attempts>,
    /// Whether it accepts no more calls.
    dead: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// `None` once the connection is dead.
    pub(super) stream: Option<Stream>,
    input: ReplyBuffer,
    /// Requests to write; those before `written` are written.
    output: Vec<u8>,
    written: usize,
    /// The number of bytes written before those in `output`.
    written_before: u64,
    pub(super) in_flight: VecDeque<InFlight>,
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
    pub(super) last_reply: Instant,
    /// Whether any reply arrived.
    worked: bool,
    /// Whether TLS may have buffered bytes.
    needs_flush: bool,
    /// Why it closes after the last call in flight.
    retired: Option<String>,
    /// Set once the connection is dead.
    close_reason: Option<Reason>,
}

/// A call in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Its offset in all bytes ever sent.
    start: u64,
    expected: usize,
    got: Vec<Value>,
    pub(super) sent: Instant,
    pub(super) deadline: Instant,
    attempt: Option<(HoldId, u64)>,
    /// `None` once nobody waits for it.
    pub(super) completion: Option<Arc<Completion>>,
}

/// Where a call receives its answer.
#[derive(Debug, Default)]
pub(super) struct Completion(Mutex<CompletionState>);

#[derive(Debug, Default)]
struct CompletionState {
    answer: Option<Replies>,
    waker: Option<Waker>,
}

/// The replies received; if some are missing, why.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) values: Vec<Value>,
    pub(crate) failure: Option<Failure>,
}

impl Replies {
    pub(crate) fn all(self) -> Result<Vec<Value>, Failure> {
        match self.failure {
            None => Ok(self.values),
            Some(failure) => Err(failure),
        }
    }
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, CompletionState> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes the answer; if there is none, the waker, so that the task being polled is not woken.
    fn take_or_waker(&self) -> Result<Replies, Option<Waker>> {
        let mut inner = self.lock();
        inner.answer.take().ok_or_else(|| inner.waker.take())
    }

    fn set_waker(&self, waker: Waker) {
        self.lock().waker = Some(waker);
    }

    pub(super) fn complete(&self, answer: Replies, wake: &mut Vec<Waker>) {
        let mut inner = self.lock();
        inner.answer = Some(answer);
        wake.extend(inner.waker.take());
    }
}

/// SendOptions of requests that are sent together and answered together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendOptions {
    /// The number of replies.
    pub(crate) expected: usize,
    pub(crate) deadline: Instant,
    /// The hold that one of them may create, and its lease.
    pub(crate) attempt: Option<(HoldId, Duration)>,
}

impl SendOptions {
    pub(crate) fn new(expected: usize, deadline: Instant) -> Self {
        Self { expected, deadline, attempt: None }
    }
}

impl Connection {
    pub(crate) fn new(
        to: Address,
        place: Place,
        framed: Framed,
        uptime: Option<(Duration, Instant)>,
        attempts: Arc<Attempts>,
    ) -> Arc<Self> {
        let state = State {
            stream: Some(framed.stream),
            input: framed.input,
            output: Vec::new(),
            written: 0,
            written_before: 0,
            in_flight: VecDeque::new(),
            driving: false,
            awake: true,
            driver: None,
            ticking: false,
            calls: 0,
            last_reply: Instant::now(),
            worked: false,
            needs_flush: false,
            retired: None,
            close_reason: None,
        };
        Arc::new(Self { to, place, uptime, attempts, dead: AtomicBool::new(false), state: Mutex::new(state) })
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
        self.lock().in_flight.is_empty()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Queues requests. They are written when the reply is first polled, or by the driver; if the `PendingReplies` is dropped,
    /// the answer is discarded on arrival.
    pub(crate) fn send(
        self: &Arc<Self>,
        options: SendOptions,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> PendingReplies {
        let completion = Arc::new(Completion::default());
        let mut state = self.lock();
        let (mut driver, number) = (None, state.calls);
        if state.stream.is_none() {
            let failure = state.close_reason.clone().map(Failure::NotExecuted);
            completion.complete(Replies { values: Vec::new(), failure }, &mut Vec::new());
        } else {
            let attempt = options.attempt.map(|(id, lease)| {
                let number = NUMBERS.fetch_add(1, Relaxed);
                self.attempts.sent(id, self, number, lease);
                (id, number)
            });
            let start = state.written_before + state.output.len() as u64;
            encode(&mut state.output);
            state.in_flight.push_back(InFlight {
                start,
                expected: options.expected,
                got: Vec::with_capacity(options.expected),
                sent: Instant::now(),
                deadline: options.deadline,
                attempt,
                completion: Some(completion.clone()),
            });
            state.calls += 1;
            driver = state.driver_to_wake();
        }
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        PendingReplies { connection: self.clone(), completion, number, done: false, writes_itself: false }
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
        if state.in_flight.is_empty()
            && let Some(why) = state.retired.clone()
        {
            self.fail(state, why, wake);
        }
    }

    pub(super) fn fail(&self, state: &mut State, why: impl Into<Reason>, wake: &mut Vec<Waker>) {
        if state.stream.take().is_none() {
            return;
        }
        self.dead.store(true, Release);
        let why = why.into().at(&self.place);
        state.close_reason = Some(why.clone());
        let written = state.written_before + state.written as u64;
        for call in state.in_flight.drain(..) {
            let sent = call.start < written;
            if let Some((id, number)) = call.attempt {
                if sent { self.attempts.lost(id, number) } else { self.attempts.answered(id, number) }
            }
            let why = why.clone();
            let failure = if sent { Failure::Unknown(why) } else { Failure::NotExecuted(why) };
            if let Some(completion) = call.completion {
                completion.complete(Replies { values: call.got, failure: Some(failure) }, wake);
            }
        }
        (state.output, state.written) = (Vec::new(), 0);
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
            if state.in_flight.is_empty() && !all {
                return true;
            }
            let Some(stream) = &mut state.stream else { return false };
            match stream.poll_read(cx, &mut state.input) {
                Poll::Pending => return true,
                Poll::Ready(Ok(0)) => self.fail(state, closed_by_server(), wake),
                Poll::Ready(Err(e)) => self.fail(state, e, wake),
                Poll::Ready(Ok(_)) => self.deliver_replies(state, wake),
            }
        }
    }

    fn deliver_replies(&self, state: &mut State, wake: &mut Vec<Waker>) {
        let mut now = None;
        loop {
            let value = match state.input.next() {
                Ok(Some(value)) => value,
                Ok(None) => return,
                Err(error) => return self.fail(state, error.0, wake),
            };
            let Some(call) = state.in_flight.front_mut() else {
                return self.fail(state, "the server sent a reply to no request", wake);
            };
            // Nothing of the request was written yet. If this counted as its reply, all later replies would be off by
            // one.
            if call.start >= state.written_before + state.written as u64 {
                return self.fail(state, "the server sent a reply to no request", wake);
            }
            call.got.push(value);
            state.last_reply = *now.get_or_insert_with(Instant::now);
            state.worked = true;
            if call.got.len() < call.expected {
                continue;
            }
            let call = state.in_flight.pop_front().expect("it is the front one");
            if let Some((id, number)) = call.attempt {
                self.attempts.answered(id, number);
            }
            if let Some(completion) = call.completion {
                completion.complete(Replies { values: call.got, failure: None }, wake);
            }
            self.end_if_done(state, wake);
        }
    }

    /// Writes as much as the socket takes. Returns whether everything was written.
    pub(super) fn write(&self, state: &mut State, cx: &mut Context<'_>, wake: &mut Vec<Waker>) -> bool {
        while state.written < state.output.len() {
            let Some(stream) = &mut state.stream else { return false };
            match stream.poll_write(cx, &state.output[state.written..]) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0)) => self.fail(state, "the connection accepts no more data", wake),
                Poll::Ready(Ok(n)) => (state.written, state.needs_flush) = (state.written + n, true),
                Poll::Ready(Err(e)) => {
                    // A part of it may have been sent, encrypted, before the part that failed.
                    if matches!(stream, Stream::Tls(_)) {
                        state.written = state.output.len();
                    }
                    self.fail(state, e, wake);
                }
            }
        }
        state.written_before += state.output.len() as u64;
        state.written = 0;
        state.output.clear();
        if !state.needs_flush {
            return true;
        }
        match state.stream.as_mut().map(|s| s.poll_flush(cx)) {
            Some(Poll::Ready(Ok(()))) => state.needs_flush = false,
            Some(Poll::Ready(Err(e))) => self.fail(state, e, wake),
            Some(Poll::Pending) | None => {}
        }
        !state.needs_flush
    }

    /// Polls for the only call in flight. Returns whether the driver is needed after all.
    fn poll_alone(
        &self,
        state: &mut State,
        cx: &mut Context<'_>,
        completion: &Arc<Completion>,
        wake: &mut Vec<Waker>,
    ) -> bool {
        let mine = |state: &State| match state.in_flight.front() {
            Some(call) => call.completion.as_ref().is_some_and(|t| Arc::ptr_eq(t, completion)),
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
    fn call_in_flight(&mut self, number: u64) -> Option<&mut InFlight> {
        let answered = self.calls - self.in_flight.len() as u64;
        let place = usize::try_from(number.checked_sub(answered)?).ok()?;
        self.in_flight.get_mut(place)
    }

    /// The waker of the driver, if it must run because a call was added.
    fn driver_to_wake(&mut self) -> Option<Waker> {
        self.driving |= self.in_flight.len() > 1;
        if (self.driving && !self.awake) || !self.ticking {
            self.ticking = true;
            self.awake = true;
            return self.driver.take();
        }
        None
    }

    fn start_driver(&mut self) -> Option<Waker> {
        self.driving = true;
        self.awake = true;
        self.driver.take()
    }

    pub(super) fn all_written(&self) -> bool {
        self.written == self.output.len() && !self.needs_flush
    }

    /// Whether any byte of this call was written.
    pub(super) fn is_partly_written(&self, call: &InFlight) -> bool {
        call.start < self.written_before + self.written as u64
    }
}

/// A pending answer. If dropped, the answer is read and discarded.
#[derive(Debug)]
#[must_use]
pub(crate) struct PendingReplies {
    connection: Arc<Connection>,
    completion: Arc<Completion>,
    /// The number of calls on this connection before it.
    number: u64,
    done: bool,
    /// Whether it writes by itself although there is a driver, whose runtime may not be running at the moment.
    writes_itself: bool,
}

impl PendingReplies {
    pub(crate) fn written_by_caller(mut self) -> Self {
        self.writes_itself = true;
        self
    }
}

impl Future for PendingReplies {
    type Output = Replies;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Replies> {
        let this = self.get_mut();
        let (mut wake, mut old) = (Vec::new(), None);
        // Answers are delivered under this lock, so none can be missed between the checks and the wait.
        let mut state = this.connection.lock();
        let polled = match this.completion.take_or_waker() {
            Ok(answer) => Poll::Ready(answer),
            Err(waker) => {
                let mut needs_driver =
                    this.connection.poll_alone(&mut state, cx, &this.completion, &mut wake);
                if std::mem::take(&mut this.writes_itself) && state.driving {
                    this.connection.write(&mut state, cx, &mut wake);
                    // The write has replaced the driver's waker at the socket.
                    needs_driver = true;
                }
                if needs_driver {
                    wake.extend(state.start_driver());
                }
                match this.completion.take_or_waker() {
                    Ok(answer) => Poll::Ready(answer),
                    Err(_) => {
                        let (same, other) = match waker {
                            Some(waker) if waker.will_wake(cx.waker()) => (Some(waker), None),
                            other => (None, other),
                        };
                        this.completion.set_waker(same.unwrap_or_else(|| cx.waker().clone()));
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

impl Drop for PendingReplies {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut state = self.connection.lock();
        let Some(call) = state.call_in_flight(self.number) else { return };
        call.completion = None;
        // Nobody else would read its answer, nor write it if it was never polled.
        let driver = if state.driving && state.awake { None } else { state.start_driver() };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}
