//! One subscriber connection for all channels of a runtime on one node. Its task subscribes, delivers messages, and checks
//! that a silent connection is alive. When the connection ends, its mailboxes are closed, and each subscription
//! resubscribes: after a broken connection, a failover or a slot migration alike.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use tenure_core::backend::Backoff;
use tokio::sync::{mpsc, oneshot};

use super::connections::Connections;
use super::failure::Failure;
use super::subscription::Mailbox;
use super::wire::{Value, Wire, request};
use super::{Timing, Transport, reconnect_backoff};
use crate::Address;

pub(super) type Told = oneshot::Sender<Result<(), Failure>>;
type Word = oneshot::Receiver<Result<(), Failure>>;
type ByNode = HashMap<Address, (Arc<Subscriber>, Arc<Mutex<Backoff>>)>;

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) to: Address,
    table: Mutex<Table>,
    asks: mpsc::UnboundedSender<Ask>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) channels: HashMap<Vec<u8>, Channel>,
    /// Channels whose last subscriber left, and when, in approximate order. Some may have subscribers again.
    left: VecDeque<(Instant, Vec<u8>)>,
    dead: Option<Failure>,
}

#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) sharded: bool,
    pub(super) confirmed: bool,
    pub(super) waiting: Vec<Told>,
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
    /// Since when it has no subscriber.
    empty: Option<Instant>,
    /// Whether it is in `Table::left`.
    listed: bool,
}

impl Table {
    /// Records that the last subscriber left this channel.
    fn leave(&mut self, channel: &[u8], now: Instant) {
        let Some(entry) = self.channels.get_mut(channel) else { return };
        entry.empty = Some(now);
        if !std::mem::replace(&mut entry.listed, true) {
            self.left.push_back((now, channel.to_vec()));
        }
    }

    /// When the next channel may have to be unsubscribed.
    pub(super) fn next_over(&self, linger: Duration) -> Option<Instant> {
        self.left.front().map(|(since, _)| *since + linger)
    }

    /// Removes the channels that have had no subscriber for `linger`.
    pub(super) fn take_over(&mut self, now: Instant, linger: Duration) -> Vec<(Vec<u8>, Channel)> {
        let mut over = Vec::new();
        while self.next_over(linger).is_some_and(|at| now >= at)
            && let Some((_, channel)) = self.left.pop_front()
        {
            let Some(entry) = self.channels.get_mut(&channel) else { continue };
            let Some(since) = entry.empty else {
                entry.listed = false;
                continue;
            };
            if !entry.confirmed {
                // It cannot be unsubscribed before the server has confirmed it.
                self.left.push_back((now, channel));
            } else if now < since + linger {
                self.left.push_back((since, channel));
            } else if let Some(gone) = self.channels.remove_entry(&channel) {
                over.push(gone);
            }
        }
        over
    }
}

#[derive(Debug)]
pub(super) enum Ask {
    Subscribe {
        channel: Vec<u8>,
        sharded: bool,
    },
    /// Some channel has lost its last subscriber.
    Left,
    End,
}

impl Subscriber {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a subscriber. Also returns the server's confirmation to wait for, if it is pending. `None` once the
    /// connection has ended.
    fn join(self: &Arc<Self>, channel: &[u8], sharded: bool) -> Option<(Seat, Option<Word>)> {
        let mut table = self.lock();
        if table.dead.is_some() {
            return None;
        }
        if !table.channels.contains_key(channel) {
            let _ = self.asks.send(Ask::Subscribe { channel: channel.to_vec(), sharded });
        }
        let entry = table.channels.entry(channel.to_vec()).or_default();
        (entry.sharded, entry.empty) = (sharded, None);
        let mailbox = Arc::new(Mailbox::default());
        entry.mailboxes.push(mailbox.clone());
        let word = (!entry.confirmed).then(|| {
            let (told, word) = oneshot::channel();
            entry.waiting.push(told);
            word
        });
        Some((Seat { subscriber: self.clone(), channel: channel.to_vec(), mailbox }, word))
    }

