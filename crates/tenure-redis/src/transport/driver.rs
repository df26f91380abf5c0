//! The task of a connection: reads and writes when several calls are in flight, enforces deadlines, and detects that an
//! idle connection was closed.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tenure_core::backend::Reason;
use tokio::time::Sleep;

use super::connection::{Connection, Replies, State};
use super::failure::Failure;
use super::joined::{InFlight, Member};

/// The timer's period while there are calls. After the last call the driver reads, and so detects a closed connection,
/// only after this time.
const TICK: Duration = Duration::from_millis(100);

/// Runs until the connection ends. If this future is dropped, even unpolled, the connection is closed.
pub(super) fn drive(connection: Arc<Connection>, timeout: Duration) -> impl Future<Output = ()> {
    let ends = CloseOnDrop(connection);
    async move {
        let connection = &ends.0;
        let period = (timeout / 4).min(TICK);
        let mut timer =
            Timer { tick: Box::pin(tokio::time::sleep(period)), period, timeout, armed: false, calls: 0 };
        poll_fn(|cx| poll(connection, &mut timer, cx)).await;
    }
}

/// Closes the connection if its task is dropped unfinished, which means that its runtime has ended.
struct CloseOnDrop(Arc<Connection>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close("the runtime of this connection has ended");
    }
}

struct Timer {
    tick: Pin<Box<Sleep>>,
    period: Duration,
    timeout: Duration,
    armed: bool,
    /// The number of calls at the last tick.
    calls: u64,
}

fn poll(connection: &Arc<Connection>, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
    let mut wake = Vec::new();
    let mut state = connection.lock();
    if !state.driver.as_ref().is_some_and(|d| d.will_wake(cx.waker())) {
        state.driver = Some(cx.waker().clone());
    }
    state.awake = false;
    if state.ticking {
        timer.poll(connection, &mut state, cx, &mut wake);
    }
    if state.driving {
        connection.write(&mut state, cx, &mut wake);
        connection.read(&mut state, cx, true, &mut wake);
        if !wake.is_empty() {
            // Tasks that were answered run first, so that their next requests go out in one write.
            state.awake = true;
        } else if state.in_flight.is_empty() && state.all_written() {
            state.driving = false;
        }
    } else if state.in_flight.is_empty() {
        // Detects that an idle connection was closed.
        connection.read(&mut state, cx, true, &mut wake);
    }
    let dead = state.stream.is_none();
    let again = state.awake;
    drop(state);
    wake.into_iter().for_each(Waker::wake);
    if dead {
        return Poll::Ready(());
    }
    if again {
        cx.waker().wake_by_ref();
    }
    Poll::Pending
}

impl Timer {
    /// Runs the timer as long as there are calls.
    fn poll(
        &mut self,
        connection: &Connection,
        state: &mut State,
        cx: &mut Context<'_>,
        wake: &mut Vec<Waker>,
    ) {
        if !self.armed {
            self.armed = true;
            self.calls = state.calls;
            self.tick.as_mut().reset(tokio::time::Instant::now() + self.period);
        }
        while self.tick.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if state.in_flight.iter().flat_map(InFlight::members).any(|m| now >= m.deadline) {
                // The replies may have arrived in time, and only this runtime was late.
                state.driving = true;
                connection.read(state, cx, true, wake);
                self.expire(connection, state, now, wake);
            }
            if state.in_flight.is_empty() && state.calls == self.calls {
                (self.armed, state.ticking) = (false, false);
                return;
            }
            self.calls = state.calls;
            // A call that nobody polls any more, without another one behind it that would start the driver.
            state.driving |=
                state.in_flight.front().is_some_and(|r| now.duration_since(r.first.sent) >= self.timeout / 8);
            let waiting = state.in_flight.iter().flat_map(InFlight::members).filter(|m| m.is_awaited());
            let due = waiting.map(|m| m.deadline).min();
            let left = due.map_or(self.period, |due| due.saturating_duration_since(now).min(self.period));
            // By the runtime's own timer, which may be a mock in tests.
            let next = tokio::time::Instant::now() + left.max(Duration::from_millis(1));
            self.tick.as_mut().reset(next);
        }
    }

    fn expire(&self, connection: &Connection, state: &mut State, now: Instant, wake: &mut Vec<Waker>) {
        let why = || Reason::timed_out(format!("no answer within {:?}", self.timeout));
        let late = |r: &InFlight| {
            let quiet = |m: &Member| now >= m.deadline && state.last_reply <= m.sent;
            let due = |m: &Member| now >= m.deadline;
            r.members().any(quiet) || (r.members().any(due) && !state.is_partly_written(r))
        };
        let stuck =
            state.in_flight.front().is_some_and(|r| r.members().any(|m| now >= m.deadline + self.timeout));
        if stuck || state.in_flight.iter().any(late) {
            return connection.fail(state, why(), wake);
        }
        // Others were answered meanwhile: only this call timed out, and its reply is discarded on arrival.
        let members = state.in_flight.iter_mut().flat_map(InFlight::members_mut);
        for member in members.filter(|m| now >= m.deadline) {
            if let Some(completion) = member.completion.take() {
                let failure = Some(Failure::Unknown(why().at(&connection.place)));
                completion.complete(Replies::new(Vec::new(), failure), wake);
            }
        }
    }
}
