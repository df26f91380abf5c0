//! The deadline of a session: until when it is certain to live.
//!
//! The leader ends a session when it has heard nothing of it for the timeout. A request to another server reaches the
//! leader with that server's next ping, at most half a tick later. And a leader that is partitioned from the others
//! keeps answering for a tick longer than they wait for it. So a request counts from when it was sent, but only once a
//! later one, sent at least that much later, was answered by the leader.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_core::{Drift, Time};

#[derive(Debug)]
pub(crate) struct SessionDeadline {
    timeout: Duration,
    /// The timeout granted at first: a new leader uses it, whatever was granted later.
    initial_timeout: Duration,
    tick: Duration,
    /// How long it takes at most until a request has reached the leader.
    lag: Duration,
    drift: Drift,
    /// When the answered requests were sent, oldest first.
    answered: VecDeque<Time>,
    until: Time,
}

impl SessionDeadline {
    /// The deadline of a session that was requested at `sent`: the leader itself created it after that.
    pub(crate) fn new(timeout: Duration, tick: Duration, drift: Drift, sent: Time) -> Self {
        let (lag, until) = (lag(tick, timeout), drift.until(sent, timeout));
        Self { timeout, initial_timeout: timeout, tick, lag, drift, answered: VecDeque::from([sent]), until }
    }

    /// Records the timeout of a connection that was requested at `sent`. If it differs from the one before, a server
    /// was reconfigured: answers under the old timeout no longer count.
    pub(crate) fn set_timeout(&mut self, timeout: Duration, sent: Time) {
        let timeout = timeout.min(self.initial_timeout);
        if timeout == self.timeout {
            return;
        }
        self.until = self.until.min(self.drift.until(sent, timeout));
        (self.timeout, self.lag) = (timeout, lag(self.tick, timeout));
        self.answered = VecDeque::from([sent]);
    }

    pub(crate) fn until(&self) -> Time {
        self.until
    }

    /// When the last answered request was sent.
    pub(crate) fn last_answered(&self) -> Time {
        self.answered.back().copied().unwrap_or(self.until)
    }

    /// How often to send a request to the leader.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        (self.timeout / 16).clamp(Duration::from_millis(50), Duration::from_secs(5))
    }

    /// Records that a request sent at `sent` was answered by the leader.
    pub(crate) fn record_answer(&mut self, sent: Time) {
        if self.answered.back().is_some_and(|last| *last >= sent) {
            return;
        }
        self.answered.push_back(sent);
        let has_reached_leader = |earlier: &Time| earlier.after(self.lag) <= sent;
        while self.answered.get(1).is_some_and(has_reached_leader) {
            self.answered.pop_front();
        }
        if let Some(first) = self.answered.front().filter(|first| has_reached_leader(first)) {
            self.until = self.until.max(self.drift.until(*first, self.timeout));
        }
    }
}

/// How long the leader's knowledge may lag. The shortest timeout that servers grant is two ticks.
fn lag(tick: Duration, timeout: Duration) -> Duration {
    (tick * 8 / 5).min(timeout / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos((100_000 + ms) * 1_000_000)
    }

    #[test]
    fn requests_that_may_not_have_reached_the_leader_do_not_count() {
        let drift = Drift { factor: 0.0, plus: Duration::ZERO };
        let mut deadline = SessionDeadline::new(10 * S, S, drift, at(0));
        assert_eq!(deadline.until(), at(10_000));
        deadline.record_answer(at(900));
        assert_eq!(deadline.until(), at(10_000), "the first one may not have reached the leader");
        deadline.record_answer(at(1800));
        assert_eq!(deadline.until(), at(10_000), "0.9 s are less than 1.6 ticks");
        deadline.record_answer(at(2700));
        assert_eq!(deadline.until(), at(10_900), "the request of 0.9 s has reached the leader");
        deadline.record_answer(at(9000));
        assert_eq!(deadline.until(), at(12_700));
        deadline.record_answer(at(9000));
        deadline.record_answer(at(8000));
        assert_eq!(deadline.until(), at(12_700), "late answers change nothing");
    }

    #[test]
    fn the_lag_is_at_most_half_the_timeout() {
        let mut deadline = SessionDeadline::new(4 * S, 2 * S, Drift::default(), at(0));
        deadline.record_answer(at(500));
        deadline.record_answer(at(2500));
        assert_eq!(deadline.until(), Drift::default().until(at(500), 4 * S));
    }

    #[test]
    fn a_shorter_timeout_applies_at_once_and_a_longer_one_never() {
        let drift = Drift { factor: 0.0, plus: Duration::ZERO };
        let mut deadline = SessionDeadline::new(10 * S, S, drift, at(0));
        deadline.set_timeout(4 * S, at(1000));
        assert_eq!(deadline.until(), at(5000));
        deadline.set_timeout(20 * S, at(2000));
        assert_eq!(deadline.until(), at(5000), "earlier requests do not count for longer");
        deadline.record_answer(at(3600));
        assert_eq!(deadline.until(), at(12_000), "no longer than at first");
    }
}
