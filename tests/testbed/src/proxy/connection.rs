//! State of the proxy's connections.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::frames::{self, FrameId, Framing};
use super::rules::{Cut, Rule, Way};
use super::zookeeper::ZkRequest;

/// Statistics of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Whether it is open, as far as the proxy knows.
    pub is_open: bool,
    /// Whether [`Rule::Swallow`] applied in one direction, so that nothing more passes there.
    pub is_half_open: bool,
    /// Commands of the client, delivered or not. On ZooKeeper this includes pings.
    pub commands: u64,
    /// Bytes from the client, delivered or not.
    pub bytes_from_client: u64,
    /// Bytes from the server, delivered or not.
    pub bytes_from_server: u64,
    /// Dropped pub/sub messages and watch events.
    pub pushes_dropped: u64,
}

/// State shared by all connections of a proxy.
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

/// The command that a cut applies to.
#[derive(Debug)]
pub(super) struct Target {
    /// Its type; `None` for any.
    pub(super) request: Option<ZkRequest>,
    /// Text that it contains.
    pub(super) text: String,
}

impl Target {
    fn fits(&self, command: &[u8], position: u64) -> bool {
        self.request.is_none_or(|request| request.fits(command, position == 0))
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

    /// Adds a connection, under the rules for all.
    pub(super) fn add(&self) -> Arc<Connection> {
        let mut state = self.state();
        let rulings = state.rules.map(|rule| Ruling { rule, generation: 0 });
        let connection = Arc::new(Connection::new(state.connections.len(), rulings));
        state.connections.push(connection.clone());
        connection
    }

    /// Holds the lock while it updates all connections, so a new one gets the rule either way.
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

    /// Returns the cut armed for this command, if any: the first that matches, once. For a cut in the reply it notes on
    /// the connection which reply that is. `position` is the number of commands before it.
    pub(super) fn cut_at(&self, command: &[u8], position: u64, connection: &Connection) -> Option<Cut> {
        let mut state = self.state();
        let fits = state.armed.iter().position(|(target, _)| target.fits(command, position))?;
        let (_, cut) = state.armed.remove(fits);
        let bytes = match cut {
            Cut::BeforeRequest => return Some(cut),
            Cut::AfterRequest => 0,
            Cut::InReply(bytes) => bytes,
        };
        connection.reply_cuts().push((frames::frame_id(self.framing, command, position), bytes));
        Some(cut)
    }
}

/// A rule, and the number of rules before it.
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
    /// Replies to cut, and after how many bytes.
    reply_cuts: Mutex<Vec<(FrameId, usize)>>,
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

    /// Completes when the connection is to be closed.
    pub(super) async fn closed(&self) {
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// After how many bytes to cut this reply, if at all. Removes the entry.
    pub(super) fn take_reply_cut(&self, reply: FrameId) -> Option<usize> {
        let mut cuts = self.reply_cuts();
        let fits = cuts.iter().position(|(link, _)| *link == reply)?;
        Some(cuts.remove(fits).1)
    }

    fn reply_cuts(&self) -> MutexGuard<'_, Vec<(FrameId, usize)>> {
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
