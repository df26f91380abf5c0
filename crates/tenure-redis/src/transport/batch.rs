//! Many calls at once, in one pipeline per node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::calls::{Placed, Run, first};
use super::failure::{Failure, Verdict, judge};
use super::home::Home;
use super::hub::{GONE, Hub};
use super::join::join;
use super::link::{Link, Terms};
use super::resp::Value;
use super::script::{By, Order, OwnedCall};
use crate::Address;

impl Hub {
    pub(super) async fn calls(
        self: &Arc<Self>,
        calls: Vec<OwnedCall>,
        deadline: Instant,
    ) -> Vec<Result<Placed, Failure>> {
        let home = match self.home() {
            Ok(home) => home,
            Err(failure) => return calls.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut outcomes: Vec<Option<Result<Placed, Failure>>> = calls.iter().map(|_| None).collect();
        let (mut groups, mut alone): (HashMap<Address, Vec<usize>>, Vec<usize>) = Default::default();
        for (i, call) in calls.iter().enumerate() {
            if !matches!(call.order, Order::Free | Order::Proof) {
                alone.push(i);
                continue;
            }
            match self.map.node(self, &home, call.key(), deadline).await {
                Ok(node) => groups.entry(node).or_default().push(i),
                Err(_) => alone.push(i),
            }
        }
        let (home, all) = (&home, &calls);
        let batches = groups.into_iter().map(|(node, of)| async move {
            let asked: Vec<&OwnedCall> = of.iter().map(|i| &all[*i]).collect();
            let answers = self.batch(home, &node, &asked, deadline).await;
            of.into_iter().zip(answers).collect::<Vec<_>>()
        });
        for (i, outcome) in join(batches.collect()).await.into_iter().flatten() {
            match outcome {
                // Not executed on this node: each is sent on its own.
                Batched::Astray => alone.push(i),
                Batched::Done(outcome) => {
                    outcomes[i] = Some(outcome.map(|value| Placed { value, certain: true }))
                }
            }
        }
        let singles = alone.into_iter().map(|i| async move {
            let call = &all[i];
            let run = Run::script(call.key(), call.order, deadline);
            let placed = self.place(run, call.order, &|out, by| call.encode(out, by)).await;
            (i, placed.map(|(values, certain)| Placed { value: first(values), certain }))
        });
        for (i, outcome) in join(singles.collect()).await {
            outcomes[i] = Some(outcome);
        }
        outcomes.into_iter().map(|o| o.expect("each has its outcome")).collect()
    }

    /// Sends all calls in one pipeline; then those whose script the server does not have again, with its text.
    async fn batch(
        self: &Arc<Self>,
        home: &Arc<Home>,
        node: &Address,
        calls: &[&OwnedCall],
        deadline: Instant,
    ) -> Vec<Batched> {
        let link = match home.lane(node).link(home, deadline).await {
            Ok(link) => link,
            // Fails at once, so that the others need not wait: next time it may be another node.
            Err(failure) => {
                self.doubt_node(node);
                return calls.iter().map(|_| Batched::Done(Err(failure.clone()))).collect();
            }
        };
        if !self.map.is_current(node) {
            home.forget(node, GONE);
            return calls.iter().map(|_| Batched::Astray).collect();
        }
        if calls.iter().any(|c| c.order == Order::Proof)
            && let Err(failure) = self.is_of_age(&link)
        {
            return calls.iter().map(|_| Batched::Done(Err(failure.clone()))).collect();
        }
        let mut outcomes: Vec<Batched> = Vec::new();
        let mut unknown = Vec::new();
        for (i, answer) in exchange(&link, calls, By::Hash, deadline).await.into_iter().enumerate() {
            if matches!(&answer, Ok(Value::Error(reply)) if judge(reply, node) == Verdict::NoScript) {
                unknown.push(i);
            }
            outcomes.push(self.batched(answer, &link));
        }
        if !unknown.is_empty() {
            let again: Vec<&OwnedCall> = unknown.iter().map(|i| calls[*i]).collect();
            let answers = exchange(&link, &again, By::Text, deadline).await;
            for (i, answer) in unknown.into_iter().zip(answers) {
                outcomes[i] = self.batched(answer, &link);
            }
        }
        outcomes
    }

    fn batched(&self, answer: Result<Value, Failure>, link: &Link) -> Batched {
        match answer {
            Ok(Value::Error(reply)) => match judge(&reply, &link.to) {
                Verdict::Moved(..) | Verdict::Ask(_) => Batched::Astray,
                _ => Batched::Done(Err(self.judge_for_call(&reply, link))),
            },
            Err(Failure::NotExecuted(_)) => Batched::Astray,
            other => Batched::Done(other),
        }
    }
}

async fn exchange(
    link: &Arc<Link>,
    calls: &[&OwnedCall],
    by: By,
    deadline: Instant,
) -> Vec<Result<Value, Failure>> {
    let terms = Terms::new(calls.len(), deadline);
    let answer = link.send(terms, |out| calls.iter().for_each(|c| c.encode(out, by))).await;
    let missing = calls.len() - answer.values.len();
    let rest = answer.rest.map(Err);
    answer.values.into_iter().map(Ok).chain(rest.into_iter().cycle().take(missing)).collect()
}

enum Batched {
    Done(Result<Value, Failure>),
    Astray,
}
