//! One subscriber connection for all channels of a runtime on one node. Its task subscribes, delivers messages, and checks
//! that a silent connection is alive. When the connection ends, its mailboxes are closed, and each subscription
//! resubscribes: after a broken connection, a failover or a slot migration alike.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};

use tenure_core::backend::{Backoff, Reason};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::connect::Connector;
use super::connections::Connections;
use super::failure::Failure;
use super::subscription::Mailbox;
use super::wire::{Framed, Value, write_command};
use super::{Timing, Transport, reconnect_backoff};
use crate::Address;
use crate::nat::Place;

type ConfirmationSender = oneshot::Sender<Result<(), Failure>>;
pub(super) type Confirmation = oneshot::Receiver<Result<(), Failure>>;
type ByNode = HashMap<Address, (Arc<Subscriber>, Arc<Mutex<Backoff>>)>;

#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) to: Address,
    /// The server in errors.
    place: Place,
    /// How to connect to a sentinel; `None` for a Redis server.
    sentinel: Option<Connector>,
    table: Mutex<Table>,
    commands: mpsc::UnboundedSender<Command>,
}

#[derive(Debug, Default)]
struct Table {
    channels: HashMap<Vec<u8>, Channel>,
    /// Channels whose last subscriber left, and when, in approximate order. Some may have subscribers again.
    unused: VecDeque<(Instant, Vec<u8>)>,
    closed: Option<Failure>,
}

#[derive(Debug, Default)]
struct Channel {
    sharded: bool,
    confirmed: bool,
    waiting: Vec<ConfirmationSender>,
    mailboxes: Vec<Arc<Mailbox>>,
    /// Since when it has no subscriber.
    unused_since: Option<Instant>,
    /// Whether it is in `Table::unused`.
    is_listed: bool,
}

impl Table {
    /// Records that the last subscriber left this channel.
    fn mark_unused(&mut self, channel: &[u8], now: Instant) {
        let Some(entry) = self.channels.get_mut(channel) else { return };
        entry.unused_since = Some(now);
        if !std::mem::replace(&mut entry.is_listed, true) {
            self.unused.push_back((now, channel.to_vec()));
        }
    }

    /// When the next channel may have to be unsubscribed.
    fn next_expiry(&self, after: Duration) -> Option<Instant> {
        self.unused.front().map(|(since, _)| *since + after)
    }

    /// Removes the channels that have had no subscriber for `after`.
    fn take_expired(&mut self, now: Instant, after: Duration) -> Vec<(Vec<u8>, Channel)> {
        let mut over = Vec::new();
        while self.next_expiry(after).is_some_and(|at| now >= at)
            && let Some((_, channel)) = self.unused.pop_front()
        {
            let Some(entry) = self.channels.get_mut(&channel) else { continue };
            let Some(since) = entry.unused_since else {
                entry.is_listed = false;
                continue;
            };
            if !entry.confirmed {
                // It cannot be unsubscribed before the server has confirmed it.
                self.unused.push_back((now, channel));
            } else if now < since + after {
                self.unused.push_back((since, channel));
            } else if let Some(gone) = self.channels.remove_entry(&channel) {
                over.push(gone);
            }
        }
        over
    }
}

#[derive(Debug)]
enum Command {
    Subscribe {
        channel: Vec<u8>,
        sharded: bool,
    },
    /// Some channel has lost its last subscriber.
    ChannelUnused,
    Close,
}

