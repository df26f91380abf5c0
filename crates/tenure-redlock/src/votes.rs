//! The votes of one round and their outcome. No I/O.

use std::time::Duration;

use tenure_core::backend::{Attempt, Reason, Released};
use tenure_core::{Error, Result};

/// The answer of one node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Vote {
    Yes,
    /// Held by another client on this node.
    No,
    /// The node failed to answer.
    Failed(Error),
}

/// The outcome of the votes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Open,
    Won,
    Lost,
}

/// The size of a majority.
pub(super) fn majority(n: usize) -> usize {
    n / 2 + 1
}

/// The votes of one round; `None` for those still missing.
#[derive(Debug)]
pub(super) struct Votes(pub(super) Vec<Option<Vote>>);

impl Votes {
    pub(super) fn new(n: usize) -> Self {
        Self(vec![None; n])
    }

    fn count(&self, which: impl Fn(&Vote) -> bool) -> usize {
        self.0.iter().flatten().filter(|v| which(v)).count()
    }

    pub(super) fn yes_count(&self) -> usize {
        self.count(|v| *v == Vote::Yes)
    }

    /// The outcome, decided as soon as the missing votes cannot change it.
    pub(super) fn verdict(&self) -> Verdict {
        let (n, yes) = (self.0.len(), self.yes_count());
        let open = self.0.iter().filter(|v| v.is_none()).count();
        if yes >= majority(n) {
            Verdict::Won
        } else if yes + open < majority(n) {
            Verdict::Lost
        } else {
            Verdict::Open
        }
    }

    /// For a hold: whether so many nodes do not have it that the others cannot be a majority.
    pub(super) fn is_gone(&self) -> bool {
        self.count(|v| *v == Vote::No) > self.0.len() - majority(self.0.len())
    }

    /// For a round: whether the missing votes can change neither its outcome nor why it was lost.
    pub(super) fn is_settled(&self) -> bool {
        match self.verdict() {
            Verdict::Open => false,
            Verdict::Won => true,
            Verdict::Lost => self.is_contended() || self.voters(false) < majority(self.0.len()),
        }
    }

    /// For a lost round: whether other holders were in the way, since a majority has voted; otherwise too few nodes
    /// could vote at all.
    pub(super) fn is_contended(&self) -> bool {
        self.voters(true) >= majority(self.0.len())
    }

    /// The number of nodes that voted, or may still do so while the time is not up.
    fn voters(&self, time_up: bool) -> usize {
        let is_voter = |v: &Option<Vote>| match v {
            None => !time_up,
            Some(vote) => !matches!(vote, Vote::Failed(_)),
        };
        self.0.iter().filter(|v| is_voter(v)).count()
    }

    /// When enough nodes will be able to vote, if known: the time by which enough of those that are not ready now will
    /// be.
    pub(super) fn retry_after(&self, time_up: bool) -> Option<Duration> {
        let missing = majority(self.0.len()).checked_sub(self.voters(time_up) + 1)?;
        let mut ready: Vec<Duration> = self.0.iter().flatten().filter_map(Vote::ready_in).collect();
        ready.sort_unstable();
        ready.get(missing).copied()
    }

    /// Returns the error that rules out a majority permanently, if there is one.
    pub(super) fn permanent_error(&self) -> Option<&Error> {
        let is_permanent = |vote: &Vote| matches!(vote, Vote::Failed(error) if !error.is_transient());
        if self.count(is_permanent) <= self.0.len() - majority(self.0.len()) {
            return None;
        }
        self.0.iter().flatten().find_map(|vote| match vote {
            Vote::Failed(error) if !error.is_transient() => Some(error),
            _ => None,
        })
    }

    /// Describes the vote of each node. A round decided within `limit` did not wait for nodes that had not answered
    /// yet.
    pub(super) fn describe<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        took: Duration,
        limit: Duration,
    ) -> Reason {
        let answer = |vote: &Option<Vote>| match vote {
            None if took < limit => "had not answered yet".into(),
            None => Reason::timed_out(format!("no answer within {limit:?}")),
            Some(Vote::Yes) => "granted, then released".into(),
            Some(Vote::No) => "held by another client".into(),
            Some(Vote::Failed(error)) => reason(error),
        };
        let granted = format!(
            "{} of {} nodes granted it, {} needed",
            self.yes_count(),
            self.0.len(),
            majority(self.0.len())
        );
        let each = names.zip(&self.0).map(|(name, vote)| answer(vote).at(format_args!("node {name}")));
        Reason::all(std::iter::once(granted.into()).chain(each))
    }
}

