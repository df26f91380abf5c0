//! What a case works with: both sides, and looks into the servers.

use std::sync::Arc;
use std::time::Duration;

use interop::trials::SharedProcess;
use tenure::Client;
use testbed::{Monitor, Redis, has_grown, until_true};

use super::environment::Environment;
use super::side::{Side, Who};

/// Of what must last. What is handed over was not handed over by its end.
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
        tenure::connect(&self.environment().url("")).await.expect("connected")
    }

    pub(crate) fn servers(&self) -> &[Redis] {
        self.environment().servers()
    }

    /// A command about the trial's key, on each server that is there.
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

    /// How long the key lives, on the server where it lives longest; -1 is for ever.
    pub(crate) fn ttl_ms(&self) -> i64 {
        self.each("PTTL @", |value| value.int().expect("a number")).into_iter().max().expect("a server")
    }

    /// Takes the key away on all servers, as the end of a lease does.
    pub(crate) fn expire(&self) {
        self.each("DEL @", drop);
    }

    /// The number that everybody counts on.
    pub(crate) fn number(&self) -> i64 {
        self.progress().expect("a number")
    }

    /// That number, `None` before anybody has counted.
    pub(crate) fn progress(&self) -> Option<i64> {
        let key = format!("{}:number", self.name());
        self.servers()[0].cmd(&["GET", &key]).expect("read").int()
    }

    /// Whoever asks for the lock from now on is seen.
    pub(crate) fn monitor_attempts(&self) -> AttemptMonitor<'_> {
        AttemptMonitor {
            monitor: self.servers()[0].monitor().expect("a monitor"),
            name: self.name(),
            seen: 0,
        }
    }

    /// Waits until the key lives longer than before: somebody has renewed it.
    pub(crate) async fn wait_for_renewal(&self) {
        let ttl = || Duration::from_millis(self.ttl_ms().try_into().unwrap_or(0));
        until_true("it is renewed", has_grown(Duration::from_millis(500), ttl)).await;
    }
}

/// Those who ask the first server for the lock. There is no channel that they would listen to: asking is waiting.
pub(crate) struct AttemptMonitor<'a> {
    monitor: Monitor,
    name: &'a str,
    seen: usize,
}

impl AttemptMonitor<'_> {
    /// Waits until somebody has asked so many times.
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
