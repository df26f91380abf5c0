//! From a call to its answer: the right link, the script's text where it is not known, and one more time where nothing
//! was sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::HoldId;

use super::To;
use super::attempts::Known;
use super::failure::{Failure, Verdict, judge};
use super::home::Home;
use super::hub::Hub;
use super::join::join;
use super::link::{Link, Terms};
use super::resp::{Value, request};
use super::script::{By, Call, Order, OwnedCall};
use crate::Address;

/// An answer, and what it is worth.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Placed {
    pub(crate) value: Value,
    /// Whether all attempts of that hold went before it. If not, one may still come: nothing found proves nothing.
    pub(crate) certain: bool,
}

/// How often a call is tried on a new link because the old one turned out to be dead before anything was sent.
const TRIES: u32 = 3;

impl Hub {
    pub(super) async fn command(
        self: &Arc<Self>,
        to: To<'_>,
        words: &[&[u8]],
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let (key, node) = match to {
            To::Key(key) => (key, None),
            To::Node(node) => (&[][..], Some(node)),
        };
        let run = Run { key, node, attempt: None, deadline };
        self.run(run, &|out, _| request(out, words)).await
    }

    pub(super) async fn call(self: &Arc<Self>, call: Call<'_>, deadline: Instant) -> Result<Placed, Failure> {
        let encode = |out: &mut Vec<u8>, by| call.encode(out, by);
        self.place(call.key(), call.order, deadline, &encode).await
    }

    async fn place(
        self: &Arc<Self>,
        key: &[u8],
        order: Order,
        deadline: Instant,
        encode: &(dyn Fn(&mut Vec<u8>, By) + Sync),
    ) -> Result<Placed, Failure> {
        let attempt = match order {
            Order::Free => None,
            Order::Attempt { id, lease } => Some((id, lease)),
            Order::Behind(id) => {
                if let Some(outcome) = self.behind(id, deadline, encode).await {
                    return outcome;
                }
                None
            }
        };
        let value = self.run(Run { key, node: None, attempt, deadline }, encode).await?;
        Ok(Placed { value, certain: self.is_certain(order) })
    }

    fn is_certain(&self, order: Order) -> bool {
        match order {
            Order::Behind(id) => matches!(self.attempts.of(id), Known::Settled),
            _ => true,
        }
    }

    /// On the link of an unanswered attempt, if there is one. `None` if the own lane has to do.
    async fn behind(
        self: &Arc<Self>,
        id: HoldId,
        deadline: Instant,
        encode: &(dyn Fn(&mut Vec<u8>, By) + Sync),
    ) -> Option<Result<Placed, Failure>> {
        let Known::Unanswered(link) = self.attempts.of(id) else { return None };
        let home = match self.home() {
            Ok(home) => home,
            Err(failure) => return Some(Err(failure)),
        };
        // That link may belong to a runtime which does not run at the moment: some time is left for the own lane.
        let limit = deadline - deadline.saturating_duration_since(Instant::now()) / 2;
        let mut by = By::Hash;
        loop {
            let reply = link.send(Terms::new(1, deadline), |out| encode(out, by)).pushing();
            let Some(answer) = home.until(limit, reply).await else {
                link.close("an attempt on it was not answered in time");
                return None;
            };
            match answer.single() {
                Ok(Value::Error(reply)) => match judge(&reply, &link.to) {
                    Verdict::NoScript if by == By::Hash => by = By::Text,
                    // The attempt before it was answered the same: nothing is on its way there any more.
                    Verdict::Moved(..) | Verdict::Ask(_) => return None,
                    _ => return Some(Err(self.judge_for_call(&reply, &link.to))),
                },
                Ok(value) => return Some(Ok(Placed { value, certain: self.is_certain(Order::Behind(id)) })),
                // The link has died. Undoing twice is harmless.
                Err(_) => return None,
            }
        }
    }

