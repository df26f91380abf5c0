//! What a proxy knows of its connections, and they of each other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::frames::{self, Framing, Link};
use super::rules::{Cut, Rule, Way};
use super::zookeeper::ZkRequest;

/// What came through a connection so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Whether it is open, as far as the proxy knows.
    pub is_open: bool,
    /// Whether something was swallowed, so that nothing more comes through that way.
    pub is_half_open: bool,
    /// Commands of the client, delivered or not. With ZooKeeper signs of life are some, too.
    pub commands: u64,
    /// Bytes of the client, delivered or not.
    pub bytes_from_client: u64,
    /// Bytes of the server, delivered or not.
    pub bytes_from_server: u64,
    /// Messages of channels, and watches that fired, that were dropped.
    pub pushes_dropped: u64,
}

/// All that the connections of a proxy share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target: u16,
    pub(super) seed: u64,
    pub(super) framing: Framing,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: [Rule; 2],
    connections: Vec<Arc<Connection>>,
    armed: Vec<(Target, Cut)>,
}

/// Which command a cut is for.
#[derive(Debug)]
pub(super) struct Target {
    /// Of this kind, or of any.
    pub(super) request: Option<ZkRequest>,
    /// With this somewhere in it.
    pub(super) text: String,
}

impl Target {
    fn fits(&self, command: &[u8], place: u64) -> bool {
        self.request.is_none_or(|request| request.fits(command, place == 0))
            && frames::contains(command, &self.text)
    }
}

impl Shared {
    pub(super) fn new(target: u16, seed: u64, framing: Framing) -> Self {
        Self { target, seed, framing, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, under the rules for all.
    pub(super) fn add(&self) -> Arc<Connection> {
        let mut state = self.state();
        let rulings = state.rules.map(|rule| Ruling { rule, generation: 0 });
        let connection = Arc::new(Connection::new(state.connections.len(), rulings));
        state.connections.push(connection.clone());
        connection
    }

    /// Holds the lock until all have it: a new connection comes before or after.
    pub(super) fn set(&self, way: Way, rule: Rule) {
        let mut state = self.state();
        state.rules[way as usize] = rule;
        state.connections.iter().for_each(|c| c.set(way, rule));
    }

    pub(super) fn connections(&self) -> Vec<Arc<Connection>> {
        self.state().connections.clone()
    }

    pub(super) fn connection(&self, number: usize) -> Arc<Connection> {
        let connection = self.state().connections.get(number).cloned();
        connection.unwrap_or_else(|| panic!("there is no connection {number} yet"))
    }

    pub(super) fn arm(&self, target: Target, cut: Cut) {
        self.state().armed.push((target, cut));
    }

    pub(super) fn cuts_left(&self) -> usize {
        let state = self.state();
        let waiting = state.connections.iter().map(|c| c.reply_cuts().len()).sum::<usize>();
        state.armed.len() + waiting
    }

    /// The cut that was asked for at this command, if any: the first that fits, once. For one in the reply the
    /// connection is told which reply that is. `place` is how many commands came before it.
    pub(super) fn cut_at(&self, command: &[u8], place: u64, connection: &Connection) -> Option<Cut> {
        let mut state = self.state();
        let fits = state.armed.iter().position(|(target, _)| target.fits(command, place))?;
        let (_, cut) = state.armed.remove(fits);
        let bytes = match cut {
            Cut::BeforeRequest => return Some(cut),
            Cut::AfterRequest => 0,
            Cut::InReply(bytes) => bytes,
        };
        connection.reply_cuts().push((frames::link(self.framing, command, place), bytes));
        Some(cut)
    }
}

/// A rule, and how many there were before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruling {
    pub(super) rule: Rule,
    pub(super) generation: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: usize,
    rulings: watch::Sender<[Ruling; 2]>,
    closed: watch::Sender<bool>,
    pub(super) swallowed: AtomicBool,
    pub(super) commands: AtomicU64,
    pub(super) bytes: [AtomicU64; 2],
    pub(super) pushes_dropped: AtomicU64,
    /// Which reply is cut, and after how many bytes.
    reply_cuts: Mutex<Vec<(Link, usize)>>,
}

impl Connection {
    fn new(number: usize, rulings: [Ruling; 2]) -> Self {
        Self {
            number,
            rulings: watch::Sender::new(rulings),
            closed: watch::Sender::new(false),
            swallowed: AtomicBool::default(),
            commands: AtomicU64::default(),
            bytes: Default::default(),
            pushes_dropped: AtomicU64::default(),
            reply_cuts: Mutex::default(),
        }
    }

    pub(super) fn set(&self, way: Way, rule: Rule) {
        self.rulings.send_modify(|rulings| {
            let ruling = &mut rulings[way as usize];
            *ruling = Ruling { rule, generation: ruling.generation + 1 };
        });
    }

    pub(super) fn rulings(&self) -> watch::Receiver<[Ruling; 2]> {
        self.rulings.subscribe()
    }

    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Ends when the connection is to be closed.
    pub(super) async fn closed(&self) {
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// After how many bytes this reply is to be cut, if it is.
    pub(super) fn take_reply_cut(&self, reply: Link) -> Option<usize> {
        let mut cuts = self.reply_cuts();
        let fits = cuts.iter().position(|(link, _)| *link == reply)?;
        Some(cuts.remove(fits).1)
    }

    fn reply_cuts(&self) -> MutexGuard<'_, Vec<(Link, usize)>> {
        self.reply_cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counts(&self) -> Counts {
        let number = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Counts {
            is_open: !*self.closed.borrow(),
            is_half_open: self.swallowed.load(Ordering::Relaxed),
            commands: number(&self.commands),
            bytes_from_client: number(&self.bytes[Way::ToServer as usize]),
            bytes_from_server: number(&self.bytes[Way::ToClient as usize]),
            pushes_dropped: number(&self.pushes_dropped),
        }
    }
}
