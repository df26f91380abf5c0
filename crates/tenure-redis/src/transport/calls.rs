//! Sends a call and returns its answer: picks the connection, sends the script's text if the server does not have it,
//! and retries if nothing was sent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::HoldId;
use tenure_core::backend::Backoff;

use super::To;
use super::attempts::AttemptState;
use super::call::{By, Call, Order};
use super::connection::{Connection, PendingReplies, Replies, SendOptions};
use super::connections::{ConnectionManager, Connections};
use super::discovery::Discovery;
use super::failure::{ErrorClass, Failure, classify};
use super::wire::{Value, write_command};
use super::{MAX_REDIRECTS, NOT_MASTER, Transport, bounded, reconnect_backoff};
use crate::Address;

/// The answer to a release, and whether it is conclusive.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Answer {
    pub(crate) value: Value,
    /// Whether all attempts of that hold were sent before it. If not, one may still arrive, and "not found" proves
    /// nothing.
    pub(crate) certain: bool,
}

/// How often a call is retried on a new connection because the old one was dead before anything was sent.
const MAX_RESENDS: u32 = 3;

/// Writes the commands of a request.
type Encode<'a> = &'a (dyn Fn(&mut Vec<u8>, By) + Sync);

/// Commands that are sent together: what they are, where they go, and until when.
pub(super) struct Request<'a> {
    encode: Encode<'a>,
    /// The call that it consists of, if that may be sent together with others.
    call: Option<&'a Arc<Call>>,
    key: &'a [u8],
    /// Sent to this node, regardless of the key's slot.
    node: Option<&'a Address>,
    order: Order,
    /// Whether it gets a connection of its own.
    own_connection: bool,
    /// The number of expected replies. The first one decides about redirects and errors.
    expected: usize,
    /// Whether it follows `ASK` to the node that its slot is migrating to.
    follows_ask: bool,
    deadline: Instant,
}

impl<'a> Request<'a> {
    fn command(key: &'a [u8], order: Order, encode: Encode<'a>, deadline: Instant) -> Self {
        let (call, node, own_connection, expected, follows_ask) = (None, None, false, 1, true);
        Self { encode, call, key, node, order, own_connection, expected, follows_ask, deadline }
    }

    /// For a script. A script may read keys that are not declared, which the target node of a migrating slot would take
    /// for missing; and what it publishes there is not received, since channels stay with the source until the end.
    /// Only scripts that check holds follow: they do neither.
    pub(super) fn script(key: &'a [u8], order: Order, encode: Encode<'a>, deadline: Instant) -> Self {
        Self { follows_ask: order == Order::Renewal, ..Self::command(key, order, encode, deadline) }
    }
}

impl Transport {
    /// Sends any command.
    pub(crate) async fn command(self: &Arc<Self>, to: To<'_>, words: &[&[u8]]) -> Result<Value, Failure> {
        self.ordered_command(to, words, Order::Unordered, true).await
    }

    /// Sends a command in its order with others of the same hold.
    pub(crate) async fn ordered_command(
        self: &Arc<Self>,
        to: To<'_>,
        words: &[&[u8]],
        order: Order,
        follows_ask: bool,
    ) -> Result<Value, Failure> {
        let (key, node) = match to {
            To::Key(key) => (key, None),
            To::Node(node) => (&[][..], Some(node)),
        };
        let encode = |out: &mut Vec<u8>, _| write_command(out, words);
        let request = Request { node, follows_ask, ..Request::command(key, order, &encode, self.deadline()) };
        self.execute(&request).await.map(first)
    }

    /// Runs a script.
    pub(crate) async fn call(self: &Arc<Self>, call: Call) -> Result<Value, Failure> {
        self.run(&self.joinable(call)).await
    }

    /// Runs a script. Usually there is nothing to look up, to open or to send again: for all that, the future would be
    /// several times as large.
    async fn run(self: &Arc<Self>, call: &Arc<Call>) -> Result<Value, Failure> {
        let deadline = self.deadline();
        let early = match self.send_now(call, deadline) {
            Some((sent, connection)) => {
                let mut replies = sent.await;
                if replies.failure.is_none() && !matches!(replies.values[..], [Value::Error(_)]) {
                    return Ok(replies.values.swap_remove(0));
                }
                Some((replies, connection))
            }
            None => None,
        };
        let slowly = async {
            let encode = |out: &mut Vec<u8>, by| call.encode(out, by);
            let request = Request::script(call.key(), call.order, &encode, deadline);
            self.execute_from(&Request { call: Some(call), ..request }, early).await.map(first)
        };
        Box::pin(slowly).await
    }

