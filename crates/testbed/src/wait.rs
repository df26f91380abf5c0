//! Waiting for events. There is no limit to choose: whatever must happen is waited for with [`PATIENCE`], so a slow
//! machine makes a test slow, and only a hang makes it fail.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Far above what was ever seen on a machine with both cores busy: only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A lease or a poll cap that no test lives to see the end of. What happens within [`PATIENCE`] although nothing else
/// would end for this long was brought about by a signal.
pub const FAR: Duration = Duration::from_secs(1800);

/// How long something is waited for: [`PATIENCE`], or as many seconds as `TENURE_PATIENCE` says, where hangs are what is
/// expected.
pub fn patience() -> Duration {
    static SAID: OnceLock<Duration> = OnceLock::new();
    *SAID.get_or_init(|| match std::env::var("TENURE_PATIENCE") {
        Ok(seconds) => Duration::from_secs(seconds.parse().expect("TENURE_PATIENCE is a number of seconds")),
        Err(_) => PATIENCE,
    })
}

const BETWEEN: Duration = Duration::from_millis(10);

/// What `work` comes to.
///
/// # Panics
/// When it hangs.
pub async fn within<F: Future>(what: &str, work: F) -> F::Output {
    let start = tokio::time::Instant::now();
    match tokio::time::timeout(patience(), work).await {
        // A timeout polls once more when it is over: what is ready only then was never woken.
        Ok(out) if start.elapsed() < patience() => out,
        _ => panic!("{what}: not within {:?}", patience()),
    }
}

/// What a task comes to.
///
/// # Panics
/// When it hangs, or does itself.
pub async fn done<T>(what: &str, task: tokio::task::JoinHandle<T>) -> T {
    match within(what, task).await {
        Ok(out) => out,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => panic!("{what}: {error}"),
        },
    }
}

/// Looks until `holds` says yes.
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

/// Looks until there is something to see, on a thread that may block.
///
/// # Panics
/// When it never comes.
pub fn wait_until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    match eventually(what, patience(), look) {
        Ok(seen) => seen,
        Err(error) => panic!("{error}"),
    }
}

/// Looks until there is something to see.
///
/// # Errors
/// When it is not there in time.
pub fn eventually<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + within;
    loop {
        // Looked at once more after the end: the machine may have slept in between.
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

/// Does `work` on a thread of its own, which is left behind if it does not come to an end in time.
///
/// # Errors
/// When it is not done in time.
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

/// What `read` comes to, which is told how long it may take. The end of a child interrupts it, and is not its end.
pub(crate) fn begins(within: Duration, mut read: impl FnMut(Duration) -> io::Result<()>) -> io::Result<()> {
    let end = Instant::now() + within;
    loop {
        // Zero would mean for ever.
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
    fn what_comes_is_seen_and_what_does_not_is_named() {
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
    fn work_has_an_end_or_an_error() {
        assert_eq!(with_deadline("sum", PATIENCE, || 1 + 1).unwrap(), 2);
        let (_open, never) = mpsc::channel::<()>();
        let hung = with_deadline("hang", Duration::from_millis(20), move || never.recv());
        assert!(hung.unwrap_err().to_string().contains("hang"));
    }

    #[test]
    #[should_panic(expected = "as it was")]
    fn a_panic_comes_through() {
        let _ = with_deadline("panic", PATIENCE, || panic!("as it was"));
    }
}
