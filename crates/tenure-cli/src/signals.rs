//! Signals that tenure forwards to the command, or that end its wait.

use std::future::poll_fn;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::task::{Context, Poll, Waker};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals that are forwarded.
pub(crate) const FORWARDED: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Streams of the signals sent to tenure since this was created.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        // A signal that was ignored when tenure started, by nohup or by a shell for background jobs, stays ignored: if
        // handled here, `exec` would reset it to the default, and the command would die of it.
        let wanted = FORWARDED.into_iter().filter(|s| !is_ignored(*s));
        wanted.map(|s| Ok((s, listen(s)?))).collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    ///
    /// Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Discards the signals received so far.
    pub(crate) async fn forget(&mut self) {
        // The runtime must run once to turn signals seen by the handler into readiness.
        tokio::task::yield_now().await;
        let mut nobody = Context::from_waker(Waker::noop());
        for (_, stream) in &mut self.0 {
            while stream.poll_recv(&mut nobody).is_ready() {}
        }
    }

    /// Waits for the next signal that asks tenure to end.
    pub(crate) async fn next_end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if asks_to_end(signal) {
                return signal;
            }
        }
    }
}

/// Whether the signal asks the process to end.
pub(crate) fn asks_to_end(signal: Signal) -> bool {
    signal != Signal::USR1 && signal != Signal::USR2
}

pub(crate) fn listen(signal: Signal) -> io::Result<unix::Signal> {
    unix::signal(SignalKind::from_raw(signal.as_raw()))
}

/// Whether this process ignores the signal.
#[allow(unsafe_code)]
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action this only writes the current one to `now`, which stays all zeroes if the call fails,
    // and zeroes are a valid `sigaction`.
    let now = unsafe {
        libc::sigaction(signal.as_raw(), std::ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    now.sa_sigaction == libc::SIG_IGN
}

/// Changes the disposition of a signal; the drop restores it.
pub(crate) struct Disposition {
    signal: Signal,
    before: libc::sigaction,
}

impl Disposition {
    pub(crate) fn ignored(signal: Signal) -> Self {
        Self::set(signal, libc::SIG_IGN)
    }

    pub(crate) fn default(signal: Signal) -> Self {
        Self::set(signal, libc::SIG_DFL)
    }

    #[allow(unsafe_code)]
    fn set(signal: Signal, to: libc::sighandler_t) -> Self {
        let mut before = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: an all-zero `sigaction` is valid, the two dispositions used here run no code of ours, and `before`
        // is valid whether or not the call writes it.
        let before = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = to;
            libc::sigaction(signal.as_raw(), &raw const action, before.as_mut_ptr());
            before.assume_init()
        };
        Self { signal, before }
    }
}

impl Drop for Disposition {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: `before` is the action that `sigaction` returned.
        unsafe { libc::sigaction(self.signal.as_raw(), &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Queues signals of a single-threaded process instead of delivering them. Blocks all other signals too, except those
/// that cannot be blocked.
pub(crate) struct SignalQueue(Option<OwnedFd>);

impl SignalQueue {
    #[allow(unsafe_code)]
    pub(crate) fn new(wanted: &[Signal]) -> Self {
        // SAFETY: both sets are initialized by `sigfillset` and `sigemptyset` before use; a new descriptor has no other
        // owner.
        unsafe {
            let mut all = std::mem::zeroed::<libc::sigset_t>();
            libc::sigfillset(&raw mut all);
            libc::sigprocmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
            let mut taken = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut taken);
            for signal in wanted {
                libc::sigaddset(&raw mut taken, signal.as_raw());
            }
            #[cfg(target_os = "linux")]
            let fd = libc::signalfd(-1, &raw const taken, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            // On other platforms signals are blocked but never read.
            #[cfg(not(target_os = "linux"))]
            let fd = -1;
            Self((fd >= 0).then(|| OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Readable when a signal is pending.
    pub(crate) fn fd(&self) -> Option<&OwnedFd> {
        self.0.as_ref()
    }

    /// Returns the number and the sender's PID of the next pending signal, if any.
    pub(crate) fn take(&self) -> Option<(i32, u32)> {
        /// Size of `signalfd_siginfo`. It begins with four 32-bit numbers: the first is the signal, the fourth the
        /// sender.
        const SIZE: usize = 128;
        let mut taken = [0_u8; SIZE];
        let n = rustix::io::read(self.fd()?, &mut taken).ok()?;
        let number = |at: usize| Some(u32::from_ne_bytes(taken.get(at..at + 4)?.try_into().ok()?));
        (n == SIZE).then_some(())?;
        Some((i32::try_from(number(0)?).ok()?, number(12)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disposition_lasts_until_it_is_dropped() {
        assert!(!is_ignored(Signal::TTOU));
        let ignored = Disposition::ignored(Signal::TTOU);
        assert!(is_ignored(Signal::TTOU));
        drop(ignored);
        assert!(!is_ignored(Signal::TTOU));
    }
}