    /// Sends a call where its node is certain and connected.
    fn send_now(
        self: &Arc<Self>,
        call: &Arc<Call>,
        deadline: Instant,
    ) -> Option<(PendingReplies, Arc<Connection>)> {
        let Discovery::Fixed(node) = &self.discovery else { return None };
        let connection = self.connections().ok()?.manager(node).ready()?;
        self.allows(call.order, &connection).ok()?;
        let options = SendOptions { attempt: call.order.attempt(), ..SendOptions::new(1, deadline) };
        Some((connection.send_call(options, call, By::Hash), connection))
    }

    /// A server that may have lost data in a restart must neither grant nor renew.
    fn allows(&self, order: Order, connection: &Connection) -> Result<(), Failure> {
        match order {
            Order::Unordered => Ok(()),
            Order::Attempt { .. } | Order::Renewal => self.past_restart_delay(connection),
        }
    }

    /// The call as others can join it.
    fn joinable(&self, call: Call) -> Arc<Call> {
        Arc::new(call.in_slot(|key| self.slot(key)))
    }

    /// Runs a script, then waits until this many replicas have it or `within` is over. Returns how many have it. The
    /// usual timeout comes on top of `within`.
    pub(crate) async fn call_and_wait(
        self: &Arc<Self>,
        call: Call,
        replicas: u32,
        within: Duration,
    ) -> Result<(Value, u32), Failure> {
        let within = bounded(within);
        let deadline = self.deadline() + within;
        let replicas = replicas.to_string();
        // Zero would mean no timeout.
        let within = within.as_millis().max(1).to_string();
        let encode = |out: &mut Vec<u8>, by| {
            call.encode(out, by);
            write_command(out, &[b"WAIT", replicas.as_bytes(), within.as_bytes()]);
        };
        let request = Request {
            own_connection: true,
            expected: 2,
            ..Request::script(call.key(), call.order, &encode, deadline)
        };
        let mut values = self.execute(&request).await?;
        let reached = match values.pop() {
            Some(Value::Int(n)) => u32::try_from(n).unwrap_or(0),
            // The script was executed, but it is unknown which replicas have it.
            other => {
                tracing::warn!(answer = ?other, "WAIT was refused");
                0
            }
        };
        Ok((first(values), reached))
    }

    /// Runs a script that releases this hold: after the attempt that may create it, if that is unanswered.
    pub(crate) async fn call_after_attempt(
        self: &Arc<Self>,
        id: HoldId,
        call: Call,
    ) -> Result<Answer, Failure> {
        let call = self.joinable(call);
        if !matches!(self.attempts.state(id), AttemptState::InFlight(_)) {
            let value = self.run(&call).await?;
            return Ok(Answer { value, certain: self.is_every_attempt_answered(id) });
        }
        let behind = async {
            let encode = |out: &mut Vec<u8>, by| call.encode(out, by);
            let request = Request::script(call.key(), call.order, &encode, self.deadline());
            self.execute_after_attempt(id, &Request { call: Some(&call), ..request }).await
        };
        Box::pin(behind).await
    }

    /// Sends a command that releases this hold, like [`Transport::call_after_attempt`].
    pub(crate) async fn command_after_attempt(
        self: &Arc<Self>,
        id: HoldId,
        key: &[u8],
        words: &[&[u8]],
    ) -> Result<Answer, Failure> {
        let encode = |out: &mut Vec<u8>, _| write_command(out, words);
        let request = Request::command(key, Order::Unordered, &encode, self.deadline());
        self.execute_after_attempt(id, &request).await
    }

