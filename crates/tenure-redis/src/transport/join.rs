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

/// Of those that succeed the first in order, as soon as that is known; all failures if none does. The others are dropped.
pub(crate) async fn first<F, T, E>(work: Vec<F>) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut running: Vec<_> = work.into_iter().map(|f| Some(Box::pin(f))).collect();
    let mut done: Vec<Option<Result<T, E>>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in running.iter_mut().zip(&mut done) {
            if let Some(running) = future
                && let Poll::Ready(outcome) = running.as_mut().poll(cx)
            {
                (*future, *done) = (None, Some(outcome));
            }
        }
        let known = done.iter().find(|outcome| !matches!(outcome, Some(Err(_))));
        if matches!(known, Some(None)) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let mut failures = Vec::new();
    for outcome in done.into_iter().flatten() {
        match outcome {
            Ok(found) => return Ok(found),
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures)
}
