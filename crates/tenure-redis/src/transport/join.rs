//! Several futures at once, in the task of the caller.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

enum Part<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

/// All their outcomes, in order.
pub(crate) async fn join<F: Future>(work: Vec<F>) -> Vec<F::Output>
where
    F::Output: Unpin,
{
    let mut parts: Vec<Part<F>> = work.into_iter().map(|f| Part::Running(Box::pin(f))).collect();
    poll_fn(|cx| {
        let mut all = true;
        for part in &mut parts {
            if let Part::Running(future) = part {
                match future.as_mut().poll(cx) {
                    Poll::Ready(done) => *part = Part::Done(Some(done)),
                    Poll::Pending => all = false,
                }
            }
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let done = |part| match part {
        Part::Done(outcome) => outcome.expect("taken once"),
        Part::Running(_) => unreachable!("all are done"),
    };
    parts.into_iter().map(done).collect()
}
