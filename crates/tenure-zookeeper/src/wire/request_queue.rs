//! The queue of requests to send, in order. A request that times out before its turn was certainly not sent.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bytes::BytesMut;
use tenure_core::backend::Reason;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::jute::Encoder;
use super::multi::{Members, Part};
use crate::error::{RequestError, RequestResult};

/// `exists`, `getData`, `getChildren`.
const READS: [i32; 3] = [3, 4, 8];

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

/// A server's answer, and the last transaction that it had seen then. That of a write is the write itself.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) zxid: i64,
    pub(crate) body: BytesMut,
}

/// The caller of a request.
pub(crate) type Caller = oneshot::Sender<RequestResult<Answer>>;

/// A request to be sent.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) xid: i32,
    pub(crate) frame: Vec<u8>,
    pub(crate) reply: Caller,
    /// What it may be as a part of a transaction.
    pub(super) part: Option<Part>,
    /// Whether it only reads, so that those behind may be sent before it.
    is_read: bool,
}

impl Request {
    /// The frame without its length, number and operation.
    pub(super) fn body(&self) -> &[u8] {
        self.frame.get(12..).unwrap_or_default()
    }
}

/// How far behind a request others of its transaction are looked for.
const LOOK_AHEAD: usize = 2 * super::multi::MOST;

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
    ) -> RequestResult<Answer> {
        self.send_as(op, None, write).await
    }

    /// Sends a request, possibly as a part of a transaction, and waits for its answer.
    pub(super) async fn send_as(
        &self,
        op: i32,
        part: Option<Part>,
        write: impl FnOnce(Encoder) -> Encoder,
    ) -> RequestResult<Answer> {
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
            let is_read = READS.contains(&op);
            state.queued.push_back(Request { xid, frame, reply, part, is_read });
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

    /// The next request to send, or several that make one transaction; none if that is the next one's turn and they
    /// `wait` for the answers to others. Skips requests whose caller is gone.
    pub(crate) fn pop(&self, wait: bool) -> Vec<Request> {
        let mut state = self.state.lock().unwrap();
        let queued = &mut state.queued;
        while queued.front().is_some_and(|request| request.reply.is_closed()) {
            queued.pop_front();
        }
        let mut members = Members::default();
        match queued.front() {
            Some(Request { part: Some(_), .. }) if wait => return Vec::new(),
            Some(Request { part: Some(part), frame, .. }) if members.add(part, frame.len()) => {}
            _ => return queued.pop_front().into_iter().collect(),
        }
        let mut together: Vec<Request> = queued.pop_front().into_iter().collect();
        let mut at = 0;
        while at < LOOK_AHEAD
            && let Some(request) = queued.get(at)
        {
            match &request.part {
                _ if request.is_read => at += 1,
                Some(part) if members.add(part, request.frame.len()) => together.extend(queued.remove(at)),
                _ => break,
            }
        }
        together
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

    /// Whether it is closed, and all that was queued is sent.
    pub(crate) fn is_drained(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.closing && state.queued.is_empty()
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
        assert!(queue.pop(false).is_empty());
        let sent = queue.send(9, |out| out);
        let (answer, request) = join(sent, async { queue.pop(false) }).await;
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
        assert!(queue.pop(false).is_empty(), "they are never sent");
        let (_, later) = join(timeout(SOON, queue.send(9, |out| out)), async { queue.pop(false) }).await;
        assert_eq!(later.len(), 1);
    }

    #[tokio::test]
    async fn a_dropped_request_is_not_sent() {
        let queue = RequestQueue::new(SOON);
        drop(Box::pin(timeout(Duration::ZERO, queue.send(9, |out| out))).await);
        assert!(queue.pop(false).is_empty());
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

    fn creates(folder: &str) -> Option<Part> {
        Some(Part::Create { folder: folder.to_owned() })
    }

    /// Those that wait at the same moment are one transaction, across the reads between them. Two creates in one folder
    /// would have the same fence, and nothing passes a write of another type.
    #[tokio::test]
    async fn what_waits_at_the_same_moment_is_one_transaction() {
        let queue = RequestQueue::new(SOON);
        let (list, write) = (READS[2], 5);
        let sent = [
            (1, creates("/a")),
            (list, None),
            (1, creates("/b")),
            (2, Some(Part::Delete)),
            (1, creates("/a")),
            (2, Some(Part::Delete)),
            (write, None),
            (2, Some(Part::Delete)),
        ];
        let sending = sent.into_iter().map(|(op, part)| queue.send_as(op, part, |out| out));
        let popped = async {
            assert!(queue.pop(true).is_empty(), "they wait for others");
            let all: Vec<Vec<i32>> = std::iter::from_fn(|| {
                let next: Vec<i32> = queue.pop(false).iter().map(|request| request.xid).collect();
                (!next.is_empty()).then_some(next)
            })
            .collect();
            all
        };
        let (_, popped) = join(futures_util::future::join_all(sending), popped).await;
        assert_eq!(popped, [vec![1, 3, 4], vec![2], vec![5, 6], vec![7], vec![8]]);
    }

    #[test]
    fn xids_wrap_around() {
        let mut state = State { last: i32::MAX - 1, ..State::default() };
        assert_eq!((state.next(), state.next()), (i32::MAX, FIRST));
    }
}