impl Subscriber {
    /// Starts a connection on that runtime, with which it ends.
    pub(super) fn start(
        transport: &Arc<Transport>,
        runtime: &Handle,
        to: &Address,
        sentinel: Option<Connector>,
        backoff: Arc<Mutex<Backoff>>,
    ) -> Arc<Self> {
        let (commands, receiver) = mpsc::unbounded_channel();
        let place = sentinel.as_ref().unwrap_or(&transport.connector).place(to);
        let subscriber =
            Arc::new(Self { to: to.clone(), place, sentinel, table: Mutex::default(), commands });
        runtime.spawn(run(Arc::downgrade(transport), subscriber.clone(), receiver, backoff));
        subscriber
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a subscriber. Also returns the server's confirmation to wait for, if it is pending. `None` once the
    /// connection has ended.
    pub(super) fn register(
        self: &Arc<Self>,
        channel: &[u8],
        sharded: bool,
    ) -> Option<(Registration, Option<Confirmation>)> {
        let mut table = self.lock();
        if table.closed.is_some() {
            return None;
        }
        if !table.channels.contains_key(channel) {
            let _ = self.commands.send(Command::Subscribe { channel: channel.to_vec(), sharded });
        }
        let entry = table.channels.entry(channel.to_vec()).or_default();
        (entry.sharded, entry.unused_since) = (sharded, None);
        let mailbox = Arc::new(Mailbox::default());
        entry.mailboxes.push(mailbox.clone());
        let confirmation = (!entry.confirmed).then(|| {
            let (sender, confirmation) = oneshot::channel();
            entry.waiting.push(sender);
            confirmation
        });
        Some((Registration { subscriber: self.clone(), channel: channel.to_vec(), mailbox }, confirmation))
    }

    /// Ends the connection: all subscriptions resubscribe.
    fn close(&self, why: Failure) {
        let mut table = self.lock();
        if table.closed.is_some() {
            return;
        }
        table.closed = Some(why.clone());
        let channels = std::mem::take(&mut table.channels);
        drop(table);
        for channel in channels.into_values() {
            channel.waiting.into_iter().for_each(|sender| drop(sender.send(Err(why.clone()))));
            channel.mailboxes.iter().for_each(|m| m.close());
        }
        let _ = self.commands.send(Command::Close);
    }

    /// Ends the connection if there is no subscriber, under the lock, so that none can join in between.
    fn close_if_unused(&self) -> bool {
        let mut table = self.lock();
        if table.channels.is_empty() {
            table.closed = Some(Failure::not_executed(format!("{}: nobody listened", self.to)));
        }
        table.closed.is_some()
    }

    fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }
}

/// One subscriber of a channel; unsubscribes on drop.
#[derive(Debug)]
pub(crate) struct Registration {
    subscriber: Arc<Subscriber>,
    channel: Vec<u8>,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.subscriber.lock();
        let Some(entry) = table.channels.get_mut(&self.channel) else { return };
        entry.mailboxes.retain(|m| !Arc::ptr_eq(m, &self.mailbox));
        if entry.mailboxes.is_empty() {
            table.mark_unused(&self.channel, Instant::now());
            let _ = self.subscriber.commands.send(Command::ChannelUnused);
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
    ) -> Result<Registration, Failure> {
        let register = || self.subscriber(transport, connections, node).register(channel, sharded);
        // The existing connection may just have ended. If a new one has ended too, its runtime does not run tasks any
        // more.
        let Some((registration, confirmation)) = register().or_else(register) else {
            transport.runtimes.remove(connections);
            return Err(Failure::not_executed(format!("{node}: the runtime of this connection has ended")));
        };
        let Some(confirmation) = confirmation else { return Ok(registration) };
        match connections.until(deadline, confirmation).await {
            Some(Ok(confirmed)) => confirmed.map(|()| registration),
            Some(Err(_)) => Err(Failure::not_executed(format!("{node}: the connection has ended"))),
            None => {
                let why = Reason::timed_out("no subscription in time");
                Err(Failure::NotExecuted(why.at(transport.place(node))))
            }
        }
    }

    fn subscriber(
        &self,
        transport: &Arc<Transport>,
        connections: &Arc<Connections>,
        node: &Address,
    ) -> Arc<Subscriber> {
        let mut subscribers = self.lock();
        if let Some((subscriber, _)) = subscribers.get(node).filter(|(subscriber, _)| !subscriber.is_closed())
        {
            return subscriber.clone();
        }
        let backoff = subscribers.get(node).map(|(_, backoff)| backoff.clone());
        let backoff = backoff.unwrap_or_else(|| Arc::new(Mutex::new(reconnect_backoff())));
        let subscriber = Subscriber::start(transport, connections.handle(), node, None, backoff.clone());
        subscribers.insert(node.clone(), (subscriber.clone(), backoff));
        subscriber
    }

