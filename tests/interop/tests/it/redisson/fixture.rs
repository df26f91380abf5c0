//! What a case works with: processes of both sides, and the state of the servers.

use std::time::{Duration, Instant};

use interop::Options;
use interop::trials::TrialProcess;
use tenure::{Client, Error};
use testbed::{Value, has_grown, retry, until_true};

use crate::redisson::environment::Environment;

/// The lease of holds that must last, `1800000` in requests. No hand-over is caused by its end.
pub(crate) const LEASE: Duration = testbed::FAR;

/// Options with which Tenure's waiters do not poll within a case, so that only a message can wake them.
pub(crate) const QUIET: &str = "poll=30m&lease=30m";

pub(crate) type Fixture = crate::fixture::Fixture<Environment>;

impl Fixture {
    /// The first or second Java process.
    pub(crate) async fn jvm(&self, n: usize) -> TrialProcess {
        self.process(self.environment().jvm(n).await)
    }

    /// The first or second process with Tenure.
    pub(crate) async fn worker(&self, n: usize) -> TrialProcess {
        self.worker_with(n, QUIET).await
    }

    pub(crate) async fn worker_with(&self, n: usize, options: &str) -> TrialProcess {
        self.process(self.environment().worker(n, options).await)
    }

    /// A Java process that this trial may kill.
    pub(crate) async fn own_jvm(&self, options: Options) -> TrialProcess {
        self.process(self.environment().new_jvm(options).await)
    }

    /// A process with Tenure that this trial may kill.
    pub(crate) async fn own_worker(&self, options: &str) -> TrialProcess {
        self.process(self.environment().new_worker(options).await)
    }

    /// Tenure in this process. Where calls have little time, it may take several to connect.
    pub(crate) async fn client(&self, options: &str) -> Client {
        let url = self.environment().url(options);
        retry("connected", Error::is_transient, || tenure::connect(&url)).await
    }

    fn with_name(&self, text: &str) -> String {
        text.replace('@', self.name())
    }

    /// Executes a command on the server of the key, which is the second word; `@` is the trial's name.
    pub(crate) fn command(&self, command: &str) -> Value {
        let command = self.with_name(command);
        let words: Vec<&str> = command.split(' ').collect();
        self.environment().node_of(words[1]).cmd(&words).unwrap_or_else(|e| panic!("{command}: {e}"))
    }

    pub(crate) fn number(&self, command: &str) -> i64 {
        let answer = self.command(command);
        answer.int().unwrap_or_else(|| panic!("{command}: {answer:?}"))
    }

    /// The number of subscribers of a channel.
    pub(crate) fn subscribers(&self, channel: &str) -> i64 {
        let channel = self.with_name(channel);
        let on = |node: &testbed::Redis, word| {
            match node.cmd(&["PUBSUB", word, &channel]) {
                Ok(counted) => counted.items().get(1).and_then(Value::int).unwrap_or(0),
                // Redis before 7.0 has no sharded channels.
                Err(error) if error.reply().is_some_and(|text| text.contains("subcommand")) => 0,
                Err(error) => panic!("{word}: {error}"),
            }
        };
        self.environment().nodes().iter().map(|node| on(node, "NUMSUB") + on(node, "SHARDNUMSUB")).sum()
    }

    /// Waits until a key is renewed.
    pub(crate) async fn wait_for_renewal(&self, key: &str) {
        let ttl = || Duration::from_millis(self.number(&format!("PTTL {key}")).try_into().unwrap_or(0));
        until_true(&format!("{key} is renewed"), has_grown(Duration::from_millis(500), ttl)).await;
    }

    /// Waits until a channel has `n` subscribers.
    pub(crate) async fn wait_for_subscribers(&self, channel: &str, n: i64) {
        until_true(&format!("{n} listen to {channel}"), || self.subscribers(channel) >= n).await;
    }

    /// Waits until the fair queue has `n` waiters, and returns their owners in order. A waiter makes another attempt
    /// after it has subscribed, so no message is missed.
    pub(crate) async fn wait_for_queue(&self, n: usize) -> Vec<String> {
        let queue = || self.command("LRANGE redisson_lock_queue:{@} 0 -1").texts();
        until_true(&format!("{n} in the queue"), || queue().len() == n).await;
        queue()
    }

    /// The server's clock, in milliseconds.
    pub(crate) fn now(&self) -> i64 {
        let time = self.environment().node_of(self.name()).cmd(&["TIME"]).expect("a time").texts();
        let part = |n: usize| time[n].parse::<i64>().expect("a number");
        part(0) * 1000 + part(1) / 1000
    }

    /// Asserts that a condition holds for a while.
    pub(crate) async fn assert_stays(&self, what: &str, time: Duration, holds: impl Fn() -> bool) {
        let begin = Instant::now();
        while begin.elapsed() < time {
            assert!(holds(), "{what}: not any more after {:?}", begin.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
