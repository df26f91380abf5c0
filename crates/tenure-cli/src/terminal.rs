//! The controlling terminal and its foreground process group. A command in a group of its own would be a background job
//! to the terminal, so its group is put in the foreground, and tenure's own group is restored afterwards.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, stdin, stdout};

use rustix::process::{Pid, Signal, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use crate::signals::Disposition;

pub(crate) struct Terminal {
    tty: File,
    own: Pid,
    given: Option<Pid>,
}

impl Terminal {
    /// The controlling terminal, if there is one.
    pub(crate) fn controlling() -> Option<Self> {
        let tty = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty, own: getpgrp(), given: None })
    }

    /// Whether the command may have the terminal at once. If not, as in `tenure run … | less`, others of tenure's group
    /// may be reading it, and the command gets it only when it tries to read or write it.
    pub(crate) fn is_ours_alone() -> bool {
        stdin().is_terminal() && stdout().is_terminal()
    }

    /// Whether the terminal was given to another group.
    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Puts `group` in the foreground, if tenure's own group is there now. Returns whether it did.
    pub(crate) fn give(&mut self, group: Pid) -> bool {
        let given = tcgetpgrp(&self.tty) == Ok(self.own) && tcsetpgrp(&self.tty, group).is_ok();
        if given {
            self.given = Some(group);
        }
        given
    }

    /// Puts tenure's own group back in the foreground, unless another group took the terminal meanwhile.
    pub(crate) fn take_back(&mut self) {
        let Some(group) = self.given.take() else { return };
        if tcgetpgrp(&self.tty).is_ok_and(|now| now != group) {
            return;
        }
        // A background process that calls `tcsetpgrp` is stopped by TTOU unless it ignores that signal.
        let _ignored = Disposition::ignored(Signal::TTOU);
        let _ = tcsetpgrp(&self.tty, self.own);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
