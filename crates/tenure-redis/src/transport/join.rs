//! Runs several futures concurrently in the caller's task.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

enum Part<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

/// All outputs, in order.
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

/// The first success in order, as soon as it is known; all failures if there is none. The other futures are dropped.
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

/// The first success; all failures if there is none. A future starts when an earlier one has failed, or `head_start`
/// after the last start; those started keep running. The other futures are dropped.
pub(crate) async fn staggered<F, T, E>(work: Vec<F>, head_start: Duration) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = work.into_iter();
    let mut running: Vec<Pin<Box<F>>> = Vec::new();
    let mut failures = Vec::new();
    let mut timer = pin!(tokio::time::sleep(head_start));
    let mut begin = true;
    poll_fn(|cx| {
        loop {
            if std::mem::take(&mut begin)
                && let Some(next) = waiting.next()
            {
                running.push(Box::pin(next));
                timer.as_mut().reset(tokio::time::Instant::now() + head_start);
            }
            let mut i = 0;
            while i < running.len() {
                match running[i].as_mut().poll(cx) {
                    Poll::Ready(Ok(first)) => return Poll::Ready(Ok(first)),
                    Poll::Ready(Err(failure)) => {
                        failures.push(failure);
                        drop(running.swap_remove(i));
                        begin = true;
                    }
                    Poll::Pending => i += 1,
                }
            }
            if waiting.len() == 0 {
                let over = running.is_empty();
                return if over { Poll::Ready(Err(std::mem::take(&mut failures))) } else { Poll::Pending };
            }
            begin |= timer.as_mut().poll(cx).is_ready();
            if !begin {
                return Poll::Pending;
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(n: u32) -> Result<u32, u32> {
        match n {
            0 => std::future::pending().await,
            n if n < 10 => Err(n),
            n => Ok(n),
        }
    }

    /// With a head start longer than the test, only failures start the next one.
    #[tokio::test]
    async fn the_next_begins_when_one_fails_or_takes_its_time() {
        let (never, soon) = (Duration::from_secs(1800), Duration::from_millis(1));
        let tried = |work: &[u32], head_start| {
            let work = work.iter().map(|n| answer(*n)).collect();
            async move { staggered(work, head_start).await }
        };
        assert_eq!(tried(&[1, 2, 11], never).await, Ok(11));
        assert_eq!(tried(&[1, 2], never).await, Err(vec![1, 2]));
        assert_eq!(tried(&[], never).await, Err(vec![]));
        assert_eq!(tried(&[0, 0, 1, 12, 13], soon).await, Ok(12));
        assert_eq!(tried(&[11, 12], never).await, Ok(11));
    }
}
