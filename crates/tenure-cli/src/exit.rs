//! How tenure ends: with a code, or by the signal that ended its command or its wait. A shell ends a loop only if what
//! it ran was ended by Ctrl-C; a code that looks alike does not do.

use rustix::process::{
    Resource, Rlimit, Signal, WaitStatus, getpid, kill_current_process_group, kill_process, setrlimit,
};

use crate::signals::{Disposition, PASSED_ON};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: u8,
    /// To die of, instead of exiting with the code.
    signal: Option<Signal>,
    /// It came from the terminal, which would have sent it to all of tenure's own group.
    to_group: bool,
}

impl Exit {
    pub(crate) fn code(code: u8) -> Self {
        Self { code, signal: None, to_group: false }
    }

    /// By a signal that was sent to tenure.
    pub(crate) fn by(signal: Signal) -> Self {
        Self { code: 128 + signal.as_raw() as u8, signal: Some(signal), to_group: false }
    }

    /// As a command has ended. One that was alone in the foreground got what was meant for all of tenure's group.
    pub(crate) fn of_command(status: WaitStatus, in_foreground: bool) -> Self {
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code,
            (_, Some(signal)) => 128 + signal,
            _ => i32::from(u8::MAX),
        };
        let ended_by = |signal: &Signal| status.terminating_signal() == Some(signal.as_raw());
        // Others, such as KILL or SEGV, tell of the command, and tenure has not crashed with it.
        let signal = PASSED_ON.into_iter().find(ended_by);
        let to_group = in_foreground && matches!(signal, Some(Signal::INT | Signal::QUIT));
        Self { code: u8::try_from(raw).unwrap_or(u8::MAX), signal, to_group }
    }

    /// Ends the process. To be called once everything else is in order.
    pub(crate) fn now(self) -> ! {
        if let Some(signal) = self.signal {
            // The dump would be of tenure, not of the command.
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            let _default = Disposition::default(signal);
            let _ = match self.to_group {
                true => kill_current_process_group(signal),
                false => kill_process(getpid(), signal),
            };
            // The first process of a container outlives a signal that it does not handle.
        }
        std::process::exit(i32::from(self.code))
    }
}
