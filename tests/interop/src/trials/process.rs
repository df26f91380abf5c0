//! A client process of either side, as used by a trial.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Barrier;

use crate::{Peer, Pending, Result};

/// A client process of either side.
pub type SharedProcess = Arc<dyn Deref<Target = Peer> + Send + Sync>;

/// A client process, and the name of a trial. In requests `@` stands for that name, so that trials do not interfere.
#[derive(Clone)]
pub struct TrialProcess {
    peer: SharedProcess,
    name: String,
}

impl TrialProcess {
    /// Uses the process for the trial of this name.
    pub fn new(peer: SharedProcess, name: &str) -> Self {
        Self { peer, name: name.to_owned() }
    }

    /// Sends a request without waiting for its answer.
    pub fn spawn(&self, thread: &str, request: &str) -> Pending {
        self.peer.spawn(&format!("{}/{thread}", self.name), &request.replace('@', &self.name))
    }

    /// Executes a request.
    ///
    /// # Errors
    /// As [`Peer::call`].
    pub async fn try_call(&self, thread: &str, request: &str) -> Result<String> {
        self.spawn(thread, request).answer().await
    }

    /// Executes a request that must not fail.
    ///
    /// # Panics
    /// When it does.
    pub async fn call(&self, thread: &str, request: &str) -> String {
        self.try_call(thread, request).await.unwrap_or_else(|e| panic!("{thread} {request}: {e}"))
    }

    /// Executes a request that must return `answer`.
    ///
    /// # Panics
    /// When it is not.
    pub async fn expect_answer(&self, thread: &str, request: &str, answer: &str) {
        assert_eq!(self.call(thread, request).await, answer, "{thread} {request}");
    }

    /// Executes requests one after the other. Each line is `REQUEST → ANSWER`; an error answers with its class.
    ///
    /// # Panics
    /// When an answer differs.
    pub async fn expect_answers(&self, thread: &str, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (request, expected) = line.split_once(" →").expect("an arrow");
            let answer = match self.try_call(thread, request).await {
                Ok(value) => value,
                Err(e) => e.class().unwrap_or_else(|| panic!("{e}")).to_owned(),
            };
            assert_eq!(answer, expected.trim(), "{request}");
        }
    }

    /// Waits until a thread is parked, waiting for a message. Redisson loses the `1` that a writer publishes a moment
    /// earlier.
    ///
    /// # Panics
    /// When it does not.
    pub async fn wait_until_parked(&self, thread: &str) {
        let parked = || async { self.call(thread, "parked").await == "true" };
        testbed::until(&format!("{thread} waits"), parked).await;
    }

    /// Interrupts what a thread is doing, which is then answered with an error.
    ///
    /// # Panics
    /// When the process does not answer.
    pub async fn interrupt(&self, thread: &str) {
        self.call(thread, "interrupt").await;
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.peer.pid()
    }

    /// Sends a signal, by its name without `SIG`.
    ///
    /// # Panics
    /// When it cannot be sent.
    pub fn signal(&self, signal: &str) {
        let sent = std::process::Command::new("kill").args(["-s", signal, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal} is not sent");
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub async fn kill(&self) {
        self.peer.kill().await;
    }
}

/// A process shared by two parts of a case, since one is slow to start: it is killed once both are ready.
#[derive(Debug)]
pub struct SharedVictim {
    victim: TrialProcess,
    both: Barrier,
}

impl SharedVictim {
    /// Wraps this process. The parts lock different names, so each gets a handle of its own: see
    /// [`SharedVictim::process`].
    pub fn new(victim: TrialProcess) -> Self {
        Self { victim, both: Barrier::new(2) }
    }

    /// The process for the part of this name.
    pub fn process(&self, name: &str) -> TrialProcess {
        TrialProcess::new(self.victim.peer.clone(), name)
    }

    /// Kills it (SIGKILL) once both parts have called this.
    pub async fn kill(&self) {
        if self.both.wait().await.is_leader() {
            self.victim.kill().await;
        }
        self.both.wait().await;
    }
}

impl fmt::Debug for TrialProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrialProcess").field(&self.name).finish()
    }
}
