//! The connections of one runtime, which end with it: per node one for calls, opened again when it ends, a pool for calls
//! that wait for replicas, and a subscriber.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use tenure_core::backend::Backoff;
use tokio::runtime::{Handle, Id};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::connection::Connection;
use super::driver::drive;
use super::failure::Failure;
use super::subscriber::Subscribers;
use super::{Transport, reconnect_backoff};
use crate::Address;

pub(crate) struct Connections {
    transport: Weak<Transport>,
    handle: Handle,
    lanes: Mutex<HashMap<Address, Arc<Lane>>>,
    pools: Mutex<HashMap<Address, Arc<Pool>>>,
    pub(crate) subscribers: Subscribers,
    /// Dropped with it, which ends the tasks that wait for the end of a runtime.
    left: watch::Sender<()>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("runtime", &self.handle.id()).finish_non_exhaustive()
    }
}

impl Connections {
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn transport(&self) -> Option<Arc<Transport>> {
        self.transport.upgrade()
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Address, Arc<Lane>>> {
        self.lanes.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn lane(self: &Arc<Self>, to: &Address) -> Arc<Lane> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.get(to) {
            return lane.clone();
        }
        let lane = Lane::new(to.clone(), Arc::downgrade(self), true);
        lanes.insert(to.clone(), lane.clone());
        lane
    }

    fn pools(&self) -> MutexGuard<'_, HashMap<Address, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn pool(self: &Arc<Self>, to: &Address) -> Arc<Pool> {
        let new = || Pool::new(to.clone(), Arc::downgrade(self));
        self.pools().entry(to.clone()).or_insert_with(new).clone()
    }

    /// Closes the connections for calls to this node.
    pub(crate) fn forget(&self, node: &Address, why: &str) {
        let lane = self.lanes().remove(node);
        if let Some(lane) = lane {
            lane.close(why);
        }
        let pool = self.pools().remove(node);
        if let Some(pool) = pool {
            pool.close(why);
        }
    }