    pub(crate) fn close(&self, node: &Address, why: &str) {
        let subscriber = self.lock().remove(node);
        if let Some((subscriber, _)) = subscriber {
            subscriber.close(Failure::not_executed(format!("{node}: {why}")));
        }
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        for (node, (subscriber, _)) in std::mem::take(&mut *self.lock()) {
            subscriber.close(Failure::not_executed(format!("{node}: the connections were closed")));
        }
    }
}

/// Runs the connection. If this future is dropped, even unpolled, the connection ends.
fn run(
    transport: Weak<Transport>,
    subscriber: Arc<Subscriber>,
    commands: mpsc::UnboundedReceiver<Command>,
    backoff: Arc<Mutex<Backoff>>,
) -> impl Future<Output = ()> {
    let closer = CloseOnDrop(subscriber);
    async move { run_connection(transport, &closer.0, commands, &backoff).await }
}

async fn run_connection(
    transport: Weak<Transport>,
    subscriber: &Subscriber,
    commands: mpsc::UnboundedReceiver<Command>,
    backoff: &Mutex<Backoff>,
) {
    let delay = backoff.lock().unwrap_or_else(|e| e.into_inner()).delay();
    let (failure, confirmed_any) = match connect(&transport, subscriber, delay).await {
        Err(failure) => (failure, false),
        Ok((framed, limit, timing)) => {
            let (unanswered, last_received) = (VecDeque::new(), Instant::now());
            let mut task = Task {
                subscriber,
                framed,
                limit,
                timing,
                unanswered,
                last_received,
                confirmed_any: false,
                transport: &transport,
            };
            let Err(why) = task.run(commands).await else { return };
            (Failure::NotExecuted(why.at(&subscriber.place)), task.confirmed_any)
        }
    };
    // Before anybody can reconnect. Backs off if the server accepts connections but confirms no subscription.
    let mut backoff = backoff.lock().unwrap_or_else(|e| e.into_inner());
    if confirmed_any {
        backoff.worked();
    } else {
        backoff.failed();
    }
    drop(backoff);
    subscriber.close(failure);
}

async fn connect(
    transport: &Weak<Transport>,
    subscriber: &Subscriber,
    delay: Duration,
) -> Result<(Framed, Duration, Timing), Failure> {
    let transport =
        transport.upgrade().ok_or_else(|| Failure::not_executed(format!("{}: closed", subscriber.to)))?;
    let limit = transport.timeout;
    let delay = delay.min(limit / 2);
    tokio::time::sleep(delay).await;
    let connector = subscriber.sentinel.as_ref().unwrap_or(&transport.connector);
    let (framed, mut info) = connector.connect(&subscriber.to, limit - delay).await?;
    if subscriber.sentinel.is_none() {
        transport.on_connect(&subscriber.to, &mut info)?;
    }
    Ok((framed, limit, transport.timing))
}

struct CloseOnDrop(Arc<Subscriber>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0
            .close(Failure::not_executed(format!("{}: the runtime of this connection has ended", self.0.to)));
    }
}

struct Task<'a> {
    subscriber: &'a Subscriber,
    transport: &'a Weak<Transport>,
    framed: Framed,
    limit: Duration,
    timing: Timing,
    /// Unanswered requests: an error reply does not say which one it answers.
    unanswered: VecDeque<(Request, Instant)>,
    last_received: Instant,
    /// Whether any subscription was confirmed.
    confirmed_any: bool,
}

#[derive(Debug)]
enum Request {
    Subscribe(Vec<u8>),
    Unsubscribe(Vec<u8>),
    Ping,
}

