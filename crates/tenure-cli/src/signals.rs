//! Signals that tenure passes on to the command, or that end its waiting.

use std::future::poll_fn;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::task::{Context, Poll, Waker};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What is passed on.
pub(crate) const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The signals sent to tenure, from the moment this is made.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        // What was ignored when tenure started, by nohup or by a shell for its background jobs, stays ignored: a
        // handler would make the command die of it.
        let wanted = PASSED_ON.into_iter().filter(|s| !is_ignored(*s));
        wanted.map(|s| Ok((s, listen(s)?))).collect::<io::Result<_>>().map(Self)
    }

    /// The next one. Safe to drop and call again.
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

    /// Forgets those that have come so far.
    pub(crate) async fn forget(&mut self) {
        // One that the handler has seen is here only once the runtime has looked.
        tokio::task::yield_now().await;
        let mut nobody = Context::from_waker(Waker::noop());
        for (_, stream) in &mut self.0 {
            while stream.poll_recv(&mut nobody).is_ready() {}
        }
    }

    /// The next one that means "go away".
    pub(crate) async fn next_end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if means_end(signal) {
                return signal;
            }
        }
    }
}

/// Whether it means "go away".
pub(crate) fn means_end(signal: Signal) -> bool {
    signal != Signal::USR1 && signal != Signal::USR2
}

pub(crate) fn listen(signal: Signal) -> io::Result<unix::Signal> {
    unix::signal(SignalKind::from_raw(signal.as_raw()))
}

/// Whether this process ignores the signal.
#[allow(unsafe_code)]
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action this only writes the present one to `now`, which is all zeroes if the call fails,
    // and zeroes are a valid `sigaction`.
    let now = unsafe {
        libc::sigaction(signal.as_raw(), std::ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    now.sa_sigaction == libc::SIG_IGN
}

/// Another disposition of a signal, until it is dropped.
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
        // SAFETY: `before` is what was in force.
        unsafe { libc::sigaction(self.signal.as_raw(), &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Signals of a process without other threads, to be taken one by one instead of being acted upon. All others are
/// blocked as well, but those that cannot be.
pub(crate) struct SignalQueue(Option<OwnedFd>);

impl SignalQueue {
    #[allow(unsafe_code)]
    pub(crate) fn new(wanted: &[Signal]) -> Self {
        // SAFETY: both sets are made by the calls that are for it before they are used; a descriptor that was just
        // made belongs to nobody else.
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
            // Elsewhere they are blocked, and never taken.
            #[cfg(not(target_os = "linux"))]
            let fd = -1;
            Self((fd >= 0).then(|| OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Readable when there is one.
    pub(crate) fn fd(&self) -> Option<&OwnedFd> {
        self.0.as_ref()
    }

    /// The number of the next one and the process that sent it, if there is one.
    pub(crate) fn take(&self) -> Option<(i32, u32)> {
        /// The size of what is read at once: four numbers of four bytes, of which the first is the signal and the
        /// last its sender, and more.
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
