//! Runs the work of a thread, whose calls block instead of yielding.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future that never yields.
pub(crate) fn run<F: Future>(work: F) -> F::Output {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(out) => out,
        Poll::Pending => unreachable!("a call that blocks yields"),
    }
}