impl Task<'_> {
    /// Returns `Ok` when the connection is not needed any more.
    async fn run(&mut self, mut commands: mpsc::UnboundedReceiver<Command>) -> Result<(), Reason> {
        loop {
            let next = self.next_check();
            tokio::select! {
                value = self.framed.read() => {
                    self.last_received = Instant::now();
                    self.handle_reply(value?)?;
                }
                command = commands.recv() => {
                    let mut out = Vec::new();
                    let mut command = command;
                    while let Some(this) = command {
                        match this {
                            Command::Subscribe { channel, sharded } => self.subscribe(&mut out, channel, sharded),
                            Command::ChannelUnused => {}
                            Command::Close => return Ok(()),
                        }
                        command = commands.try_recv().ok();
                    }
                    self.write(&out).await?;
                }
                () = tokio::time::sleep(next.saturating_duration_since(Instant::now())) => {
                    let mut out = Vec::new();
                    self.check_timers(&mut out)?;
                    if self.unanswered.is_empty() && self.subscriber.close_if_unused() {
                        return Ok(());
                    }
                    self.write(&out).await?;
                }
            }
        }
    }

    async fn write(&mut self, out: &[u8]) -> Result<(), Reason> {
        match tokio::time::timeout(self.limit, self.framed.write(out)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(Reason::timed_out(format!("nothing could be sent within {:?}", self.limit))),
        }
    }

    fn subscribe(&mut self, out: &mut Vec<u8>, channel: Vec<u8>, sharded: bool) {
        let verb: &[u8] = if sharded { b"SSUBSCRIBE" } else { b"SUBSCRIBE" };
        write_command(out, &[verb, &channel]);
        self.unanswered.push_back((Request::Subscribe(channel), Instant::now()));
    }

    /// When to wake up next without any input.
    fn next_check(&self) -> Instant {
        let over = self.subscriber.lock().next_expiry(self.timing.unsubscribe_after);
        // While a request is unanswered its timeout counts, not that of the silence, which may be over already.
        let answer = match self.unanswered.front() {
            Some((_, at)) => *at.max(&self.last_received) + self.limit,
            None => self.last_received + self.timing.ping_after,
        };
        over.map_or(answer, |over| over.min(answer))
    }

    fn check_timers(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        let now = Instant::now();
        if self.unanswered.front().is_some_and(|(_, at)| now >= *at.max(&self.last_received) + self.limit) {
            return Err(Reason::timed_out(format!("no answer within {:?}", self.limit)));
        }
        let mut table = self.subscriber.lock();
        for (channel, entry) in table.take_expired(now, self.timing.unsubscribe_after) {
            let verb: &[u8] = if entry.sharded { b"SUNSUBSCRIBE" } else { b"UNSUBSCRIBE" };
            write_command(out, &[verb, &channel]);
            self.unanswered.push_back((Request::Unsubscribe(channel), now));
        }
        // Without channels the connection ends, and need not be pinged.
        if now >= self.last_received + self.timing.ping_after
            && self.unanswered.is_empty()
            && !table.channels.is_empty()
        {
            write_command(out, &[b"PING"]);
            self.unanswered.push_back((Request::Ping, now));
        }
        Ok(())
    }

    fn handle_reply(&mut self, value: Value) -> Result<(), Reason> {
        let words = match value {
            Value::Array(words) => words,
            Value::Error(reply) => {
                let Some((Request::Subscribe(channel), _)) = self.unanswered.pop_front() else {
                    return Err(reply.message.into());
                };
                let Some(entry) = self.subscriber.lock().channels.remove(&channel) else { return Ok(()) };
                let transport = self.transport.upgrade();
                let failure =
                    transport.map(|transport| transport.subscription_failure(&reply, &self.subscriber.to));
                let failure = failure.unwrap_or(Failure::Refused(reply));
                entry.waiting.into_iter().for_each(|sender| drop(sender.send(Err(failure.clone()))));
                entry.mailboxes.iter().for_each(|m| m.close());
                return Ok(());
            }
            // Before the first subscription a ping is answered by a simple string.
            Value::Simple(_) => {
                self.unanswered.pop_front();
                return Ok(());
            }
            _ => return Err("the server sent a reply to no request".into()),
        };
        let kind = words.first().and_then(Value::bytes).unwrap_or_default();
        let channel = words.get(1).and_then(Value::bytes).unwrap_or_default();
        match kind {
            b"message" | b"smessage" => {
                let message = words.get(2).and_then(Value::bytes).unwrap_or_default();
                let table = self.subscriber.lock();
                let mailboxes = table.channels.get(channel).into_iter().flat_map(|entry| &entry.mailboxes);
                let wake: Vec<Waker> = mailboxes.filter_map(|m| m.push(message)).collect();
                drop(table);
                wake.into_iter().for_each(Waker::wake);
            }
            b"subscribe" | b"ssubscribe" => {
                self.confirmed_any = true;
                self.unanswered.pop_front();
                let mut table = self.subscriber.lock();
                let waiting = table.channels.get_mut(channel).map(|entry| {
                    entry.confirmed = true;
                    std::mem::take(&mut entry.waiting)
                });
                drop(table);
                waiting.into_iter().flatten().for_each(|sender| drop(sender.send(Ok(()))));
            }
            b"unsubscribe" | b"sunsubscribe" => {
                if matches!(self.unanswered.front(), Some((Request::Unsubscribe(asked), _)) if asked == channel)
                {
                    self.unanswered.pop_front();
                    return Ok(());
                }
                // The slot has migrated, and the server unsubscribed us.
                let entry = self.subscriber.lock().channels.remove(channel);
                if let Some(transport) = self.transport.upgrade() {
                    transport.discovery.invalidate(&self.subscriber.to);
                }
                entry.into_iter().flat_map(|e| e.mailboxes).for_each(|m| m.close());
            }
            b"pong" => {
                self.unanswered.pop_front();
            }
            _ => return Err("the server sent a push message of an unknown kind".into()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(5);

    fn table(names: &[&[u8]]) -> Table {
        let confirmed = || Channel { confirmed: true, ..Channel::default() };
        Table { channels: names.iter().map(|n| (n.to_vec(), confirmed())).collect(), ..Table::default() }
    }

    fn over(table: &mut Table, at: Instant) -> Vec<Vec<u8>> {
        table.take_expired(at, AFTER).into_iter().map(|(channel, _)| channel).collect()
    }

    #[test]
    fn channels_are_given_up_some_time_after_they_were_left() {
        let mut table = table(&[b"stays", b"first", b"second"]);
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(table.next_expiry(AFTER), None);
        table.mark_unused(b"first", now);
        table.mark_unused(b"second", now + second);
        assert_eq!(table.next_expiry(AFTER), Some(now + AFTER));
        assert!(over(&mut table, now + AFTER - second).is_empty());
        assert_eq!(over(&mut table, now + AFTER), [b"first"]);
        assert_eq!(table.next_expiry(AFTER), Some(now + second + AFTER));
        assert_eq!(over(&mut table, now + 2 * AFTER), [b"second"]);
        assert_eq!((table.next_expiry(AFTER), table.channels.len()), (None, 1));
    }

    #[test]
    fn a_channel_left_again_and_again_is_kept_in_mind_once() {
        let mut table = table(&[b"c"]);
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for n in 0..4 {
            table.mark_unused(b"c", now + n * second);
            assert_eq!(table.unused.len(), 1);
        }
        assert!(over(&mut table, now + AFTER).is_empty(), "left a moment ago");
        assert_eq!(table.next_expiry(AFTER), Some(now + 3 * second + AFTER));
        // A subscriber joins and leaves again.
        table.channels.get_mut(&b"c"[..]).unwrap().unused_since = None;
        assert!(over(&mut table, now + 3 * AFTER).is_empty() && table.unused.is_empty());
        table.mark_unused(b"c", now + 3 * AFTER);
        assert_eq!(over(&mut table, now + 4 * AFTER), [b"c"]);
    }

    #[test]
    fn a_channel_that_is_not_confirmed_is_not_left() {
        let mut table = table(&[b"c"]);
        let now = Instant::now();
        table.channels.get_mut(&b"c"[..]).unwrap().confirmed = false;
        table.mark_unused(b"c", now);
        assert!(over(&mut table, now + AFTER).is_empty());
        table.channels.get_mut(&b"c"[..]).unwrap().confirmed = true;
        assert_eq!(over(&mut table, now + 2 * AFTER), [b"c"]);
    }
}
