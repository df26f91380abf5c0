//! The task of a subscriber connection: subscribes, delivers messages, and checks that a silent connection is alive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use tenure_core::backend::Backoff;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Timing;
use super::Transport;
use super::failure::Failure;
use super::resp::{Value, request};
use super::stream::Wire;
use super::subscriber::{Ask, Subscriber};

/// Runs the connection. If this future is dropped, even unpolled, the connection ends.
pub(super) fn listen(
    transport: Weak<Transport>,
    subscriber: Arc<Subscriber>,
    asked: UnboundedReceiver<Ask>,
    backoff: Arc<Mutex<Backoff>>,
) -> impl Future<Output = ()> {
    let dies = DiesWithRuntime(subscriber);
    async move { attend(transport, &dies.0, asked, &backoff).await }
}

async fn attend(
    transport: Weak<Transport>,
    subscriber: &Subscriber,
    asked: UnboundedReceiver<Ask>,
    backoff: &Mutex<Backoff>,
) {
    let delay = backoff.lock().unwrap_or_else(|e| e.into_inner()).delay();
    let (ended, served) = match connect(&transport, subscriber, delay).await {
        Err(failure) => (failure, false),
        Ok((wire, limit, timing)) => {
            let (sent, heard) = (VecDeque::new(), Instant::now());
            let mut task =
                Task { subscriber, wire, limit, timing, sent, heard, served: false, transport: &transport };
            let Err(why) = task.run(asked).await else { return };
            (Failure::NotExecuted(format!("{}: {why}", subscriber.to)), task.served)
        }
    };
    // Before anybody can reconnect. Backs off if the server accepts connections but confirms no subscription.
    let mut backoff = backoff.lock().unwrap_or_else(|e| e.into_inner());
    if served {
        backoff.worked();
    } else {
        backoff.failed();
    }
    drop(backoff);
    subscriber.die(ended);
}

async fn connect(
    transport: &Weak<Transport>,
    subscriber: &Subscriber,
    delay: Duration,
) -> Result<(Wire, Duration, Timing), Failure> {
    let transport =
        transport.upgrade().ok_or_else(|| Failure::NotExecuted(format!("{}: closed", subscriber.to)))?;
    let limit = transport.timeout;
    let delay = delay.min(limit / 2);
    tokio::time::sleep(delay).await;
    let (wire, mut hello) = transport.connector.connect(&subscriber.to, limit - delay).await?;
    transport.on_connect(&subscriber.to, &mut hello)?;
    Ok((wire, limit, transport.timing))
}

struct DiesWithRuntime(Arc<Subscriber>);

impl Drop for DiesWithRuntime {
    fn drop(&mut self) {
        self.0.die(Failure::NotExecuted(format!("{}: the runtime of this connection has ended", self.0.to)));
    }
}

struct Task<'a> {
    subscriber: &'a Subscriber,
    transport: &'a Weak<Transport>,
    wire: Wire,
    limit: Duration,
    timing: Timing,
    /// Unanswered requests: an error reply does not say which one it answers.
    sent: VecDeque<(Sent, Instant)>,
    heard: Instant,
    /// Whether any subscription was confirmed.
    served: bool,
}

#[derive(Debug)]
enum Sent {
    Subscribe(Vec<u8>),
    Unsubscribe(Vec<u8>),
    Ping,
}

