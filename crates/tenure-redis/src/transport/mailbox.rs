//! Messages that were received and not read yet. The connection never waits for a slow reader.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// The most messages kept. If there are more, the reader checks the state instead.
const MOST: usize = 64;

/// An event of a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    Message(Vec<u8>),
    /// Messages may have been missed: check the state again.
    Again,
}

#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    messages: VecDeque<Vec<u8>>,
    missed: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the waker, to be woken once no lock is held.
    #[must_use]
    pub(crate) fn put(&self, message: &[u8]) -> Option<Waker> {
        let mut inside = self.lock();
        if inside.messages.len() == MOST {
            inside.missed = true;
            inside.messages.clear();
        }
        if !inside.missed {
            inside.messages.push_back(message.to_vec());
        }
        inside.waker.take()
    }

    /// Closes the mailbox: no more messages will come.
    pub(crate) fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        let waker = inside.waker.take();
        drop(inside);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The next event, or `None` once it is closed.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Heard>> {
        let mut inside = self.lock();
        if inside.closed {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut inside.missed) {
            return Poll::Ready(Some(Heard::Again));
        }
        if let Some(message) = inside.messages.pop_front() {
            return Poll::Ready(Some(Heard::Message(message)));
        }
        let mut old = None;
        if !inside.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            old = inside.waker.replace(cx.waker().clone());
        }
        drop(inside);
        drop(old);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_told_once_and_then_messages_come_again() {
        let (mailbox, mut cx) = (Mailbox::default(), Context::from_waker(Waker::noop()));
        for _ in 0..MOST + 10 {
            assert!(mailbox.put(b"old").is_none());
        }
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(Some(Heard::Again)));
        assert!(mailbox.poll(&mut cx).is_pending());
        assert!(mailbox.put(b"new").is_some());
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(Some(Heard::Message(b"new".to_vec()))));
        mailbox.close();
        assert_eq!(mailbox.poll(&mut cx), Poll::Ready(None));
    }
}
