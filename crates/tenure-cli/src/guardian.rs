//! The guardian: a second process that kills the command's process group at the end of validity, or at once when tenure
//! dies, whether or not tenure itself is running. A tenure that is stopped or killed can do neither.
//!
//! It is in a session of its own, so that what stops tenure's process group does not stop it. A socket between the two
//! carries the group and its deadline to the guardian; its end, without anything said, is the death of tenure. The way
//! back carries the signals that a service manager sent to the guardian: it has sent them to all processes of the
//! service, and so to the command.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, setsid, waitpid};
use tenure::{Clock, Time};
use tokio::time::sleep;

use crate::signals::{PASSED_ON, SignalQueue};

/// A deadline is looked at this often at least, since timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_secs(1);
/// Deadlines closer to each other than this are the same one.
const SAME: Duration = Duration::from_millis(5);
/// How long a signal waits to be seen at the guardian too, in this many steps.
const STEP: Duration = Duration::from_millis(5);
const STEPS: usize = 5;
/// Signals of one sender arrive within this time.
const TOGETHER: Duration = Duration::from_secs(1);

/// An error instead of a signal, where nobody listens any more.
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: i32 = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const QUIETLY: i32 = 0;

/// What is said over the socket: a number, a group or a signal, and a time.
type Message = [u8; 16];

fn message(number: i32, at: Time) -> Message {
    let mut message = Message::default();
    message[..8].copy_from_slice(&i64::from(number).to_ne_bytes());
    message[8..].copy_from_slice(&at.as_nanos().to_ne_bytes());
    message
}

fn parse(message: Message) -> (i32, Time) {
    let [number, at] =
        [&message[..8], &message[8..]].map(|half| <[u8; 8]>::try_from(half).unwrap_or_default());
    (i64::from_ne_bytes(number) as i32, Time::from_nanos(u64::from_ne_bytes(at)))
}

/// The other end of the socket says nothing more.
struct Closed;

/// The next message, if there is one.
fn receive(mut link: &UnixStream) -> Result<Option<(i32, Time)>, Closed> {
    let mut next = Message::default();
    match link.read(&mut next) {
        Ok(n) if n == next.len() => Ok(Some(parse(next))),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        _ => Err(Closed),
    }
}

/// Tenure's side.
#[derive(Debug)]
pub(crate) struct Guardian {
    pid: Pid,
    /// It has ended before tenure, and was reaped.
    ended: bool,
    link: UnixStream,
    clock: Clock,
    /// What it watches.
    watched: Option<(Pid, Time)>,
    /// Signals that it was sent.
    heard: Vec<(i32, Time)>,
}