impl Task<'_> {
    /// Returns `Ok` when the connection is not needed any more.
    async fn run(&mut self, mut asked: UnboundedReceiver<Ask>) -> Result<(), String> {
        loop {
            let next = self.next_look();
            tokio::select! {
                value = self.wire.read() => {
                    self.heard = Instant::now();
                    self.hear(value.map_err(|e| e.to_string())?)?;
                }
                ask = asked.recv() => {
                    let mut out = Vec::new();
                    let mut ask = ask;
                    while let Some(this) = ask {
                        match this {
                            Ask::Subscribe { channel, sharded } => self.subscribe(&mut out, channel, sharded),
                            Ask::Left => {}
                            Ask::End => return Ok(()),
                        }
                        ask = asked.try_recv().ok();
                    }
                    self.write(&out).await?;
                }
                () = tokio::time::sleep(next.saturating_duration_since(Instant::now())) => {
                    let mut out = Vec::new();
                    self.look(&mut out)?;
                    if self.sent.is_empty() && self.subscriber.end_if_unused() {
                        return Ok(());
                    }
                    self.write(&out).await?;
                }
            }
        }
    }

    async fn write(&mut self, out: &[u8]) -> Result<(), String> {
        match tokio::time::timeout(self.limit, self.wire.write(out)).await {
            Ok(written) => written.map_err(|e| e.to_string()),
            Err(_) => Err(format!("nothing could be sent within {:?}", self.limit)),
        }
    }

    fn subscribe(&mut self, out: &mut Vec<u8>, channel: Vec<u8>, sharded: bool) {
        let verb: &[u8] = if sharded { b"SSUBSCRIBE" } else { b"SUBSCRIBE" };
        request(out, &[verb, &channel]);
        self.sent.push_back((Sent::Subscribe(channel), Instant::now()));
    }

    /// When to wake up next without any input.
    fn next_look(&self) -> Instant {
        let over = self.subscriber.lock().next_over(self.timing.linger);
        // While a request is unanswered its timeout counts, not that of the silence, which may be over already.
        let answer = match self.sent.front() {
            Some((_, at)) => *at.max(&self.heard) + self.limit,
            None => self.heard + self.timing.silence,
        };
        over.map_or(answer, |over| over.min(answer))
    }

    fn look(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let now = Instant::now();
        if self.sent.front().is_some_and(|(_, at)| now >= *at.max(&self.heard) + self.limit) {
            return Err(format!("no answer within {:?}", self.limit));
        }
        let mut table = self.subscriber.lock();
        for (channel, entry) in table.take_over(now, self.timing.linger) {
            let verb: &[u8] = if entry.sharded { b"SUNSUBSCRIBE" } else { b"UNSUBSCRIBE" };
            request(out, &[verb, &channel]);
            self.sent.push_back((Sent::Unsubscribe(channel), now));
        }
        // Without channels the connection ends, and need not be pinged.
        if now >= self.heard + self.timing.silence && self.sent.is_empty() && !table.channels.is_empty() {
            request(out, &[b"PING"]);
            self.sent.push_back((Sent::Ping, now));
        }
        Ok(())
    }

    fn hear(&mut self, value: Value) -> Result<(), String> {
        let words = match value {
            Value::Array(words) => words,
            Value::Error(reply) => {
                let Some((Sent::Subscribe(channel), _)) = self.sent.pop_front() else {
                    return Err(reply.message);
                };
                let Some(entry) = self.subscriber.lock().channels.remove(&channel) else { return Ok(()) };
                let transport = self.transport.upgrade();
                let failure =
                    transport.map(|transport| transport.judge_for_channel(&reply, &self.subscriber.to));
                let failure = failure.unwrap_or(Failure::Refused(reply));
                entry.waiting.into_iter().for_each(|told| drop(told.send(Err(failure.clone()))));
                entry.mailboxes.iter().for_each(|m| m.close());
                return Ok(());
            }
            // Before the first subscription a ping is answered by a simple string.
            Value::Simple(_) => {
                self.sent.pop_front();
                return Ok(());
            }
            _ => return Err("a reply that nobody asked for".to_owned()),
        };
        let kind = words.first().and_then(Value::bytes).unwrap_or_default();
        let channel = words.get(1).and_then(Value::bytes).unwrap_or_default();
        match kind {
            b"message" | b"smessage" => {
                let message = words.get(2).and_then(Value::bytes).unwrap_or_default();
                let table = self.subscriber.lock();
                let mailboxes = table.channels.get(channel).into_iter().flat_map(|entry| &entry.mailboxes);
                let wake: Vec<Waker> = mailboxes.filter_map(|m| m.put(message)).collect();
                drop(table);
                wake.into_iter().for_each(Waker::wake);
            }
            b"subscribe" | b"ssubscribe" => {
                self.served = true;
                self.sent.pop_front();
                let mut table = self.subscriber.lock();
                let waiting = table.channels.get_mut(channel).map(|entry| {
                    entry.confirmed = true;
                    std::mem::take(&mut entry.waiting)
                });
                drop(table);
                waiting.into_iter().flatten().for_each(|told| drop(told.send(Ok(()))));
            }
            b"unsubscribe" | b"sunsubscribe" => {
                if matches!(self.sent.front(), Some((Sent::Unsubscribe(asked), _)) if asked == channel) {
                    self.sent.pop_front();
                    return Ok(());
                }
                // The slot has migrated, and the server unsubscribed us.
                let entry = self.subscriber.lock().channels.remove(channel);
                if let Some(transport) = self.transport.upgrade() {
                    transport.map.doubt(&self.subscriber.to);
                }
                entry.into_iter().flat_map(|e| e.mailboxes).for_each(|m| m.close());
            }
            b"pong" => {
                self.sent.pop_front();
            }
            _ => return Err("a push of an unknown kind".to_owned()),
        }
        Ok(())
    }
}