    /// Returns the output of `work`, or `None` at the deadline. Needs no time driver in the runtime that polls it.
    pub(crate) async fn until<F: Future>(&self, deadline: Instant, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        let mut timer = pin!(self.sleep_until(deadline));
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Removes these connections when that runtime ends.
    fn leave_with(&self, runtime: &Handle, id: Option<Id>) {
        let leaves = Leaves { transport: self.transport.clone(), id };
        let mut left = self.left.subscribe();
        runtime.spawn(async move {
            let _leaves = leaves;
            let _ = left.changed().await;
        });
    }

    pub(crate) fn sleep_until(&self, deadline: Instant) -> tokio::time::Sleep {
        let _entered = self.handle.enter();
        tokio::time::sleep(deadline.saturating_duration_since(Instant::now()))
    }
}

/// The connections of all calling runtimes.
#[derive(Debug, Default)]
pub(crate) struct Runtimes(Mutex<HashMap<Option<Id>, Arc<Connections>>>);

impl Runtimes {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<Id>, Arc<Connections>>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The connections of the current runtime.
    pub(crate) fn current(&self, transport: &Arc<Transport>) -> std::io::Result<Arc<Connections>> {
        let handle = Handle::try_current().ok();
        let id = handle.as_ref().map(Handle::id);
        if let Some(connections) = self.lock().get(&id) {
            return Ok(connections.clone());
        }
        // A runtime without I/O or time driver, or one that has ended, shares those of callers without a runtime.
        if let Some(handle) = handle.filter(|_| has_drivers()) {
            let connections = self.settle(id, transport, handle);
            // A runtime that has ended drops spawned tasks at once, which has removed them again.
            if self.lock().contains_key(&id) {
                return Ok(connections);
            }
        }
        let own = transport.background.handle()?.clone();
        let connections = {
            let known = self.lock().get(&None).cloned();
            known.unwrap_or_else(|| self.settle(None, transport, own))
        };
        if id.is_some() {
            self.lock().insert(id, connections.clone());
            connections.leave_with(&Handle::current(), id);
        }
        Ok(connections)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Connections>> {
        self.lock().values().cloned().collect()
    }

    /// Removes connections whose runtime has ended unnoticed.
    pub(crate) fn ended(&self, connections: &Arc<Connections>) {
        self.lock().retain(|_, each| !Arc::ptr_eq(each, connections));
    }

    fn settle(&self, id: Option<Id>, transport: &Arc<Transport>, handle: Handle) -> Arc<Connections> {
        let mut runtimes = self.lock();
        if let Some(connections) = runtimes.get(&id) {
            return connections.clone();
        }
        let connections = Arc::new(Connections {
            transport: Arc::downgrade(transport),
            handle: handle.clone(),
            lanes: Mutex::default(),
            pools: Mutex::default(),
            subscribers: Subscribers::default(),
            left: watch::Sender::new(()),
        });
        runtimes.insert(id, connections.clone());
        drop(runtimes);
        connections.leave_with(&handle, id);
        connections
    }
}

/// Removes the connections when the runtime ends, since its id may be reused.
struct Leaves {
    transport: Weak<Transport>,
    id: Option<Id>,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let Some(transport) = self.transport.upgrade() else { return };
        let connections = transport.runtimes.lock().remove(&self.id);
        drop(connections);
    }
}

/// Whether the current runtime has I/O and time drivers. There is no other way to find out than to try.
fn has_drivers() -> bool {
    quietly(|| {
        drop(tokio::time::sleep(std::time::Duration::ZERO));
        let socket =
            std::net::UdpSocket::bind("127.0.0.1:0").and_then(|s| s.set_nonblocking(true).map(|()| s));
        if let Ok(socket) = socket {
            drop(tokio::net::UdpSocket::from_std(socket));
        }
    })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Whether `work` finishes without a panic; a panic is not printed. Meanwhile the program's panic hook is wrapped by
/// one that ignores this thread.
fn quietly(work: impl FnOnce()) -> bool {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if std::thread::panicking() {
        return catch_unwind(AssertUnwindSafe(work)).is_ok();
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let theirs = Arc::new(panic::take_hook());
    let behind = theirs.clone();
    panic::set_hook(Box::new(move |info| {
        if !QUIET.get() {
            behind(info);
        }
    }));
    QUIET.set(true);
    let done = catch_unwind(AssertUnwindSafe(work)).is_ok();
    QUIET.set(false);
    // Unless the program has set another hook meanwhile, which dropped ours.
    if Arc::strong_count(&theirs) > 1 {
        drop(panic::take_hook());
        if let Some(theirs) = Arc::into_inner(theirs) {
            panic::set_hook(theirs);
        }
    }
    done
}

/// How long to try to reconnect after a connection has ended, even if nobody calls.
const REOPENS: Duration = Duration::from_secs(30);

type Opened = Result<Arc<Connection>, Failure>;

#[derive(Debug)]
pub(crate) struct Lane {
    to: Address,
    connections: Weak<Connections>,
    /// Whether it reconnects by itself after its connection has ended.
    reopens: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    /// The connect in progress.
    opening: Option<watch::Receiver<Option<Opened>>>,
    backoff: Backoff,
    /// Why it was closed: a connect in progress is discarded then.
    ended: Option<String>,
}

impl State {
    /// Drops a dead connection.
    fn part(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // Back off if the server accepts connections and closes them again, or is the wrong server.
        if connection.has_worked() {
            self.backoff.worked();
        } else {
            self.backoff.failed();
        }
    }
}

impl Lane {
    pub(crate) fn new(to: Address, connections: Weak<Connections>, reopens: bool) -> Arc<Self> {
        let state = State { connection: None, opening: None, backoff: reconnect_backoff(), ended: None };
        Arc::new(Self { to, connections, reopens, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The connection, if it is open.
    pub(crate) fn ready(&self) -> Option<Arc<Connection>> {
        self.lock().connection.as_ref().filter(|connection| !connection.is_dead()).cloned()
    }

    /// The connection, opened if there is none.
    pub(crate) async fn connection(self: &Arc<Self>, connections: &Connections, deadline: Instant) -> Opened {
        if let Some(connection) = self.ready() {
            return Ok(connection);
        }
        let mut opening = self.open(connections);
        let opened = async {
            match opening.wait_for(Option::is_some).await {
                Ok(opened) => opened.clone().expect("it was waited for"),
                Err(_) => {
                    Err(Failure::NotExecuted(format!("{}: the runtime of the connection has ended", self.to)))
                }
            }
        };
        match connections.until(deadline, opened).await {
            Some(opened) => opened,
            None => Err(Failure::NotExecuted(format!("{}: no connection in time", self.to))),
        }
    }

    /// Starts to connect, unless that is in progress.
    fn open(self: &Arc<Self>, connections: &Connections) -> watch::Receiver<Option<Opened>> {
        let mut state = self.lock();
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_dead()) {
            return watch::channel(Some(Ok(connection.clone()))).1;
        }
        state.part();
        if let Some(why) = &state.ended {
            return watch::channel(Some(Err(self.over(why)))).1;
        }
        // If the sender is gone, its runtime has ended.
        if let Some(opening) = state.opening.as_ref().filter(|o| o.has_changed().is_ok()) {
            return opening.clone();
        }
        let (told, opening) = watch::channel(None);
        state.opening = Some(opening.clone());
        let delay = state.backoff.delay();
        drop(state);
        let lane = self.clone();
        connections.handle().spawn(async move {
            let mut opened = lane.connect(delay).await;
            let mut state = lane.lock();
            state.opening = None;
            let late = match &state.ended {
                Some(why) => std::mem::replace(&mut opened, Err(lane.over(why))).ok(),
                None => None,
            };
            match &opened {
                Ok(connection) => state.connection = Some(connection.clone()),
                Err(_) => drop(state.backoff.failed()),
            }
            drop(state);
            if let Some(connection) = late {
                connection.close("it is not needed any more");
            }
            told.send_replace(Some(opened));
        });
        opening
    }

    async fn connect(self: &Arc<Self>, delay: Duration) -> Opened {
        let gone = || Failure::NotExecuted(format!("{}: the connections were closed", self.to));
        let (transport, limit) = {
            let connections = self.connections.upgrade().ok_or_else(gone)?;
            let transport = connections.transport().ok_or_else(gone)?;
            let limit = transport.timeout;
            (transport, limit)
        };
        let began = Instant::now();
        tokio::time::sleep(delay.min(limit / 2)).await;
        let left = limit.saturating_sub(began.elapsed());
        let connected = transport.connector.connect(&self.to, left).await;
        let met = connected.and_then(|(wire, mut hello)| {
            transport.on_connect(&self.to, &mut hello).map(|()| (wire, hello.uptime))
        });
        let (wire, uptime) = met.inspect_err(|_| transport.map.doubt(&self.to))?;
        let connection = Connection::new(self.to.clone(), wire, uptime, transport.attempts.clone());
        let (driving, driven, lane) =
            (drive(connection.clone(), limit), connection.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            driving.await;
            if let Some(transport) = lane
                .upgrade()
                .and_then(|lane| lane.connections.upgrade())
                .and_then(|connections| connections.transport())
            {
                transport.on_disconnect(&driven.to);
            }
            let ended = lane.upgrade().is_some_and(|lane| lane.ended(&driven));
            drop(driven);
            if ended {
                reopen(&lane).await;
            }
        });
        Ok(connection)
    }

    /// Handles the end of the connection. Returns whether to reconnect although nobody calls.
    fn ended(&self, connection: &Arc<Connection>) -> bool {
        let mut state = self.lock();
        if !state.connection.as_ref().is_some_and(|l| Arc::ptr_eq(l, connection)) {
            return false;
        }
        state.part();
        self.reopens && state.ended.is_none()
    }

    fn over(&self, why: &str) -> Failure {
        Failure::NotExecuted(format!("{}: {why}", self.to))
    }

    /// Closes the connection for good. Later calls need another lane.
    pub(crate) fn close(&self, why: &str) {
        let mut state = self.lock();
        state.ended.get_or_insert_with(|| why.to_owned());
        let connection = state.connection.take();
        drop(state);
        if let Some(connection) = connection {
            connection.close(why);
        }
    }
}

/// Reconnects to find out which server is there now: it may be another one, or have lost its data. It may take time to
/// start.
async fn reopen(lane: &Weak<Lane>) {
    let began = Instant::now();
    while began.elapsed() < REOPENS {
        let Some(lane) = lane.upgrade() else { return };
        let Some(connections) =
            lane.connections.upgrade().filter(|connections| connections.transport().is_some())
        else {
            return;
        };
        if lane.lock().ended.is_some() {
            return;
        }
        let mut opening = lane.open(&connections);
        drop((lane, connections));
        let opened = opening.wait_for(Option::is_some).await;
        if !matches!(opened.as_deref(), Ok(Some(Err(Failure::NotExecuted(_))))) {
            return;
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.close("the connections were closed");
    }
}

const MOST: usize = 16;

#[derive(Debug)]
pub(crate) struct Pool {
    to: Address,
    connections: Weak<Connections>,
    turns: Semaphore,
    lanes: Mutex<Lanes>,
}

#[derive(Debug, Default)]
struct Lanes {
    free: Vec<Arc<Lane>>,
    used: Vec<Arc<Lane>>,
    /// Why it was closed.
    ended: Option<String>,
}

impl Pool {
    pub(crate) fn new(to: Address, connections: Weak<Connections>) -> Arc<Self> {
        Arc::new(Self { to, connections, turns: Semaphore::new(MOST), lanes: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A lane with nothing in flight.
    pub(crate) async fn take(&self) -> Turn<'_> {
        let permit = self.turns.acquire().await.expect("never closed");
        let mut lanes = self.lock();
        // If it is not idle, its call was dropped: the answer is still to come, and a release of it is sent there.
        let idle =
            lanes.free.iter().rposition(|lane| lane.ready().is_none_or(|connection| connection.is_idle()));
        let lane = idle.map(|i| lanes.free.remove(i));
        let lane = lane.unwrap_or_else(|| Lane::new(self.to.clone(), self.connections.clone(), false));
        lanes.used.push(lane.clone());
        // Limits the number of such lanes: the oldest one has had the most time to be answered.
        let left = (lanes.free.len() >= MOST).then(|| lanes.free.remove(0));
        let ended = lanes.ended.clone();
        drop(lanes);
        if let Some(left) = left {
            left.close("too many calls were left unanswered");
        }
        if let Some(why) = ended {
            lane.close(&why);
        }
        Turn { pool: self, lane, _permit: permit }
    }

    /// Closes all lanes for good, including those in use.
    pub(crate) fn close(&self, why: &str) {
        let mut lanes = self.lock();
        lanes.ended.get_or_insert_with(|| why.to_owned());
        let all: Vec<_> = lanes.free.drain(..).collect();
        let all = all.into_iter().chain(lanes.used.iter().cloned()).collect::<Vec<_>>();
        drop(lanes);
        all.iter().for_each(|lane| lane.close(why));
    }
}

/// The exclusive use of a lane by one call.
pub(crate) struct Turn<'a> {
    pool: &'a Pool,
    pub(crate) lane: Arc<Lane>,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut lanes = self.pool.lock();
        lanes.used.retain(|lane| !Arc::ptr_eq(lane, &self.lane));
        if lanes.ended.is_none() {
            lanes.free.push(self.lane.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_panics_prints_nothing_and_leaves_the_hook_as_it_was() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        static SEEN: AtomicU32 = AtomicU32::new(0);
        let me = std::thread::current().id();
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() == me {
                SEEN.fetch_add(1, SeqCst);
            } else {
                before(info);
            }
        }));
        assert!(quietly(|| {}));
        assert!(!quietly(|| panic!("nobody hears this")));
        assert_eq!(SEEN.load(SeqCst), 0);
        assert!(catch_unwind(|| panic!("this one is heard")).is_err());
        assert_eq!(SEEN.load(SeqCst), 1);
    }
}