impl Guardian {
    /// Starts it. To be called while this process has no other threads.
    #[allow(unsafe_code)]
    pub(crate) fn start() -> io::Result<Self> {
        let (link, other) = UnixStream::pair()?;
        link.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        // SAFETY: no other thread can hold a lock that the copy would wait for.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(link);
                watch(&other)
            }
            pid => {
                let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("a process without a number"))?;
                let clock = Clock::boot();
                Ok(Self { pid, ended: false, link, clock, watched: None, heard: Vec::new() })
            }
        }
    }

    /// Has the command say itself, before it begins, that its group is to be watched: a tenure that is killed right
    /// after the start could not any more.
    #[allow(unsafe_code)]
    pub(crate) fn watch_from_the_start(&self, command: &mut Command, until: Time) {
        let link = self.link.as_raw_fd();
        let watch = move || {
            let said = message(getpid().as_raw_nonzero().get(), until);
            // SAFETY: the buffer is as long as it says; the socket is open, since the guardian outlives the command.
            let sent = unsafe { libc::send(link, said.as_ptr().cast(), said.len(), QUIETLY) };
            if sent == said.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: this runs between fork and exec of a process with other threads, where only calls that are safe in a
        // signal handler are allowed. These are two bare system calls; neither they nor the error made from a number
        // allocate or lock.
        unsafe { command.pre_exec(watch) };
    }

    /// The group is killed at `until`, unless something else is said before.
    pub(crate) fn watch_until(&mut self, group: Pid, until: Time) {
        let same = |(of, at): (Pid, Time)| of == group && at.since(until) < SAME && until.since(at) < SAME;
        if !self.watched.is_some_and(same) {
            self.watched = Some((group, until));
            self.say(message(group.as_raw_nonzero().get(), until));
        }
    }

    /// Nothing is watched any more.
    pub(crate) fn rest(&mut self) {
        self.watched = None;
        self.say(message(0, Time::MAX));
    }

    /// It is not needed any more, and ends while tenure gives back what it holds.
    pub(crate) fn dismiss(&self) {
        if !self.ended {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    fn say(&self, message: Message) {
        // One that has ended cannot be told, and one that is stopped is told when it goes on.
        let _ = (&self.link).write(&message);
    }

    /// Whether this child of tenure's is the guardian, which has ended.
    pub(crate) fn is_reaped(&mut self, child: Pid) -> bool {
        self.ended |= child == self.pid;
        child == self.pid
    }

    /// Whether a signal that tenure has just got was sent to the guardian too, and so to all of the service.
    pub(crate) async fn got_too(&mut self, signal: Signal) -> bool {
        let now = self.clock.now();
        for _ in 0..STEPS {
            while let Ok(Some(heard)) = receive(&self.link) {
                self.heard.push(heard);
            }
            self.heard.retain(|(_, at)| now.since(*at) < TOGETHER);
            if let Some(found) = self.heard.iter().position(|(number, _)| *number == signal.as_raw()) {
                self.heard.remove(found);
                return true;
            }
            sleep(STEP).await;
        }
        false
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // The end of a tenure that panics is its death: what it ran is not left alone.
        if !self.ended && !std::thread::panicking() {
            self.dismiss();
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// The guardian itself.
fn watch(link: &UnixStream) -> ! {
    let _ = setsid();
    name_process();
    // None of them ends it before its work is done.
    let signals = SignalQueue::new(&PASSED_ON);
    let clock = Clock::boot();
    let mut watched: Option<(Pid, Time)> = None;
    loop {
        let left = watched.map(|(_, until)| until.since(clock.now()).min(LOOK));
        wait(link, &signals, left);
        loop {
            match receive(link) {
                Ok(Some((group, until))) => watched = Pid::from_raw(group).map(|group| (group, until)),
                Ok(None) => break,
                Err(Closed) => {
                    kill(watched);
                    std::process::exit(0)
                }
            }
        }
        while let Some((signal, sender)) = signals.take() {
            if is_service_manager(sender) {
                let mut link = link;
                let _ = link.write(&message(signal, clock.now()));
            }
        }
        if watched.is_some_and(|(_, until)| clock.now() >= until) {
            kill(watched.take());
        }
    }
}

/// Whether this process ends services. Others who send a signal to both processes of tenure, by their name say, do not
/// mean the command.
fn is_service_manager(pid: u32) -> bool {
    let name = || std::fs::read_to_string(format!("/proc/{pid}/comm"));
    pid == 1 || name().is_ok_and(|name| name.starts_with("systemd"))
}

/// Waits for something to be said, a signal, or until the time is over.
fn wait(link: &UnixStream, signals: &SignalQueue, left: Option<Duration>) {
    let time = left.map(|left| Timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let mut ready = vec![PollFd::new(link, PollFlags::IN)];
    ready.extend(signals.fd().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let _ = poll(&mut ready, time.as_ref());
}

fn kill(watched: Option<(Pid, Time)>) {
    if let Some((group, _)) = watched {
        // Whatever runs with rights that tenure does not have cannot be reached.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// What `ps` and `top` call it.
#[allow(unsafe_code)]
fn name_process() {
    #[cfg(target_os = "linux")]
    // SAFETY: the name is a string that ends with a zero.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"tenure-guardian".as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let at = Time::from_nanos(1 << 60);
        assert_eq!(parse(message(4_194_304, at)), (4_194_304, at));
        assert_eq!(parse(message(0, Time::MAX)), (0, Time::MAX));
    }
}