    /// Ends the connection: all subscriptions resubscribe.
    pub(super) fn die(&self, why: Failure) {
        let mut table = self.lock();
        if table.dead.is_some() {
            return;
        }
        table.dead = Some(why.clone());
        let channels = std::mem::take(&mut table.channels);
        drop(table);
        for channel in channels.into_values() {
            channel.waiting.into_iter().for_each(|told| drop(told.send(Err(why.clone()))));
            channel.mailboxes.iter().for_each(|m| m.close());
        }
        let _ = self.asks.send(Ask::End);
    }

    /// Ends the connection if there is no subscriber, under the lock, so that none can join in between.
    pub(super) fn end_if_unused(&self) -> bool {
        let mut table = self.lock();
        if table.channels.is_empty() {
            table.dead = Some(Failure::NotExecuted(format!("{}: nobody listened", self.to)));
        }
        table.dead.is_some()
    }

    pub(super) fn is_dead(&self) -> bool {
        self.lock().dead.is_some()
    }
}

/// One subscriber of a channel; unsubscribes on drop.
#[derive(Debug)]
pub(crate) struct Seat {
    subscriber: Arc<Subscriber>,
    channel: Vec<u8>,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.subscriber.lock();
        let Some(entry) = table.channels.get_mut(&self.channel) else { return };
        entry.mailboxes.retain(|m| !Arc::ptr_eq(m, &self.mailbox));
        if entry.mailboxes.is_empty() {
            table.leave(&self.channel, Instant::now());
            let _ = self.subscriber.asks.send(Ask::Left);
        }
    }
}

/// The subscriber connections of one runtime.
#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<ByNode>);

impl Subscribers {
    fn lock(&self) -> MutexGuard<'_, ByNode> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Subscribes to a channel on that node. Returns once the server has confirmed it.
    pub(crate) async fn subscribe(
        &self,
        transport: &Arc<Transport>,
        connections: &Arc<Connections>,
        node: &Address,
        channel: &[u8],
        sharded: bool,
        deadline: Instant,
    ) -> Result<Seat, Failure> {
        let join = || self.subscriber(transport, connections, node).join(channel, sharded);
        // The existing connection may just have ended. If a new one has ended too, its runtime does not run tasks any
        // more.
        let Some((seat, word)) = join().or_else(join) else {
            transport.runtimes.remove(connections);
            return Err(Failure::NotExecuted(format!("{node}: the runtime of this connection has ended")));
        };
        let Some(word) = word else { return Ok(seat) };
        match connections.until(deadline, word).await {
            Some(Ok(confirmed)) => confirmed.map(|()| seat),
            Some(Err(_)) => Err(Failure::NotExecuted(format!("{node}: the connection has ended"))),
            None => Err(Failure::NotExecuted(format!("{node}: no subscription in time"))),
        }
    }

    fn subscriber(
        &self,
        transport: &Arc<Transport>,
        connections: &Arc<Connections>,
        node: &Address,
    ) -> Arc<Subscriber> {
        let mut subscribers = self.lock();
        if let Some((subscriber, _)) = subscribers.get(node).filter(|(subscriber, _)| !subscriber.is_dead()) {
            return subscriber.clone();
        }
        let backoff = subscribers.get(node).map(|(_, backoff)| backoff.clone());
        let backoff = backoff.unwrap_or_else(|| Arc::new(Mutex::new(reconnect_backoff())));
        let (asks, asked) = mpsc::unbounded_channel();
        let subscriber = Arc::new(Subscriber { to: node.clone(), table: Mutex::default(), asks });
        subscribers.insert(node.clone(), (subscriber.clone(), backoff.clone()));
        drop(subscribers);
        connections.handle().spawn(listen(Arc::downgrade(transport), subscriber.clone(), asked, backoff));
        subscriber
    }