    /// The answer of the right node.
    async fn run(
        self: &Arc<Self>,
        run: Run<'_>,
        encode: &(dyn Fn(&mut Vec<u8>, By) + Sync),
    ) -> Result<Value, Failure> {
        let home = self.home()?;
        let mut tries = 0;
        loop {
            tries += 1;
            let node = match run.node {
                Some(node) => node.clone(),
                None => self.map.node(self, &home, run.key, run.deadline).await?,
            };
            let link = self.link(&home, &node, run.deadline).await?;
            let terms = Terms { want: 1, deadline: run.deadline, attempt: run.attempt };
            let mut answer = link.send(terms, |out| encode(out, By::Hash)).await.single();
            if let Ok(Value::Error(reply)) = &answer
                && judge(reply, &node) == Verdict::NoScript
            {
                answer = link.send(terms, |out| encode(out, By::Text)).await.single();
            }
            match answer {
                Ok(Value::Error(reply)) => return Err(self.judge_for_call(&reply, &node)),
                Err(Failure::NotExecuted(_)) if tries < TRIES && Instant::now() < run.deadline => {}
                Err(failure) => {
                    self.doubt_node(&node);
                    return Err(failure);
                }
                Ok(value) => return Ok(value),
            }
        }
    }

    async fn link(
        self: &Arc<Self>,
        home: &Arc<Home>,
        node: &Address,
        deadline: Instant,
    ) -> Result<Arc<Link>, Failure> {
        let lane = home.lane(node);
        let link = lane.link(home, deadline).await;
        if link.is_err() {
            self.doubt_node(node);
        }
        link
    }

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
            if call.order != Order::Free {
                alone.push(i);
                continue;
            }
            match self.map.node(self, &home, call.key(), deadline).await {
                Ok(node) => groups.entry(node).or_default().push(i),
                Err(failure) => outcomes[i] = Some(Err(failure)),
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
                // Not there, or not there any more: each finds its own way.
                Batched::Astray => alone.push(i),
                Batched::Done(outcome) => {
                    outcomes[i] = Some(outcome.map(|value| Placed { value, certain: true }))
                }
            }
        }
        let singles = alone.into_iter().map(|i| async move {
            let call = &all[i];
            let encode = |out: &mut Vec<u8>, by| call.encode(out, by);
            (i, self.place(call.key(), call.order, deadline, &encode).await)
        });
        for (i, outcome) in join(singles.collect()).await {
            outcomes[i] = Some(outcome);
        }
        outcomes.into_iter().map(|o| o.expect("each has its outcome")).collect()
    }

    /// All in one go on one link; those whose script is not known there once more, by its text.
    async fn batch(
        self: &Arc<Self>,
        home: &Arc<Home>,
        node: &Address,
        calls: &[&OwnedCall],
        deadline: Instant,
    ) -> Vec<Batched> {
        let link = match self.link(home, node, deadline).await {
            Ok(link) => link,
            Err(failure) => return calls.iter().map(|_| Batched::Done(Err(failure.clone()))).collect(),
        };
        let mut outcomes: Vec<Batched> = Vec::new();
        let mut unknown = Vec::new();
        for (i, answer) in exchange(&link, calls, By::Hash, deadline).await.into_iter().enumerate() {
            if matches!(&answer, Ok(Value::Error(reply)) if judge(reply, node) == Verdict::NoScript) {
                unknown.push(i);
            }
            outcomes.push(self.batched(answer, node));
        }
        if !unknown.is_empty() {
            let again: Vec<&OwnedCall> = unknown.iter().map(|i| calls[*i]).collect();
            let answers = exchange(&link, &again, By::Text, deadline).await;
            for (i, answer) in unknown.into_iter().zip(answers) {
                outcomes[i] = self.batched(answer, node);
            }
        }
        outcomes
    }

    fn batched(&self, answer: Result<Value, Failure>, node: &Address) -> Batched {
        match answer {
            Ok(Value::Error(reply)) => match judge(&reply, node) {
                Verdict::Moved(..) | Verdict::Ask(_) => Batched::Astray,
                _ => Batched::Done(Err(self.judge_for_call(&reply, node))),
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

/// Where a call goes, and until when.
struct Run<'a> {
    key: &'a [u8],
    node: Option<&'a Address>,
    attempt: Option<(HoldId, Duration)>,
    deadline: Instant,
}
