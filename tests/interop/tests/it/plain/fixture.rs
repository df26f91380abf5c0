//! What a case works with: processes of both sides, and the state of the servers.

use std::sync::Arc;
use std::time::Duration;

use interop::trials::SharedProcess;
use tenure::Client;
use testbed::{Monitor, Redis, has_grown, until_true};

use super::environment::Environment;
use super::side::{Side, Who};

/// The lease of holds that must last. No hand-over is caused by its end.
pub(crate) const LEASE: Duration = testbed::FAR;

pub(crate) type Fixture = crate::fixture::Fixture<Environment>;

impl Fixture {
    /// A fixture on servers that no other trial uses.
    pub(crate) async fn with_own_servers(self) -> Self {
        let environment = self.environment().start_another().await.expect("servers");
        Self::new(Arc::new(environment), self.name())
    }

    fn side(&self, process: SharedProcess, who: Who) -> Side {
        Side::new(self.process(process), who)
    }

    /// The first or second process of the library.
    pub(crate) async fn peer(&self, n: usize) -> Side {
        self.side(self.environment().peer(n).await, Who::Peer)
    }

    /// The first or second process with Tenure.
    pub(crate) async fn tenure(&self, n: usize) -> Side {
        self.side(self.environment().worker(n).await, Who::Tenure)
    }

    /// A process of the library that this trial may kill.
    pub(crate) async fn own_peer(&self) -> Side {
        self.side(self.environment().new_peer().await, Who::Peer)
    }

    /// A process with Tenure that this trial may kill, with these options in its address.
    pub(crate) async fn own_tenure(&self, options: &str) -> Side {
        self.side(self.environment().new_worker(options).await, Who::Tenure)
    }

    /// Tenure in this process.
    pub(crate) async fn client(&self) -> Client {
        tenure::connect(&self.environment().url("call_timeout=60s")).await.expect("connected")
    }

    pub(crate) fn servers(&self) -> &[Redis] {
        self.environment().servers()
    }

    /// Executes a command on each running server; `@` is the trial's key.
    fn each<T>(&self, command: &str, read: impl Fn(testbed::Value) -> T) -> Vec<T> {
        let words: Vec<&str> =
            command.split(' ').map(|word| if word == "@" { self.name() } else { word }).collect();
        let ask = |server: &Redis| server.cmd(&words).unwrap_or_else(|e| panic!("{command}: {e}"));
        self.servers().iter().filter(|server| server.is_running()).map(|server| read(ask(server))).collect()
    }

    /// The token that most servers have. The others may not have it yet.
    pub(crate) fn token(&self) -> Option<String> {
        let tokens = self.each("GET @", |value| if value.is_nil() { None } else { Some(value.text()) });
        let count = |token: &Option<String>| tokens.iter().filter(|other| *other == token).count();
        tokens.iter().find(|token| 2 * count(token) > self.servers().len()).cloned().flatten()
    }

    /// The longest TTL of the key on any server; -1 without one.
    pub(crate) fn ttl_ms(&self) -> i64 {
        self.each("PTTL @", |value| value.int().expect("a number")).into_iter().max().expect("a server")
    }

    /// Deletes the key on all servers, as the end of a lease does.
    pub(crate) fn expire(&self) {
        self.each("DEL @", drop);
    }

    /// The unprotected counter of this trial.
    pub(crate) fn number(&self) -> i64 {
        self.progress().expect("a number")
    }

    /// The counter, `None` before the first increment.
    pub(crate) fn progress(&self) -> Option<i64> {
        let key = format!("{}:number", self.name());
        self.servers()[0].cmd(&["GET", &key]).expect("read").int()
    }

    /// Observes attempts to acquire the lock from now on.
    pub(crate) fn monitor_attempts(&self) -> AttemptMonitor<'_> {
        AttemptMonitor {
            monitor: self.servers()[0].monitor().expect("a monitor"),
            name: self.name(),
            seen: 0,
        }
    }

    /// Waits until the key is renewed.
    pub(crate) async fn wait_for_renewal(&self) {
        let ttl = || Duration::from_millis(self.ttl_ms().try_into().unwrap_or(0));
        until_true("it is renewed", has_grown(Duration::from_millis(500), ttl)).await;
    }
}

/// Counts attempts on the first server. Waiters of these libraries use no channel: they repeat their attempts.
pub(crate) struct AttemptMonitor<'a> {
    monitor: Monitor,
    name: &'a str,
    seen: usize,
}

impl AttemptMonitor<'_> {
    /// Waits until there were this many attempts.
    pub(crate) async fn wait_for(&mut self, times: usize) {
        until_true(&format!("asked {times} times"), || self.look() >= times).await;
    }

    fn look(&mut self) -> usize {
        let all = self.monitor.drain().expect("the monitor goes on");
        let asks = |name: &str| ["SET", "EVAL", "EVALSHA"].contains(&name);
        let about = all.iter().filter(|seen| seen.words.iter().any(|word| word == self.name));
        self.seen += about.filter(|seen| asks(&seen.name()) && !seen.is_in_script()).count();
        self.seen
    }
}
