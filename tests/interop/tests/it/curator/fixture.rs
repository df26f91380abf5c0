//! What a case works with: processes of both sides, and the state of the servers.

use std::time::Duration;

use interop::trials::TrialProcess;
use tenure::Client;
use testbed::{ZkClient, ZkStat, until_true};

use crate::curator::environment::{Environment, LONG, options};

pub(crate) type Fixture = crate::fixture::Fixture<Environment>;

impl Fixture {
    /// The first or second Java process.
    pub(crate) async fn jvm(&self, n: usize) -> TrialProcess {
        self.process(self.environment().jvm(n).await)
    }

    /// The first or second process with Tenure.
    pub(crate) async fn worker(&self, n: usize) -> TrialProcess {
        self.process(self.environment().worker(n).await)
    }

    /// A Java process that this trial may kill.
    pub(crate) async fn own_jvm(&self, session: Duration) -> TrialProcess {
        self.process(self.environment().new_jvm(session).await)
    }

    /// A process with Tenure that this trial may kill.
    pub(crate) async fn own_worker(&self, session: Duration) -> TrialProcess {
        self.process(self.environment().new_worker(session).await)
    }

    /// Tenure in this process.
    pub(crate) async fn client(&self) -> Client {
        let options = format!("{}&call_timeout=60s", options(LONG));
        tenure::connect(&self.environment().url(&options)).await.expect("connected")
    }

    /// The path of this name; `@` is the trial's name.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{}", self.environment().root(), name.replace('@', self.name()))
    }

    /// The metadata of a child of the trial's own node.
    pub(crate) fn stat(&self, child: &str) -> ZkStat {
        let stat = self.raw_client().exists(&self.child(child)).expect("an answer");
        stat.unwrap_or_else(|| panic!("there is no {child}"))
    }

    /// The path of such a child. It may have an `@` in it.
    pub(crate) fn child(&self, child: &str) -> String {
        format!("{}/{child}", self.path("@"))
    }

    pub(crate) fn raw_client(&self) -> ZkClient {
        self.environment().raw_client().expect("a connection")
    }

    /// The children of a node, in the order of the numbers at their ends.
    pub(crate) fn children(&self, name: &str) -> Vec<String> {
        let path = self.path(name);
        let mut all = match self.raw_client().children(&path) {
            Err(testbed::Error::Reply(said)) if said == "NoNode" => Vec::new(),
            all => all.unwrap_or_else(|e| panic!("{path}: {e}")),
        };
        all.sort_by_key(|child| child[child.len().saturating_sub(10)..].to_owned());
        all
    }

    /// Waits until a node has `n` children, and returns them.
    pub(crate) async fn wait_for_children(&self, name: &str, n: usize) -> Vec<String> {
        let mut all = Vec::new();
        until_true(&format!("{n} children of {name}"), || {
            all = self.children(name);
            all.len() == n
        })
        .await;
        all
    }

    /// Waits until a queue has `n` children, each of which watches the one before it. Tenure makes an attempt before it
    /// queues, and the child of that attempt is deleted again.
    pub(crate) async fn wait_for_queue(&self, name: &str, n: usize) {
        until_true(&format!("{n} in the queue {name}"), || {
            let queue = self.children(name);
            queue.len() == n && queue.windows(2).all(|pair| self.watches(name, &pair[1], &pair[0]))
        })
        .await;
    }

    /// Whether the client that created `child` watches `other`.
    fn watches(&self, name: &str, child: &str, other: &str) -> bool {
        let folder = self.path(name);
        let stat = self.raw_client().exists(&format!("{folder}/{child}")).expect("an answer");
        let Some(owner) = stat.map(|stat| format!("{:#x}", stat.ephemeral_owner)) else { return false };
        // The server lists each path, followed by the sessions that watch it.
        let other = format!("{folder}/{other}");
        self.environment().servers().iter().any(|server| {
            let said = server.word("wchp").expect("an answer");
            let mut behind = said.lines().skip_while(|line| line.trim() != other).skip(1);
            behind.by_ref().take_while(|line| !line.starts_with('/')).any(|line| line.trim() == owner)
        })
    }

    /// The unprotected counter of this trial.
    pub(crate) fn number(&self) -> i64 {
        self.counted("@.number")
    }

    /// The counter as text, `None` before the first increment.
    pub(crate) fn progress(&self) -> Option<String> {
        let file = self.environment().numbers.path().join(format!("{}.number", self.name()));
        std::fs::read_to_string(file).ok()
    }

    /// A number in a file; `@` is the trial's name.
    pub(crate) fn counted(&self, file: &str) -> i64 {
        let file = self.environment().numbers.path().join(file.replace('@', self.name()));
        std::fs::read_to_string(file).expect("a file").parse().expect("a number")
    }
}