    /// When a call that starts now times out.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    async fn execute_after_attempt(
        self: &Arc<Self>,
        id: HoldId,
        request: &Request<'_>,
    ) -> Result<Answer, Failure> {
        let mut executed = false;
        match self.send_after_attempt(id, request).await? {
            AfterAttempt::Answered(values) => {
                return Ok(Answer { value: first(values), certain: self.is_every_attempt_answered(id) });
            }
            AfterAttempt::NotSent => {}
            AfterAttempt::MaybeSent => executed = true,
        }
        let values = match self.execute(request).await {
            // Not executed this time, but perhaps the first time.
            Err(Failure::NotExecuted(why)) if executed => return Err(Failure::Unknown(why)),
            outcome => outcome?,
        };
        // What is not found now may have been released by the first one.
        let certain = !executed && self.is_every_attempt_answered(id);
        Ok(Answer { value: first(values), certain })
    }

    fn is_every_attempt_answered(&self, id: HoldId) -> bool {
        matches!(self.attempts.state(id), AttemptState::Answered)
    }

    /// Sends on the connection of an unanswered attempt, if there is one; otherwise the caller uses its own connection.
    async fn send_after_attempt(
        self: &Arc<Self>,
        id: HoldId,
        request: &Request<'_>,
    ) -> Result<AfterAttempt, Failure> {
        let AttemptState::InFlight(connection) = self.attempts.state(id) else {
            return Ok(AfterAttempt::NotSent);
        };
        let connections = self.connections()?;
        // That connection may belong to a runtime that is not running at the moment: leave time for our own connection.
        let limit = request.deadline - request.deadline.saturating_duration_since(Instant::now()) / 2;
        let options = SendOptions::new(request.expected, request.deadline);
        let mut by = By::Hash;
        loop {
            let reply = connection.send(options, |out| (request.encode)(out, by)).written_by_caller();
            let Some(answer) = connections.until(limit, reply).await else {
                connection.close("an attempt on it was not answered in time");
                return Ok(AfterAttempt::MaybeSent);
            };
            let values = match answer.all() {
                Ok(values) => values,
                Err(Failure::NotExecuted(_)) => return Ok(AfterAttempt::NotSent),
                // Releasing twice is harmless.
                Err(_) => return Ok(AfterAttempt::MaybeSent),
            };
            let Value::Error(reply) = &values[0] else { return Ok(AfterAttempt::Answered(values)) };
            match classify(reply, &connection.to) {
                ErrorClass::NoScript if by == By::Hash => by = By::Text,
                // The attempt before it got the same reply: nothing is in flight there any more.
                ErrorClass::Moved(..) | ErrorClass::Ask(_) => return Ok(AfterAttempt::NotSent),
                _ => return Err(self.call_failure(reply, &connection)),
            }
        }
    }

    /// Sends to the right node, following redirects, and returns its replies.
    pub(super) async fn execute(self: &Arc<Self>, request: &Request<'_>) -> Result<Vec<Value>, Failure> {
        self.execute_from(request, None).await
    }

    /// Goes on where it was sent already, if it was, with what came back and the connection that it was sent on.
    async fn execute_from(
        self: &Arc<Self>,
        request: &Request<'_>,
        mut early: Option<(Replies, Arc<Connection>)>,
    ) -> Result<Vec<Value>, Failure> {
        let connections = self.connections()?;
        if matches!(request.order, Order::Attempt { .. }) {
            self.discovery.watch(self);
        }
        let (mut resends, mut redirects, mut backoff) = (0, 0, reconnect_backoff());
        let mut redirect = None;
        loop {
            let (node, asking) = match (redirect.take(), request.node) {
                (Some(to), _) => to,
                (None, Some(node)) => (node.clone(), false),
                (None, None) => {
                    match self.discovery.node(self, &connections, request.key, request.deadline).await {
                        Ok(node) => (node, false),
                        Err(failure) => {
                            self.back_off(&connections, &mut backoff, request.deadline, failure).await?;
                            continue;
                        }
                    }
                }
            };
            let answer = self.send_to_node(&connections, &node, asking, request, early.take()).await;
            let (values, connection) = match answer {
                Ok(answer) => answer,
                Err(SendError::NoConnection(failure)) if request.node.is_none() => {
                    self.discovery.invalidate(&node);
                    self.back_off(&connections, &mut backoff, request.deadline, failure).await?;
                    continue;
                }
                Err(SendError::NotSent(_)) if resends < MAX_RESENDS && Instant::now() < request.deadline => {
                    resends += 1;
                    continue;
                }
                Err(
                    SendError::NoConnection(failure)
                    | SendError::NotSent(failure)
                    | SendError::Unknown(failure),
                ) => {
                    self.discovery.invalidate(&node);
                    return Err(failure);
                }
            };
            let Value::Error(reply) = &values[0] else { return Ok(values) };
            redirects += 1;
            match classify(reply, &node) {
                ErrorClass::Moved(slot, to) if redirects <= MAX_REDIRECTS => {
                    self.discovery.moved(self, slot, &to);
                    redirect = Some((to, false));
                }
                ErrorClass::Ask(_) if !request.follows_ask => {
                    return Err(Failure::not_executed(format!(
                        "{}: {}: the slot is migrating",
                        connection.place, reply.message
                    )));
                }
                ErrorClass::Ask(to) if redirects <= MAX_REDIRECTS => redirect = Some((to, true)),
                ErrorClass::Moved(..) | ErrorClass::Ask(_) => {
                    self.discovery.invalidate(&node);
                    return Err(Failure::not_executed(format!(
                        "{}: {}: redirected too often",
                        connection.place, reply.message
                    )));
                }
                _ => return Err(self.call_failure(reply, &connection)),
            }
        }
    }

    /// The connection of this manager, if it leads to the right server and that may run the request.
    async fn connection_by(
        &self,
        manager: &Arc<ConnectionManager>,
        connections: &Arc<Connections>,
        node: &Address,
        request: &Request<'_>,
    ) -> Result<Arc<Connection>, SendError> {
        let connection =
            manager.connection(connections, request.deadline).await.map_err(SendError::NoConnection)?;
        // The master may have changed since it was looked up. A change after this check finds the manager and closes it.
        if !self.discovery.is_current(node) {
            connections.forget(node, NOT_MASTER);
            return Err(SendError::NotSent(Failure::not_executed(format!("{node}: {NOT_MASTER}"))));
        }
        self.allows(request.order, &connection).map_err(SendError::NoConnection)?;
        Ok(connection)
    }

    /// Sends to one node, with the script's text if that node does not have the script. Also returns the connection
    /// used.
    async fn send_to_node(
        self: &Arc<Self>,
        connections: &Arc<Connections>,
        node: &Address,
        asking: bool,
        request: &Request<'_>,
        early: Option<(Replies, Arc<Connection>)>,
    ) -> Result<(Vec<Value>, Arc<Connection>), SendError> {
        let pool = request.own_connection.then(|| connections.pool(node));
        let pooled = match &pool {
            Some(pool) => Some(connections.until(request.deadline, pool.take()).await.ok_or_else(|| {
                SendError::NotSent(Failure::not_executed(format!("{node}: all connections are in use")))
            })?),
            None => None,
        };
        let (mut early, connection) = match early {
            Some((replies, connection)) => (Some(replies), connection),
            None => {
                let manager = pooled.as_ref().map(|pooled| pooled.manager.clone());
                let manager = manager.unwrap_or_else(|| connections.manager(node));
                (None, self.connection_by(&manager, connections, node, request).await?)
            }
        };
        let extra = usize::from(asking);
        let expected = request.expected + extra;
        let options = SendOptions { expected, deadline: request.deadline, attempt: request.order.attempt() };
        let mut by = By::Hash;
        let mut joins = request.call.filter(|call| call.many().is_some() && extra == 0);
        loop {
            let answer = match (early.take(), joins) {
                (Some(early), _) => early,
                (None, Some(call)) => connection.send_call(options, call, by).await,
                (None, None) => {
                    let encode = |out: &mut Vec<u8>| {
                        if asking {
                            write_command(out, &[b"ASKING"]);
                        }
                        (request.encode)(out, by);
                    };
                    connection.send(options, encode).await
                }
            };
            let refused_together = answer.refused_together;
            let mut values = answer.all().map_err(|failure| match failure {
                Failure::NotExecuted(_) => SendError::NotSent(failure),
                _ => SendError::Unknown(failure),
            })?;
            values.drain(..extra);
            match &values[0] {
                Value::Error(reply) if by == By::Hash && classify(reply, node) == ErrorClass::NoScript => {
                    by = By::Text
                }
                // Perhaps because of one of the others: of a key that this user may not access, or that is on another
                // node.
                Value::Error(_) if refused_together => joins = None,
                _ => return Ok((values, connection)),
            }
        }
    }

    /// Backs off before the next try, since another node may take over. Fails if none can, or if no time is left.
    async fn back_off(
        &self,
        connections: &Connections,
        backoff: &mut Backoff,
        deadline: Instant,
        failure: Failure,
    ) -> Result<(), Failure> {
        let next = Instant::now() + backoff.failed();
        if !self.discovery.has_failover()
            || next >= deadline
            || matches!(failure, Failure::Refused(_) | Failure::RecentlyRestarted(..))
        {
            return Err(failure);
        }
        connections.sleep_until(next).await;
        Ok(())
    }
}

/// The outcome of a call sent after an unanswered attempt.
enum AfterAttempt {
    Answered(Vec<Value>),
    NotSent,
    /// Not answered, but it may have been executed.
    MaybeSent,
}

/// Why a call has no replies.
enum SendError {
    NoConnection(Failure),
    NotSent(Failure),
    Unknown(Failure),
}

pub(super) fn first(values: Vec<Value>) -> Value {
    values.into_iter().next().expect("at least one was asked for")
}
