//! The guardian: a second process that kills the command's process group when the hold's validity ends, or at once when
//! tenure dies. A tenure that is stopped or killed can do neither.
//!
//! It runs in a session of its own, so that a stop of tenure's process group does not stop it. A socket pair connects
//! the two: tenure sends the process group and its deadline, and a close without a message means that tenure died. In
//! the other direction the guardian reports the signals that a service manager sent to it: such a manager signals all
//! processes of the service, so the command got them too.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, setsid, waitpid,
};
use tenure::backend::{Clock, Time};
use tokio::time::sleep;

use crate::signals::{FORWARDED, SignalQueue};

/// Longest interval between two checks of a deadline: timers stand still while the machine is suspended.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Deadlines closer to each other than this count as one.
const TOLERANCE: Duration = Duration::from_millis(5);
/// How often, and for how many steps, to check whether the guardian got a signal too.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(5);
const SIGNAL_POLLS: usize = 5;
/// Signals sent to all processes at once arrive within this time.
const BROADCAST_WINDOW: Duration = Duration::from_secs(1);
/// Names of init processes that end services or stop containers by signalling all processes. Anything else running as
/// PID 1, such as a script, is assumed to signal individual processes.
const INIT_PROCESSES: [&str; 12] = [
    "init",
    "tini",
    "tini-static",
    "docker-init",
    "podman-init",
    "catatonit",
    "dumb-init",
    "s6-svscan",
    "runit",
    "runit-init",
    "runsvdir",
    "openrc-init",
];

/// Makes a send to a closed socket return an error instead of raising SIGPIPE.
#[cfg(not(target_vendor = "apple"))]
const SEND_FLAGS: i32 = libc::MSG_NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND_FLAGS: i32 = 0;

/// A message on the socket: a number (process group or signal) and a time.
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

/// The peer closed the socket.
struct Closed;

/// Reads the next message; `None` if there is none yet.
fn receive(mut socket: &UnixStream) -> Result<Option<(i32, Time)>, Closed> {
    let mut next = Message::default();
    match socket.read(&mut next) {
        Ok(n) if n == next.len() => Ok(Some(parse(next))),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        _ => Err(Closed),
    }
}

/// Tenure's handle on the guardian process.
#[derive(Debug)]
pub(crate) struct Guardian {
    pid: Pid,
    /// It ended before tenure did, and was reaped.
    ended: bool,
    socket: UnixStream,
    clock: Clock,
    /// The process group and deadline last sent to it.
    watched: Option<(Pid, Time)>,
    received: ReceivedSignals,
}

/// Signals that the guardian received.
#[derive(Debug)]
struct ReceivedSignals {
    /// Signal number and time of receipt.
    signals: Vec<(i32, Time)>,
    /// Signals broadcast from then on also reached the command.
    from: Time,
}

impl ReceivedSignals {
    /// Starts with no command running, so none that could have received a signal.
    fn new() -> Self {
        Self { signals: Vec::new(), from: Time::MAX }
    }

    /// Records that a command starts at `now`. A broadcast signals the processes one after the other and may miss one
    /// that is just starting; delivering a signal twice is better than never.
    fn command_starts(&mut self, now: Time) {
        self.from = now.after(BROADCAST_WINDOW);
    }

    /// Returns whether the command got this signal in the broadcast that also reached the guardian. Consumes one
    /// receipt.
    fn take(&mut self, signal: Signal, now: Time) -> bool {
        self.signals.retain(|(_, at)| *at >= self.from && now.since(*at) < BROADCAST_WINDOW);
        let found = self.signals.iter().position(|(number, _)| *number == signal.as_raw());
        found.map(|found| self.signals.remove(found)).is_some()
    }
}

