//! How tenure exits: with a code, or killed by the signal that ended its command or its wait. A shell aborts a loop
//! only if its child was killed by SIGINT; exit code 130 is not enough.

use rustix::process::{
    Resource, Rlimit, Signal, WaitStatus, getpid, kill_current_process_group, kill_process, setrlimit,
};

use crate::signals::{Disposition, FORWARDED};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: u8,
    /// The signal to die of, instead of exiting with the code.
    signal: Option<Signal>,
    /// Send it to tenure's whole process group, because the terminal would have done so.
    to_group: bool,
}

impl Exit {
    pub(crate) fn code(code: u8) -> Self {
        Self { code, signal: None, to_group: false }
    }

    /// Exits by a signal that was sent to tenure.
    pub(crate) fn from_signal(signal: Signal) -> Self {
        Self { code: 128 + signal.as_raw() as u8, signal: Some(signal), to_group: false }
    }

    /// Exits as the command did. A command alone in the foreground received the signals that the terminal would have
    /// sent to tenure's whole group.
    pub(crate) fn from_command(status: WaitStatus, in_foreground: bool) -> Self {
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code,
            (_, Some(signal)) => 128 + signal,
            _ => i32::from(u8::MAX),
        };
        let ended_by = |signal: &Signal| status.terminating_signal() == Some(signal.as_raw());
        // Other signals, such as KILL or SEGV, are about the command alone: tenure itself did not crash.
        let signal = FORWARDED.into_iter().find(ended_by);
        let to_group = in_foreground && matches!(signal, Some(Signal::INT | Signal::QUIT));
        Self { code: u8::try_from(raw).unwrap_or(u8::MAX), signal, to_group }
    }

    /// Ends the process without running destructors, so call it last.
    pub(crate) fn exit_process(self) -> ! {
        if let Some(signal) = self.signal {
            // A core dump would be of tenure, not of the command.
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            let _default = Disposition::default(signal);
            let _ = match self.to_group {
                true => kill_current_process_group(signal),
                false => kill_process(getpid(), signal),
            };
            // PID 1 of a container survives a signal without a handler, and exits with the code instead.
        }
        std::process::exit(i32::from(self.code))
    }
}
