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
use super::call::{By, Call};
use super::failure::Failure;
pub(crate) use super::joined::Replies;
use super::joined::{Completion, InFlight, Member, to_join};
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
    /// Encoded requests to write; the bytes before `written` are written.
    output: Vec<u8>,
    written: usize,
    /// The number of bytes written before those in `output`.
    written_before: u64,
    /// Those that are not encoded yet are the last ones.
    pub(super) in_flight: VecDeque<InFlight>,
    /// How many are encoded.
    encoded: usize,
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
            encoded: 0,
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
        self.enqueue(options, |state, member| {
            // Those before it are sent before it.
            state.encode_first(state.in_flight.len());
            let mut request = InFlight::new(options.expected, member);
            request.start = Some(state.written_before + state.output.len() as u64);
            encode(&mut state.output);
            state.in_flight.push_back(request);
            state.encoded += 1;
        })
    }

    /// Queues a call, which may be sent together with others.
    pub(crate) fn send_call(
        self: &Arc<Self>,
        options: SendOptions,
        call: &Arc<Call>,
        by: By,
    ) -> PendingReplies {
        self.enqueue(options, |state, member| {
            let member = Member { call: Some((call.clone(), by)), ..member };
            match to_join(&state.in_flight, call) {
                None => state.in_flight.push_back(InFlight::new(options.expected, member)),
                Some(at) => {
                    let request = &mut state.in_flight[at];
                    request.others.push(member);
                    if request.is_full() {
                        // So that the server works on it while other tasks still prepare their calls.
                        state.encode_first(at + 1);
                        state.write_some();
                    }
                }
            }
        })
    }

    fn enqueue(
        self: &Arc<Self>,
        options: SendOptions,
        add: impl FnOnce(&mut State, Member),
    ) -> PendingReplies {
        let completion = Arc::new(Completion::default());
        let mut state = self.lock();
        let mut driver = None;
        if state.stream.is_none() {
            let failure = state.close_reason.clone().map(Failure::NotExecuted);
            completion.complete(Replies::new(Vec::new(), failure), &mut Vec::new());
        } else {
            let sent = Instant::now();
            let attempt = options.attempt.map(|(id, lease)| {
                let number = NUMBERS.fetch_add(1, Relaxed);
                self.attempts.sent(id, self, number, lease, sent);
                (id, number)
            });
            let (deadline, completion) = (options.deadline, Some(completion.clone()));
            add(&mut state, Member { call: None, sent, deadline, attempt, completion });
            state.calls += 1;
            driver = state.driver_to_wake();
        }
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        PendingReplies { connection: self.clone(), completion, done: false, writes_itself: false }
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
        for mut request in state.in_flight.drain(..) {
            let sent = request.start.is_some_and(|start| start < written);
            let mut got = std::mem::take(&mut request.got);
            for member in request.into_members() {
                if let Some((id, number)) = member.attempt {
                    if sent { self.attempts.lost(id, number) } else { self.attempts.answered(id, number) }
                }
                let why = why.clone();
                let failure = if sent { Failure::Unknown(why) } else { Failure::NotExecuted(why) };
                if let Some(completion) = member.completion {
                    completion.complete(Replies::new(std::mem::take(&mut got), Some(failure)), wake);
                }
            }
        }
        state.encoded = 0;
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
            let written = state.written_before + state.written as u64;
            // If nothing of the request was written yet, and this counted as its reply, all later replies would be off by
            // one.
            let request = state.in_flight.front_mut().filter(|r| r.start.is_some_and(|at| at < written));
            let Some(request) = request else {
                return self.fail(state, "the server sent a reply to no request", wake);
            };
            request.got.push(value);
            state.last_reply = *now.get_or_insert_with(Instant::now);
            state.worked = true;
            if request.got.len() < request.expected {
                continue;
            }
            if !request.is_answered() {
                return self.fail(state, "the server did not answer each of several calls", wake);
            }
            let Some(request) = state.in_flight.pop_front() else { return };
            state.encoded -= 1;
            self.answer(request, wake);
            self.end_if_done(state, wake);
        }
    }

    /// Gives each member its replies.
    fn answer(&self, mut request: InFlight, wake: &mut Vec<Waker>) {
        let mut got = std::mem::take(&mut request.got);
        let refused_together = request.is_joined() && matches!(got[..], [Value::Error(_)]);
        let mut each = match got.pop_if(|_| request.is_joined() && !refused_together) {
            Some(Value::Array(items)) => items.into_iter(),
            _ => Vec::new().into_iter(),
        };
        for member in request.into_members() {
            if let Some((id, number)) = member.attempt {
                self.attempts.answered(id, number);
            }
            let values = match each.next() {
                Some(value) => vec![value],
                None if refused_together => got.clone(),
                None => std::mem::take(&mut got),
            };
            if let Some(completion) = member.completion {
                completion.complete(Replies { values, failure: None, refused_together }, wake);
            }
        }
    }

    /// Writes as much as the socket takes. Returns whether everything was written.
    pub(super) fn write(&self, state: &mut State, cx: &mut Context<'_>, wake: &mut Vec<Waker>) -> bool {
        state.encode_first(state.in_flight.len());
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
            Some(call) => call.first.completion.as_ref().is_some_and(|t| Arc::ptr_eq(t, completion)),
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
    /// Encodes the first `n` requests in flight.
    fn encode_first(&mut self, n: usize) {
        for request in self.in_flight.range_mut(self.encoded..n.max(self.encoded)) {
            let start = self.written_before + self.output.len() as u64;
            request.encode(start, &mut self.output);
        }
        self.encoded = self.encoded.max(n);
    }

    /// Writes what the socket takes now. The rest, and any error, is left to the driver.
    fn write_some(&mut self) {
        if let Some(stream) = &self.stream
            && let Ok(n) = stream.try_write(&self.output[self.written..])
        {
            self.written += n;
        }
    }

    /// The waker of the driver, if it must run because a call was added.
    fn driver_to_wake(&mut self) -> Option<Waker> {
        self.driving |= self.in_flight.len() > 1 || self.in_flight.front().is_some_and(InFlight::is_joined);
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
        self.written == self.output.len() && self.encoded == self.in_flight.len() && !self.needs_flush
    }

    /// Whether any byte of this request was written.
    pub(super) fn is_partly_written(&self, request: &InFlight) -> bool {
        request.start.is_some_and(|start| start < self.written_before + self.written as u64)
    }
}

/// A pending answer. If dropped, the answer is read and discarded.
#[derive(Debug)]
#[must_use]
pub(crate) struct PendingReplies {
    connection: Arc<Connection>,
    completion: Arc<Completion>,
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
        if self.completion.is_answered() {
            return;
        }
        self.completion.abandon();
        // Nobody else would read its answer, nor write it if it was never polled.
        let driver = if state.driving && state.awake { None } else { state.start_driver() };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}
