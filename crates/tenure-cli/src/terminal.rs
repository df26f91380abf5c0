//! The controlling terminal: which process group may read it. A command in a group of its own is a background job to
//! the terminal, so it is made the foreground group, and tenure's own group is put back afterwards.

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

    /// Whether a command has the terminal to itself. If not, as in `tenure run … | less`, others of tenure's group may
    /// be reading it, and the command gets it only once it asks.
    pub(crate) fn is_ours_alone() -> bool {
        stdin().is_terminal() && stdout().is_terminal()
    }

    /// Whether another group has it from tenure.
    pub(crate) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Makes `group` the foreground group, if tenure's own is now.
    pub(crate) fn give(&mut self, group: Pid) -> bool {
        let given = tcgetpgrp(&self.tty) == Ok(self.own) && tcsetpgrp(&self.tty, group).is_ok();
        if given {
            self.given = Some(group);
        }
        given
    }

    /// Makes tenure's own group the foreground group again, unless somebody else took the terminal meanwhile.
    pub(crate) fn take_back(&mut self) {
        let Some(group) = self.given.take() else { return };
        if tcgetpgrp(&self.tty).is_ok_and(|now| now != group) {
            return;
        }
        // From the background this stops the caller, unless it ignores that.
        let _ignored = Disposition::ignored(Signal::TTOU);
        let _ = tcsetpgrp(&self.tty, self.own);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}