/// Why a node failed. An error that says which call it was about says it for the whole round.
pub(super) fn reason(error: &Error) -> Reason {
    match error {
        Error::Unavailable { reason, source, .. } | Error::Unknown { reason, source, .. } => {
            Reason { text: reason.clone(), cause: source.clone() }
        }
        error => error.to_string().into(),
    }
}

impl Vote {
    pub(super) fn of_attempt(answer: Result<Attempt>) -> Self {
        match answer {
            Ok(Attempt::Granted { .. }) => Self::Yes,
            Ok(_) => Self::No,
            Err(error) => Self::Failed(error),
        }
    }

    pub(super) fn of_release(answer: Result<Released>) -> Self {
        match answer {
            Ok(Released::Freed) => Self::Yes,
            Ok(Released::Gone) => Self::No,
            Err(error) => Self::Failed(error),
        }
    }

    /// Whether the node certainly did not execute the request.
    pub(super) fn is_not_executed(&self) -> bool {
        matches!(self, Self::Failed(Error::Unavailable { .. }))
    }

    fn ready_in(&self) -> Option<Duration> {
        match self {
            Self::Failed(error) => error.retry_after(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(retry_after: Option<u64>) -> Vote {
        let retry_after = retry_after.map(Duration::from_secs);
        Vote::Failed(Error::unavailable("x", "y", "z").ready_after(retry_after))
    }

    fn votes(text: &str) -> Votes {
        let vote = |c| match c {
            'y' => Some(Vote::Yes),
            'n' => Some(Vote::No),
            'f' => Some(failed(None)),
            _ => None,
        };
        Votes(text.chars().map(vote).collect())
    }

    #[test]
    fn three_of_five_succeed_and_two_fail() {
        for (text, verdict) in [
            ("yyy..", Verdict::Won),
            ("yy...", Verdict::Open),
            ("yynn.", Verdict::Open),
            ("yynnn", Verdict::Lost),
            ("nnn..", Verdict::Lost),
            ("yyffn", Verdict::Lost),
            ("yyy", Verdict::Won),
            ("yn.", Verdict::Open),
            ("yy", Verdict::Won),
            ("yn", Verdict::Lost),
            ("y", Verdict::Won),
            ("yyn.", Verdict::Open),
            ("yynn", Verdict::Lost),
        ] {
            assert_eq!(votes(text).verdict(), verdict, "{text}");
        }
    }

    #[test]
    fn busy_is_distinguished_from_unavailable() {
        for (text, contended, settled) in [
            ("yynnn", true, true),
            ("nnffy", true, true),
            ("nnn..", true, true),
            ("yyfff", false, true),
            ("n.fff", false, true),
            ("fn.", false, false),
            ("fnn..", false, false),
            ("ffn..", false, false),
            ("yn...", false, false),
        ] {
            assert_eq!(votes(text).is_contended(), contended, "{text}");
            assert_eq!(votes(text).is_settled(), settled, "{text}");
        }
        assert!(votes("nnn..").is_gone() && votes("nn.").is_gone());
        assert!(!votes("nnyyy").is_gone() && !votes("nnfff").is_gone());
    }

    #[test]
    fn retry_after_is_when_enough_nodes_can_vote() {
        let mut restarted = votes("yyf..");
        assert_eq!(restarted.retry_after(true), None);
        restarted.0[2..].clone_from_slice(&[
            Some(failed(Some(9))),
            Some(failed(Some(5))),
            Some(failed(None)),
        ]);
        assert_eq!(restarted.retry_after(true), Some(Duration::from_secs(5)), "one more is enough");
        restarted.0[1] = Some(failed(None));
        assert_eq!(restarted.retry_after(true), Some(Duration::from_secs(9)), "both are needed");
        restarted.0[0] = Some(failed(None));
        assert_eq!(restarted.retry_after(true), None, "and that is not enough");
    }
}
