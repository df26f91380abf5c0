//! The queue of requests to send, in order. A request that times out before its turn was certainly not sent.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::jute::Out;
use crate::error::{RequestError, RequestResult};

/// Lower numbers are reserved for frames that are not requests.
const FIRST: i32 = 1;

#[derive(Debug, Default)]
pub(crate) struct Lane {
    state: Mutex<State>,
    /// Notified when there is something to send.
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Call>,
    last: i32,
    /// No more requests are accepted.
    closing: bool,
    over: Option<RequestError>,
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) xid: i32,
    pub(crate) frame: Vec<u8>,
    pub(crate) reply: oneshot::Sender<RequestResult<BytesMut>>,
}

impl State {
    fn next(&mut self) -> i32 {
        self.last = if self.last == i32::MAX { FIRST } else { self.last + 1 };
        self.last
    }
}

impl Lane {
    /// Sends a request, and waits for its answer for at most `limit`.
    pub(crate) async fn call(
        &self,
        limit: Duration,
        op: i32,
        write: impl FnOnce(Out) -> Out,
    ) -> RequestResult<BytesMut> {
        let (reply, mut answer) = oneshot::channel();
        let xid = {
            let mut state = self.state.lock().unwrap();
            if let Some(over) = &state.over {
                return Err(over.clone());
            }
            if state.closing {
                return Err(RequestError::SessionEnded("the session is over".into()));
            }
            let xid = state.next();
            let frame = write(Out::new().int(xid).int(op)).frame();
            state.waiting.push_back(Call { xid, frame, reply });
            xid
        };
        self.wake.notify_one();
        match timeout(limit, &mut answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(RequestError::Unknown("the store was closed".into())),
            Err(_) if self.give_up(xid) => {
                Err(RequestError::NotSent(format!("no connection to a server within {limit:?}")))
            }
            Err(_) => Err(RequestError::Unknown(format!("no answer within {limit:?}"))),
        }
    }

    /// Removes a request. Returns whether it was not sent, and never will be.
    fn give_up(&self, xid: i32) -> bool {
        let mut state = self.state.lock().unwrap();
        let at = state.waiting.iter().position(|call| call.xid == xid);
        at.and_then(|at| state.waiting.remove(at)).is_some()
    }

    /// The next request to send. Skips requests whose caller is gone.
    pub(crate) fn take(&self) -> Option<Call> {
        let mut state = self.state.lock().unwrap();
        loop {
            match state.waiting.pop_front()? {
                call if call.reply.is_closed() => {}
                call => return Some(call),
            }
        }
    }

    /// A number for a request without a caller.
    pub(crate) fn number(&self) -> i32 {
        self.state.lock().unwrap().next()
    }

    /// Accepts no more requests; those already queued are sent.
    pub(crate) fn close(&self) {
        self.state.lock().unwrap().closing = true;
        self.wake.notify_one();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state.lock().unwrap().closing
    }

    /// Fails all queued and later requests with this error.
    pub(crate) fn end(&self, over: RequestError) {
        let waiting = {
            let mut state = self.state.lock().unwrap();
            state.over.get_or_insert_with(|| over.clone());
            std::mem::take(&mut state.waiting)
        };
        for call in waiting {
            let _ = call.reply.send(Err(over.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn who_gives_up_before_its_turn_has_sent_nothing() {
        let lane = Lane::default();
        let answer = lane.call(SOON, 9, |out| out).await;
        assert!(matches!(answer, Err(RequestError::NotSent(_))), "{answer:?}");
        assert!(lane.take().is_none());
        let asked = lane.call(SOON, 9, |out| out);
        let (answer, call) = join(asked, async { lane.take() }).await;
        assert!(matches!(answer, Err(RequestError::Unknown(_))), "{answer:?}");
        drop(call);
    }

    #[tokio::test]
    async fn what_was_dropped_is_not_sent() {
        let lane = Lane::default();
        drop(Box::pin(timeout(Duration::ZERO, lane.call(SOON, 9, |out| out))).await);
        assert!(lane.take().is_none());
    }

    #[tokio::test]
    async fn after_the_end_there_is_no_more() {
        let lane = Lane::default();
        lane.close();
        assert!(matches!(lane.call(SOON, 9, |out| out).await, Err(RequestError::SessionEnded(_))));
        lane.end(RequestError::SessionEnded("expired".into()));
        assert!(
            matches!(lane.call(SOON, 9, |out| out).await, Err(RequestError::SessionEnded(why)) if why == "expired")
        );
    }

    #[test]
    fn numbers_begin_again() {
        let mut state = State { last: i32::MAX - 1, ..State::default() };
        assert_eq!((state.next(), state.next()), (i32::MAX, FIRST));
    }
}