impl Guardian {
    /// Forks the guardian. Must be called while this process has no other threads.
    #[allow(unsafe_code)]
    pub(crate) fn start() -> io::Result<Self> {
        let (socket, other) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        // SAFETY: there are no other threads, so the child cannot inherit a lock held by one.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(socket);
                run_guardian(&other)
            }
            pid => {
                let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("a process without a number"))?;
                let clock = Clock::boot();
                Ok(Self { pid, ended: false, socket, clock, watched: None, received: ReceivedSignals::new() })
            }
        }
    }

    /// Makes the command register its own process group before `exec`, so that it is guarded even if tenure is killed
    /// right after starting it.
    #[allow(unsafe_code)]
    pub(crate) fn watch_from_start(&mut self, command: &mut Command, until: Time) {
        self.received.command_starts(self.clock.now());
        let socket = self.socket.as_raw_fd();
        let watch = move || {
            let registration = message(getpid().as_raw_nonzero().get(), until);
            // SAFETY: pointer and length describe one live buffer; the socket is open, since the guardian outlives the
            // command.
            let sent =
                unsafe { libc::send(socket, registration.as_ptr().cast(), registration.len(), SEND_FLAGS) };
            if sent == registration.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: this runs between fork and exec of a process with other threads, where only async-signal-safe calls
        // are allowed. These are two bare system calls; neither they nor the error made from an errno allocate or lock.
        unsafe { command.pre_exec(watch) };
    }

    /// Sets the deadline: the guardian kills the group at `until`, unless a later message changes it.
    pub(crate) fn watch_until(&mut self, group: Pid, until: Time) {
        let same =
            |(of, at): (Pid, Time)| of == group && at.since(until) < TOLERANCE && until.since(at) < TOLERANCE;
        if !self.watched.is_some_and(same) {
            // On failure the next call sends it again.
            self.watched =
                self.send(message(group.as_raw_nonzero().get(), until)).is_ok().then_some((group, until));
        }
    }

    /// Clears the deadline: no group is watched any more.
    pub(crate) fn stop_watching(&mut self) {
        self.watched = None;
        let _ = self.send(message(0, Time::MAX));
    }

    /// Kills the guardian, which is no longer needed. It ends while the hold is being released.
    pub(crate) fn dismiss(&self) {
        if !self.ended {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    /// Sends a message. Fails if the guardian has ended. One that is stopped reads it once it continues, unless the
    /// socket buffer is full.
    fn send(&self, message: Message) -> io::Result<()> {
        (&self.socket).write_all(&message)
    }

    /// Whether this child, as reported by `wait`, is the guardian and has ended.
    pub(crate) fn is_reaped(&mut self, child: Pid, status: WaitStatus) -> bool {
        let ended = child == self.pid && (status.exited() || status.signaled());
        self.ended |= ended;
        ended
    }

    /// Whether a signal that tenure has just received was sent to the guardian too, and so to all processes of the
    /// service.
    pub(crate) async fn also_received(&mut self, signal: Signal) -> bool {
        let now = self.clock.now();
        for _ in 0..SIGNAL_POLLS {
            while let Ok(Some(signal)) = receive(&self.socket) {
                self.received.signals.push(signal);
            }
            if self.received.take(signal, now) {
                return true;
            }
            sleep(SIGNAL_POLL_INTERVAL).await;
        }
        false
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // On a panic the guardian must see tenure die, and kill the command.
        if !self.ended && !std::thread::panicking() {
            self.dismiss();
            let _ = waitpid(Some(self.pid), WaitOptions::empty());
        }
    }
}

/// Main loop of the guardian process.
fn run_guardian(socket: &UnixStream) -> ! {
    let _ = setsid();
    name_process();
    // Signals must not end the guardian before the command is gone.
    let signals = SignalQueue::new(&FORWARDED);
    let clock = Clock::boot();
    let mut watched: Option<(Pid, Time)> = None;
    loop {
        let left = watched.map(|(_, until)| until.since(clock.now()).min(CHECK_INTERVAL));
        wait(socket, &signals, left);
        loop {
            match receive(socket) {
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
                let mut socket = socket;
                let _ = socket.write(&message(signal, clock.now()));
            }
        }
        if watched.is_some_and(|(_, until)| clock.now() >= until) {
            kill(watched.take());
        }
    }
}

/// Whether this process manages services. Anyone else who signals both processes of tenure, by their name for example,
/// does not signal the command.
fn is_service_manager(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|name| manages_services(pid, name.trim_end()))
}

fn manages_services(pid: u32, name: &str) -> bool {
    name.starts_with("systemd") || (pid == 1 && INIT_PROCESSES.contains(&name))
}

/// Waits for a message, a signal, or the timeout.
fn wait(socket: &UnixStream, signals: &SignalQueue, left: Option<Duration>) {
    let time = left.map(|left| Timespec {
        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let mut ready = vec![PollFd::new(socket, PollFlags::IN)];
    ready.extend(signals.fd().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let _ = poll(&mut ready, time.as_ref());
}

fn kill(watched: Option<(Pid, Time)>) {
    if let Some((group, _)) = watched {
        // Fails for processes that tenure lacks the permission to kill.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Sets the name shown by `ps` and `top`.
#[allow(unsafe_code)]
fn name_process() {
    #[cfg(target_os = "linux")]
    // SAFETY: the name is NUL-terminated.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"tenure-guardian".as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_parsed_as_sent() {
        let at = Time::from_nanos(1 << 60);
        assert_eq!(parse(message(4_194_304, at)), (4_194_304, at));
        assert_eq!(parse(message(0, Time::MAX)), (0, Time::MAX));
    }

    const START: Time = Time::from_nanos(1_000_000_000_000);

    fn ms(ms: u64) -> Time {
        START.after(Duration::from_millis(ms))
    }

    #[test]
    fn a_broadcast_during_the_start_of_a_command_is_forwarded() {
        let (term, hup) = (Signal::TERM.as_raw(), Signal::HUP.as_raw());
        let mut received = ReceivedSignals::new();
        received.signals.push((term, ms(0)));
        assert!(!received.take(Signal::TERM, ms(1)), "there is no command");
        // Broadcast to the processes there were; the command starts right after.
        received.signals.push((term, ms(2)));
        received.command_starts(ms(3));
        assert!(!received.take(Signal::TERM, ms(4)));
        received.signals.push((term, ms(990)));
        assert!(!received.take(Signal::TERM, ms(1010)), "it may have come while the command was forked");
        // The command got these; each receipt counts once.
        received.signals.extend([(term, ms(5000)), (hup, ms(5000)), (term, ms(5001))]);
        assert!(received.take(Signal::TERM, ms(5010)));
        assert!(received.take(Signal::TERM, ms(5010)));
        assert!(!received.take(Signal::TERM, ms(5010)));
        assert!(!received.take(Signal::HUP, ms(6001)), "another one of its kind");
        // A second command starts.
        received.signals.push((term, ms(9000)));
        received.command_starts(ms(9001));
        assert!(!received.take(Signal::TERM, ms(9002)));
    }

    #[test]
    fn only_service_managers_broadcast_signals() {
        for (pid, name) in [(1, "systemd"), (1, "init"), (1, "tini"), (1, "dumb-init"), (812, "systemd")] {
            assert!(manages_services(pid, name), "{pid} {name}");
        }
        for (pid, name) in [(1, "sh"), (1, "entrypoint.sh"), (1, "tenure"), (812, "init"), (812, "sh")] {
            assert!(!manages_services(pid, name), "{pid} {name}");
        }
    }

    /// A guardian whose peer socket is held by the test.
    fn guardian() -> (Guardian, UnixStream) {
        let (socket, other) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        let clock = Clock::boot();
        // Marked as ended, so that the drop kills no process.
        let guardian = Guardian {
            pid: getpid(),
            ended: true,
            socket,
            clock,
            watched: None,
            received: ReceivedSignals::new(),
        };
        (guardian, other)
    }

    #[test]
    fn a_message_that_could_not_be_sent_is_sent_again() {
        let (mut guardian, other) = guardian();
        while guardian.send(message(0, Time::MAX)).is_ok() {}
        guardian.watch_until(getpid(), ms(0));
        while let Ok(Some(old)) = receive(&other) {
            assert_eq!(old, (0, Time::MAX));
        }
        guardian.watch_until(getpid(), ms(0));
        assert!(matches!(receive(&other), Ok(Some((_, at))) if at == ms(0)));
        guardian.watch_until(getpid(), ms(0));
        assert!(matches!(receive(&other), Ok(None)), "once");
    }
}
