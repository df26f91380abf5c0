//! Waiting for events. There are no individual limits: whatever must happen is waited for with [`PATIENCE`], so a slow
//! machine makes a test slow, and only a hang makes it fail.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Far longer than anything has ever taken on a machine with both cores busy: only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A lease or poll cap longer than any test. What happens within [`PATIENCE`], although everything else would take this
/// long, was caused by a wake-up.
pub const FAR: Duration = Duration::from_secs(1800);

/// How long to wait for an event: [`PATIENCE`], or `TENURE_PATIENCE` seconds where hangs are expected, as in mutation
/// tests.
pub fn patience() -> Duration {
    static SAID: OnceLock<Duration> = OnceLock::new();
    *SAID.get_or_init(|| match std::env::var("TENURE_PATIENCE") {
        Ok(seconds) => Duration::from_secs(seconds.parse().expect("TENURE_PATIENCE is a number of seconds")),
        Err(_) => PATIENCE,
    })
}

const BETWEEN: Duration = Duration::from_millis(10);

/// Returns the result of `work`.
///
/// # Panics
/// When it hangs.
pub async fn within<F: Future>(what: &str, work: F) -> F::Output {
    let start = tokio::time::Instant::now();
    match tokio::time::timeout(patience(), work).await {
        // `timeout` polls once more when its time is over: work that is ready only then was never woken.
        Ok(out) if start.elapsed() < patience() => out,
        _ => panic!("{what}: not within {:?}", patience()),
    }
}

/// Returns the result of a task.
///
/// # Panics
/// When it hangs, or panics itself.
pub async fn done<T>(what: &str, task: tokio::task::JoinHandle<T>) -> T {
    match within(what, task).await {
        Ok(out) => out,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => panic!("{what}: {error}"),
        },
    }
}

/// Calls until the result is not a transient error, as a busy server may answer at first.
///
/// # Panics
/// When there is another error, or a transient one each time.
pub async fn retry<T, E: fmt::Display, F: Future<Output = std::result::Result<T, E>>>(
    what: &str,
    is_transient: impl Fn(&E) -> bool,
    mut call: impl FnMut() -> F,
) -> T {
    let calling = async {
        loop {
            match call().await {
                Ok(value) => break value,
                Err(error) => assert!(is_transient(&error), "{what}: {error}"),
            }
        }
    };
    within(what, calling).await
}

/// Runs a test case as a task of its own, which is aborted if it does not end within `limit`.
///
/// # Errors
/// What the case panicked with, or that it did not end in time.
pub async fn run_case(
    limit: Duration,
    case: impl Future<Output = ()> + Send + 'static,
) -> std::result::Result<(), String> {
    let task = tokio::spawn(case);
    let stop = task.abort_handle();
    let outcome = tokio::time::timeout(limit, task).await;
    stop.abort();
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.try_into_panic().map_or_else(|e| e.to_string(), |p| panic_text(&*p))),
        Err(_) => Err(format!("not done within {limit:?}")),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}

/// Polls `holds` until it returns true.
///
/// # Panics
/// When it never does.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < patience(), "{what}: not within {:?}", patience());
        tokio::time::sleep(BETWEEN).await;
    }
}

/// [`until`], for a condition that is known without waiting.
///
/// # Panics
/// When it never holds.
pub async fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || std::future::ready(holds())).await;
}

/// Returns a condition for [`until_true`] and [`wait_until_true`]: whether `remaining` is more than `margin` above the
/// smallest value so far. What remains of a lease grows only by a renewal.
pub fn has_grown(margin: Duration, mut remaining: impl FnMut() -> Duration) -> impl FnMut() -> bool {
    let mut least = remaining();
    move || {
        let now = remaining();
        let grown = now > least + margin;
        least = least.min(now);
        grown
    }
}

/// Polls `holds` until it returns true. Blocks the thread.
///
/// # Panics
/// When it never does.
pub fn wait_until_true(what: &str, mut holds: impl FnMut() -> bool) {
    wait_until(what, || holds().then_some(()));
}

/// Polls `look` until it returns a value. Blocks the thread.
///
/// # Panics
/// When it never comes.
pub fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    match eventually(what, patience(), look) {
        Ok(seen) => seen,
        Err(error) => panic!("{error}"),
    }
}

/// Polls `look` until it returns a value.
///
/// # Errors
/// When there is none in time.
pub fn eventually<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + within;
    loop {
        // Try once more after the deadline: the machine may have been suspended in between.
        let last = Instant::now() >= end;
        if let Some(seen) = look() {
            return Ok(seen);
        }
        if last {
            return Err(Error::failed(format!("not within {within:?}: {what}")));
        }
        std::thread::sleep(BETWEEN);
    }
}

/// Runs `work` on a thread of its own, which is left running if it does not end in time.
///
/// # Errors
/// When it does not end in time.
///
/// # Panics
/// When `work` does.
pub fn with_deadline<T: Send + 'static>(
    what: &str,
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (done, result) = mpsc::sync_channel(1);
    let worker = std::thread::spawn(move || drop(done.send(work())));
    match result.recv_timeout(within) {
        Ok(value) => Ok(value),
        Err(RecvTimeoutError::Timeout) => Err(Error::failed(format!("not done within {within:?}: {what}"))),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => Err(Error::failed(format!("no result: {what}"))),
        },
    }
}

/// Calls `read` with the time it may take, and repeats it when a signal interrupts it, as the end of a child does.
pub(crate) fn begins(within: Duration, mut read: impl FnMut(Duration) -> io::Result<()>) -> io::Result<()> {
    let end = Instant::now() + within;
    loop {
        // Zero would mean no timeout.
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match read(left) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eventually_returns_the_value_or_names_what_is_missing() {
        let mut looks = 0;
        let seen = eventually("three", PATIENCE, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(seen.unwrap(), 3);
        let missed = eventually("never", Duration::from_millis(20), || None::<()>).unwrap_err();
        assert!(missed.to_string().contains("never"), "{missed}");
    }

    #[test]
    fn with_deadline_returns_the_result_or_an_error() {
        assert_eq!(with_deadline("sum", PATIENCE, || 1 + 1).unwrap(), 2);
        let (_open, never) = mpsc::channel::<()>();
        let hung = with_deadline("hang", Duration::from_millis(20), move || never.recv());
        assert!(hung.unwrap_err().to_string().contains("hang"));
    }

    #[test]
    #[should_panic(expected = "as it was")]
    fn with_deadline_passes_on_a_panic() {
        let _ = with_deadline("panic", PATIENCE, || panic!("as it was"));
    }
}
