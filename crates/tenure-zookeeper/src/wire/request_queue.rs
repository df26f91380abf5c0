//! The queue of requests to send, in order. A request that times out before its turn was certainly not sent.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::BytesMut;
use tenure_core::backend::Reason;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::jute::Encoder;
use crate::error::{RequestError, RequestResult};

/// Lower numbers are reserved for frames that are not requests.
const FIRST: i32 = 1;

#[derive(Debug)]
pub(crate) struct RequestQueue {
    /// How long a request waits for its answer.
    timeout: Duration,
    state: Mutex<State>,
    /// Notified when there is something to send.
    pub(crate) wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    queued: VecDeque<Request>,
    last: i32,
    /// No more requests are accepted.
    closing: bool,
    /// Why there is no connection at the moment.
    outage: Option<Reason>,
    over: Option<RequestError>,
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Request {
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

impl RequestQueue {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, state: Mutex::default(), wake: Notify::new() }
    }

    /// Sends a request, and waits for its answer.
    pub(crate) async fn send(
        &self,
        op: i32,
        write: impl FnOnce(Encoder) -> Encoder,
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
            let frame = write(Encoder::new().int(xid).int(op)).frame();
            state.queued.push_back(Request { xid, frame, reply });
            xid
        };
        self.wake.notify_one();
        match timeout(self.timeout, &mut answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(RequestError::unknown("the store was closed")),
            Err(_) if self.withdraw(xid) => {
                let since = format!("no connection to a server within {:?}", self.timeout);
                let outage = self.state.lock().unwrap().outage.clone();
                Err(RequestError::NotSent(match outage {
                    Some(why) => why.at(since),
                    None => Reason::timed_out(since),
                }))
            }
            Err(_) => {
                Err(RequestError::Unknown(Reason::timed_out(format!("no answer within {:?}", self.timeout))))
            }
        }
    }

    /// Removes a request. Returns whether it was not sent, and never will be.
    fn withdraw(&self, xid: i32) -> bool {
        let mut state = self.state.lock().unwrap();
        let at = state.queued.iter().position(|request| request.xid == xid);
        at.and_then(|at| state.queued.remove(at)).is_some()
    }

    /// Sets why there is no connection at the moment, for requests that cannot be sent.
    pub(crate) fn set_outage(&self, why: Option<Reason>) {
        self.state.lock().unwrap().outage = why;
    }

    /// The next request to send. Skips requests whose caller is gone.
    pub(crate) fn pop(&self) -> Option<Request> {
        let mut state = self.state.lock().unwrap();
        loop {
            match state.queued.pop_front()? {
                request if request.reply.is_closed() => {}
                request => return Some(request),
            }
        }
    }

    /// A number for a request without a caller.
    pub(crate) fn next_xid(&self) -> i32 {
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

    /// Fails all queued requests with this error. Later ones are queued again.
    pub(crate) fn fail_queued(&self, why: &RequestError) {
        let queued = std::mem::take(&mut self.state.lock().unwrap().queued);
        for request in queued {
            let _ = request.reply.send(Err(why.clone()));
        }
    }

    /// Fails all queued and later requests with this error.
    pub(crate) fn fail_all(&self, over: RequestError) {
        self.state.lock().unwrap().over.get_or_insert_with(|| over.clone());
        self.fail_queued(&over);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::future::{join, join3};
    use testbed::{FAR, io_cause};

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_request_withdrawn_from_the_queue_is_not_sent() {
        let queue = RequestQueue::new(SOON);
        let answer = queue.send(9, |out| out).await;
        assert!(matches!(answer, Err(RequestError::NotSent(_))), "{answer:?}");
        assert!(queue.pop().is_none());
        let sent = queue.send(9, |out| out);
        let (answer, request) = join(sent, async { queue.pop() }).await;
        assert!(matches!(answer, Err(RequestError::Unknown(_))), "{answer:?}");
        drop(request);
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_sent_says_why_there_is_no_connection() {
        let queue = RequestQueue::new(SOON);
        for outage in [None, Some(io::Error::from(io::ErrorKind::ConnectionRefused))] {
            let kind = outage.as_ref().map_or(io::ErrorKind::TimedOut, io::Error::kind);
            queue.set_outage(outage.map(|e| Reason::from(e).at("h:1")));
            let error = queue.send(9, |out| out).await.unwrap_err().into_error("acquire x", "/x");
            assert_eq!(io_cause(&error), kind, "{error}");
        }
    }

    #[tokio::test]
    async fn what_is_queued_fails_and_what_follows_is_queued_again() {
        let queue = RequestQueue::new(FAR);
        let refuse = async { queue.fail_queued(&RequestError::not_sent("refused")) };
        let (first, second, ()) = join3(queue.send(9, |out| out), queue.send(9, |out| out), refuse).await;
        for answer in [first, second] {
            assert!(
                matches!(&answer, Err(RequestError::NotSent(why)) if why.text == "refused"),
                "{answer:?}"
            );
        }
        assert!(queue.pop().is_none(), "they are never sent");
        let (_, later) = join(timeout(SOON, queue.send(9, |out| out)), async { queue.pop() }).await;
        assert!(later.is_some());
    }

    #[tokio::test]
    async fn a_dropped_request_is_not_sent() {
        let queue = RequestQueue::new(SOON);
        drop(Box::pin(timeout(Duration::ZERO, queue.send(9, |out| out))).await);
        assert!(queue.pop().is_none());
    }

    #[tokio::test]
    async fn a_closed_queue_accepts_no_request() {
        let queue = RequestQueue::new(SOON);
        queue.close();
        assert!(matches!(queue.send(9, |out| out).await, Err(RequestError::SessionEnded(_))));
        queue.fail_all(RequestError::SessionEnded("expired".into()));
        assert!(
            matches!(queue.send(9, |out| out).await, Err(RequestError::SessionEnded(why)) if why.text == "expired")
        );
    }

    #[test]
    fn xids_wrap_around() {
        let mut state = State { last: i32::MAX - 1, ..State::default() };
        assert_eq!((state.next(), state.next()), (i32::MAX, FIRST));
    }
}