    pub(crate) fn close(&self, node: &Address, why: &str) {
        let subscriber = self.lock().remove(node);
        if let Some((subscriber, _)) = subscriber {
            subscriber.die(Failure::NotExecuted(format!("{node}: {why}")));
        }
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        for (node, (subscriber, _)) in std::mem::take(&mut *self.lock()) {
            subscriber.die(Failure::NotExecuted(format!("{node}: the connections were closed")));
        }
    }
}

/// Runs the connection. If this future is dropped, even unpolled, the connection ends.
fn listen(
    transport: Weak<Transport>,
    subscriber: Arc<Subscriber>,
    asked: mpsc::UnboundedReceiver<Ask>,
    backoff: Arc<Mutex<Backoff>>,
) -> impl Future<Output = ()> {
    let dies = DiesWithRuntime(subscriber);
    async move { attend(transport, &dies.0, asked, &backoff).await }
}

async fn attend(
    transport: Weak<Transport>,
    subscriber: &Subscriber,
    asked: mpsc::UnboundedReceiver<Ask>,
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
    async fn run(&mut self, mut asked: mpsc::UnboundedReceiver<Ask>) -> Result<(), String> {
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
                    transport.map(|transport| transport.subscription_failure(&reply, &self.subscriber.to));
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

#[cfg(test)]
mod tests {
    use super::*;

    const LINGER: Duration = Duration::from_secs(5);

    fn table(names: &[&[u8]]) -> Table {
        let confirmed = || Channel { confirmed: true, ..Channel::default() };
        Table { channels: names.iter().map(|n| (n.to_vec(), confirmed())).collect(), ..Table::default() }
    }

    fn over(table: &mut Table, at: Instant) -> Vec<Vec<u8>> {
        table.take_over(at, LINGER).into_iter().map(|(channel, _)| channel).collect()
    }

    #[test]
    fn channels_are_given_up_some_time_after_they_were_left() {
        let mut table = table(&[b"stays", b"first", b"second"]);
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(table.next_over(LINGER), None);
        table.leave(b"first", now);
        table.leave(b"second", now + second);
        assert_eq!(table.next_over(LINGER), Some(now + LINGER));
        assert!(over(&mut table, now + LINGER - second).is_empty());
        assert_eq!(over(&mut table, now + LINGER), [b"first"]);
        assert_eq!(table.next_over(LINGER), Some(now + second + LINGER));
        assert_eq!(over(&mut table, now + 2 * LINGER), [b"second"]);
        assert_eq!((table.next_over(LINGER), table.channels.len()), (None, 1));
    }

    #[test]
    fn a_channel_left_again_and_again_is_kept_in_mind_once() {
        let mut table = table(&[b"c"]);
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for n in 0..4 {
            table.leave(b"c", now + n * second);
            assert_eq!(table.left.len(), 1);
        }
        assert!(over(&mut table, now + LINGER).is_empty(), "left a moment ago");
        assert_eq!(table.next_over(LINGER), Some(now + 3 * second + LINGER));
        // A subscriber joins and leaves again.
        table.channels.get_mut(&b"c"[..]).unwrap().empty = None;
        assert!(over(&mut table, now + 3 * LINGER).is_empty() && table.left.is_empty());
        table.leave(b"c", now + 3 * LINGER);
        assert_eq!(over(&mut table, now + 4 * LINGER), [b"c"]);
    }

    #[test]
    fn a_channel_that_is_not_confirmed_is_not_left() {
        let mut table = table(&[b"c"]);
        let now = Instant::now();
        table.channels.get_mut(&b"c"[..]).unwrap().confirmed = false;
        table.leave(b"c", now);
        assert!(over(&mut table, now + LINGER).is_empty());
        table.channels.get_mut(&b"c"[..]).unwrap().confirmed = true;
        assert_eq!(over(&mut table, now + 2 * LINGER), [b"c"]);
    }
}
