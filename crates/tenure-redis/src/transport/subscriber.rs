//! One subscriber connection for all channels of a runtime on one node. When it ends, its mailboxes are closed, and
//! each subscription resubscribes: after a broken connection, a failover or a slot migration alike.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tenure_core::backend::Backoff;
use tokio::sync::{mpsc, oneshot};

use super::Transport;
use super::connections::Connections;
use super::failure::Failure;
use super::listen::listen;
use super::mailbox::Mailbox;
use super::reconnect_backoff;
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
            transport.runtimes.ended(connections);
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
