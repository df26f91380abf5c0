//! One connection for all channels that a runtime listens to on one node. When it ends, its mailboxes are closed, and
//! each subscription finds its place anew: after a cut, a fail-over or a move of its slot alike.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;
use super::home::Home;
use super::hub::Hub;
use super::listen::listen;
use super::mailbox::Mailbox;
use super::pause::Pause;
use crate::Address;

pub(super) type Told = oneshot::Sender<Result<(), Failure>>;
type Word = oneshot::Receiver<Result<(), Failure>>;
type ByNode = HashMap<Address, (Arc<Ear>, Arc<Mutex<Pause>>)>;

#[derive(Debug)]
pub(crate) struct Ear {
    pub(crate) to: Address,
    table: Mutex<Table>,
    asks: mpsc::UnboundedSender<Ask>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) channels: HashMap<Vec<u8>, Channel>,
    dead: Option<Failure>,
}

#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) sharded: bool,
    pub(super) confirmed: bool,
    pub(super) waiting: Vec<Told>,
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
    /// Since when nobody listens.
    pub(super) empty: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Ask {
    Subscribe {
        channel: Vec<u8>,
        sharded: bool,
    },
    /// Nobody listens to some channel any more.
    Left,
    End,
}

impl Ear {
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A place among those who listen, and the word of the server to wait for. `None` once it has ended.
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
        Some((Seat { ear: self.clone(), channel: channel.to_vec(), mailbox }, word))
    }

    /// Ends: everybody finds a new place.
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

    /// Ends if nobody listens; so that nobody can join in between.
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

/// The place of one subscription.
#[derive(Debug)]
pub(crate) struct Seat {
    ear: Arc<Ear>,
    channel: Vec<u8>,
    pub(crate) mailbox: Arc<Mailbox>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.ear.lock();
        let Some(entry) = table.channels.get_mut(&self.channel) else { return };
        entry.mailboxes.retain(|m| !Arc::ptr_eq(m, &self.mailbox));
        if entry.mailboxes.is_empty() {
            entry.empty = Some(Instant::now());
            let _ = self.ear.asks.send(Ask::Left);
        }
    }
}

/// The ears of one runtime.
#[derive(Debug, Default)]
pub(crate) struct Ears(Mutex<ByNode>);

impl Ears {
    fn lock(&self) -> MutexGuard<'_, ByNode> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A place at the channel of that node, once the server has confirmed it.
    pub(crate) async fn subscribe(
        &self,
        hub: &Arc<Hub>,
        home: &Arc<Home>,
        node: &Address,
        channel: &[u8],
        sharded: bool,
        deadline: Instant,
    ) -> Result<Seat, Failure> {
        let (seat, word) = loop {
            if let Some(joined) = self.ear(hub, home, node).join(channel, sharded) {
                break joined;
            }
        };
        let Some(word) = word else { return Ok(seat) };
        match home.until(deadline, word).await {
            Some(Ok(confirmed)) => confirmed.map(|()| seat),
            Some(Err(_)) => Err(Failure::NotExecuted(format!("{node}: the connection has ended"))),
            None => Err(Failure::NotExecuted(format!("{node}: no subscription in time"))),
        }
    }

    fn ear(&self, hub: &Arc<Hub>, home: &Arc<Home>, node: &Address) -> Arc<Ear> {
        let mut ears = self.lock();
        if let Some((ear, _)) = ears.get(node).filter(|(ear, _)| !ear.is_dead()) {
            return ear.clone();
        }
        let pause = ears.get(node).map(|(_, pause)| pause.clone()).unwrap_or_default();
        let (asks, asked) = mpsc::unbounded_channel();
        let ear = Arc::new(Ear { to: node.clone(), table: Mutex::default(), asks });
        ears.insert(node.clone(), (ear.clone(), pause.clone()));
        drop(ears);
        home.handle().spawn(listen(Arc::downgrade(hub), ear.clone(), asked, pause));
        ear
    }

    pub(crate) fn close(&self, node: &Address, why: &str) {
        let ear = self.lock().remove(node);
        if let Some((ear, _)) = ear {
            ear.die(Failure::NotExecuted(format!("{node}: {why}")));
        }
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        for (node, (ear, _)) in std::mem::take(&mut *self.lock()) {
            ear.die(Failure::NotExecuted(format!("{node}: the connections were closed")));
        }
    }
}
