//! Many calls at once, in one pipeline per node.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use super::call::{By, Call, Order};
use super::calls::{Request, first};
use super::connection::{Connection, SendOptions};
use super::connections::Connections;
use super::failure::{ErrorClass, Failure, classify};
use super::wire::Value;
use super::{NOT_MASTER, Transport};
use crate::Address;

impl Transport {
    /// Runs many scripts: one pipeline per node, and a failing node fails only its own. Returns the answers in order.
    pub(crate) async fn call_all(self: &Arc<Self>, calls: Vec<Call>) -> Vec<Result<Value, Failure>> {
        let deadline = self.deadline();
        let connections = match self.connections() {
            Ok(connections) => connections,
            Err(failure) => return calls.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut outcomes: Vec<Option<Result<Value, Failure>>> = calls.iter().map(|_| None).collect();
        let (mut groups, mut alone): (HashMap<Address, Vec<usize>>, Vec<usize>) = Default::default();
        for (i, call) in calls.iter().enumerate() {
            if !matches!(call.order, Order::Unordered | Order::Renewal) {
                alone.push(i);
                continue;
            }
            match self.discovery.node(self, &connections, call.key(), deadline).await {
                Ok(node) => groups.entry(node).or_default().push(i),
                Err(_) => alone.push(i),
            }
        }
        let (connections, all) = (&connections, &calls);
        let batches = groups.into_iter().map(|(node, of)| async move {
            let asked: Vec<&Call> = of.iter().map(|i| &all[*i]).collect();
            let answers = self.batch(connections, &node, &asked, deadline).await;
            of.into_iter().zip(answers).collect::<Vec<_>>()
        });
        for (i, outcome) in join_all(batches.collect()).await.into_iter().flatten() {
            match outcome {
                // Not executed on this node: each is sent on its own.
                Batched::WrongNode => alone.push(i),
                Batched::Done(outcome) => outcomes[i] = Some(outcome),
            }
        }
        let singles = alone.into_iter().map(|i| async move {
            let call = &all[i];
            let encode = |out: &mut Vec<u8>, by| call.encode(out, by);
            let request = Request::script(call.key(), call.order, &encode, deadline);
            (i, self.execute(&request).await.map(first))
        });
        for (i, outcome) in join_all(singles.collect()).await {
            outcomes[i] = Some(outcome);
        }
        outcomes.into_iter().map(|o| o.expect("each has its outcome")).collect()
    }

    /// Sends all calls in one pipeline; then those whose script the server does not have again, with its text.
    async fn batch(
        self: &Arc<Self>,
        connections: &Arc<Connections>,
        node: &Address,
        calls: &[&Call],
        deadline: Instant,
    ) -> Vec<Batched> {
        let connection = match connections.manager(node).connection(connections, deadline).await {
            Ok(connection) => connection,
            // Fails at once, so that the others need not wait: next time it may be another node.
            Err(failure) => {
                self.discovery.invalidate(node);
                return calls.iter().map(|_| Batched::Done(Err(failure.clone()))).collect();
            }
        };
        if !self.discovery.is_current(node) {
            connections.forget(node, NOT_MASTER);
            return calls.iter().map(|_| Batched::WrongNode).collect();
        }
        if calls.iter().any(|c| c.order == Order::Renewal)
            && let Err(failure) = self.past_restart_delay(&connection)
        {
            return calls.iter().map(|_| Batched::Done(Err(failure.clone()))).collect();
        }
        let mut outcomes: Vec<Batched> = Vec::new();
        let mut unknown = Vec::new();
        for (i, answer) in exchange(&connection, calls, By::Hash, deadline).await.into_iter().enumerate() {
            if matches!(&answer, Ok(Value::Error(reply)) if classify(reply, node) == ErrorClass::NoScript) {
                unknown.push(i);
            }
            outcomes.push(self.batched(answer, &connection));
        }
        if !unknown.is_empty() {
            let again: Vec<&Call> = unknown.iter().map(|i| calls[*i]).collect();
            let answers = exchange(&connection, &again, By::Text, deadline).await;
            for (i, answer) in unknown.into_iter().zip(answers) {
                outcomes[i] = self.batched(answer, &connection);
            }
        }
        outcomes
    }

    fn batched(&self, answer: Result<Value, Failure>, connection: &Connection) -> Batched {
        match answer {
            Ok(Value::Error(reply)) => match classify(&reply, &connection.to) {
                ErrorClass::Moved(..) | ErrorClass::Ask(_) => Batched::WrongNode,
                _ => Batched::Done(Err(self.call_failure(&reply, connection))),
            },
            Err(Failure::NotExecuted(_)) => Batched::WrongNode,
            other => Batched::Done(other),
        }
    }
}

async fn exchange(
    connection: &Arc<Connection>,
    calls: &[&Call],
    by: By,
    deadline: Instant,
) -> Vec<Result<Value, Failure>> {
    let options = SendOptions::new(calls.len(), deadline);
    let answer = connection.send(options, |out| calls.iter().for_each(|c| c.encode(out, by))).await;
    let missing = calls.len() - answer.values.len();
    let failure = answer.failure.map(Err);
    answer.values.into_iter().map(Ok).chain(failure.into_iter().cycle().take(missing)).collect()
}

enum Batched {
    Done(Result<Value, Failure>),
    WrongNode,
}

enum Part<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

/// All outputs, in order.
pub(crate) async fn join_all<F: Future>(work: Vec<F>) -> Vec<F::Output>
where
    F::Output: Unpin,
{
    let mut parts: Vec<Part<F>> = work.into_iter().map(|f| Part::Running(Box::pin(f))).collect();
    poll_fn(|cx| {
        let mut all = true;
        for part in &mut parts {
            if let Part::Running(future) = part {
                match future.as_mut().poll(cx) {
                    Poll::Ready(done) => *part = Part::Done(Some(done)),
                    Poll::Pending => all = false,
                }
            }
        }
        if all { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let done = |part| match part {
        Part::Done(outcome) => outcome.expect("taken once"),
        Part::Running(_) => unreachable!("all are done"),
    };
    parts.into_iter().map(done).collect()
}
