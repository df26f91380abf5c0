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

use tenure_core::backend::{Backoff, Reason};
use tokio::runtime::{Handle, Id};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::connection::Connection;
use super::driver::drive;
use super::failure::Failure;
use super::subscriber::Subscribers;
use super::{Transport, no_thread, reconnect_backoff};
use crate::Address;

pub(crate) struct Connections {
    transport: Weak<Transport>,
    handle: Handle,
    managers: Mutex<HashMap<Address, Arc<ConnectionManager>>>,
    pools: Mutex<HashMap<Address, Arc<Pool>>>,
    pub(crate) subscribers: Subscribers,
    /// Dropped with it, which ends the tasks that wait for the end of a runtime.
    dropped: watch::Sender<()>,
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

    fn managers(&self) -> MutexGuard<'_, HashMap<Address, Arc<ConnectionManager>>> {
        self.managers.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn manager(self: &Arc<Self>, to: &Address) -> Arc<ConnectionManager> {
        let mut managers = self.managers();
        if let Some(manager) = managers.get(to) {
            return manager.clone();
        }
        let manager = ConnectionManager::new(to.clone(), Arc::downgrade(self), true);
        managers.insert(to.clone(), manager.clone());
        manager
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
        let manager = self.managers().remove(node);
        if let Some(manager) = manager {
            manager.close(why);
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
    fn remove_at_end_of(&self, runtime: &Handle, id: Option<Id>) {
        let removal = RemoveOnDrop { transport: self.transport.clone(), id };
        let mut dropped = self.dropped.subscribe();
        runtime.spawn(async move {
            let _removal = removal;
            let _ = dropped.changed().await;
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

    pub(crate) fn all(&self) -> Vec<Arc<Connections>> {
        self.lock().values().cloned().collect()
    }

    /// Removes connections whose runtime has ended unnoticed.
    pub(crate) fn remove(&self, connections: &Arc<Connections>) {
        self.lock().retain(|_, each| !Arc::ptr_eq(each, connections));
    }

    fn insert(&self, id: Option<Id>, transport: &Arc<Transport>, handle: Handle) -> Arc<Connections> {
        let mut runtimes = self.lock();
        if let Some(connections) = runtimes.get(&id) {
            return connections.clone();
        }
        let connections = Arc::new(Connections {
            transport: Arc::downgrade(transport),
            handle: handle.clone(),
            managers: Mutex::default(),
            pools: Mutex::default(),
            subscribers: Subscribers::default(),
            dropped: watch::Sender::new(()),
        });
        runtimes.insert(id, connections.clone());
        drop(runtimes);
        connections.remove_at_end_of(&handle, id);
        connections
    }
}

impl Transport {
    /// The connections of the calling runtime.
    pub(super) fn connections(self: &Arc<Self>) -> Result<Arc<Connections>, Failure> {
        let runtimes = &self.runtimes;
        let handle = Handle::try_current().ok();
        let id = handle.as_ref().map(Handle::id);
        if let Some(connections) = runtimes.lock().get(&id) {
            return Ok(connections.clone());
        }
        // A runtime without I/O or time driver, or one that has ended, shares those of callers without a runtime.
        if let Some(handle) = handle.filter(|_| has_drivers()) {
            let connections = runtimes.insert(id, self, handle);
            // A runtime that has ended drops spawned tasks at once, which has removed them again.
            if runtimes.lock().contains_key(&id) {
                return Ok(connections);
            }
        }
        let own = self.background.handle().map_err(no_thread)?.clone();
        let connections = {
            let known = runtimes.lock().get(&None).cloned();
            known.unwrap_or_else(|| runtimes.insert(None, self, own))
        };
        if id.is_some() {
            runtimes.lock().insert(id, connections.clone());
            connections.remove_at_end_of(&Handle::current(), id);
        }
        Ok(connections)
    }
}

/// Removes the connections when the runtime ends, since its id may be reused.
struct RemoveOnDrop {
    transport: Weak<Transport>,
    id: Option<Id>,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let Some(transport) = self.transport.upgrade() else { return };
        let connections = transport.runtimes.lock().remove(&self.id);
        drop(connections);
    }
}

/// Whether the current runtime has I/O and time drivers. There is no other way to find out than to try.
fn has_drivers() -> bool {
    runs_without_panic(|| {
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
fn runs_without_panic(work: impl FnOnce()) -> bool {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    if std::thread::panicking() {
        return catch_unwind(AssertUnwindSafe(work)).is_ok();
    }
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
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
const RECONNECT_FOR: Duration = Duration::from_secs(30);

type Connected = Result<Arc<Connection>, Failure>;

/// The connection to one node, opened by the first caller that needs it while others wait for that, and opened again
/// after it has ended.
#[derive(Debug)]
pub(crate) struct ConnectionManager {
    to: Address,
    connections: Weak<Connections>,
    /// Whether it reconnects by itself after its connection has ended.
    reconnects: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    connection: Option<Arc<Connection>>,
    /// The connect in progress.
    opening: Option<watch::Receiver<Option<Connected>>>,
    backoff: Backoff,
    /// Why it was closed: a connect in progress is discarded then.
    closed: Option<String>,
}

impl State {
    /// Drops a dead connection.
    fn drop_connection(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // Back off if the server accepts connections and closes them again, or is the wrong server.
        if connection.has_worked() {
            self.backoff.worked();
        } else {
            self.backoff.failed();
        }
    }
}

impl ConnectionManager {
    pub(crate) fn new(to: Address, connections: Weak<Connections>, reconnects: bool) -> Arc<Self> {
        let state = State { connection: None, opening: None, backoff: reconnect_backoff(), closed: None };
        Arc::new(Self { to, connections, reconnects, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The connection, if it is open.
    pub(crate) fn ready(&self) -> Option<Arc<Connection>> {
        self.lock().connection.as_ref().filter(|connection| !connection.is_dead()).cloned()
    }

    /// The connection, opened if there is none.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        connections: &Connections,
        deadline: Instant,
    ) -> Connected {
        if let Some(connection) = self.ready() {
            return Ok(connection);
        }
        let mut opening = self.open(connections);
        let opened = async {
            match opening.wait_for(Option::is_some).await {
                Ok(opened) => opened.clone().expect("it was waited for"),
                Err(_) => Err(Failure::not_executed(format!(
                    "{}: the runtime of the connection has ended",
                    self.to
                ))),
            }
        };
        match connections.until(deadline, opened).await {
            Some(opened) => opened,
            None => Err(match connections.transport() {
                Some(transport) => transport.connector.timed_out(&self.to),
                None => Failure::NotExecuted(Reason::timed_out("no connection in time").at(&self.to)),
            }),
        }
    }

    /// Starts to connect, unless that is in progress.
    fn open(self: &Arc<Self>, connections: &Connections) -> watch::Receiver<Option<Connected>> {
        let mut state = self.lock();
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_dead()) {
            return watch::channel(Some(Ok(connection.clone()))).1;
        }
        state.drop_connection();
        if let Some(why) = &state.closed {
            return watch::channel(Some(Err(self.closed(why)))).1;
        }
        // If the sender is gone, its runtime has ended.
        if let Some(opening) = state.opening.as_ref().filter(|o| o.has_changed().is_ok()) {
            return opening.clone();
        }
        let (result, opening) = watch::channel(None);
        state.opening = Some(opening.clone());
        let delay = state.backoff.delay();
        drop(state);
        let manager = self.clone();
        connections.handle().spawn(async move {
            let mut opened = manager.connect(delay).await;
            let mut state = manager.lock();
            state.opening = None;
            let unneeded = match &state.closed {
                Some(why) => std::mem::replace(&mut opened, Err(manager.closed(why))).ok(),
                None => None,
            };
            match &opened {
                Ok(connection) => state.connection = Some(connection.clone()),
                Err(_) => drop(state.backoff.failed()),
            }
            drop(state);
            if let Some(connection) = unneeded {
                connection.close("the connection is no longer needed");
            }
            result.send_replace(Some(opened));
        });
        opening
    }

    async fn connect(self: &Arc<Self>, delay: Duration) -> Connected {
        let gone = || Failure::not_executed(format!("{}: the connections were closed", self.to));
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
        let accepted = connected.and_then(|(framed, mut info)| {
            transport.on_connect(&self.to, &mut info).map(|()| (framed, info.uptime))
        });
        let (framed, uptime) = accepted.inspect_err(|_| transport.discovery.invalidate(&self.to))?;
        let (to, place) = (self.to.clone(), transport.connector.place(&self.to));
        let connection = Connection::new(to, place, framed, uptime, transport.attempts.clone());
        let (driving, driven, manager) =
            (drive(connection.clone(), limit), connection.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            driving.await;
            if let Some(transport) = manager
                .upgrade()
                .and_then(|manager| manager.connections.upgrade())
                .and_then(|connections| connections.transport())
            {
                transport.on_disconnect(&driven.to);
            }
            let reconnects = manager.upgrade().is_some_and(|manager| manager.on_end(&driven));
            drop(driven);
            if reconnects {
                reconnect(&manager).await;
            }
        });
        Ok(connection)
    }

    /// Handles the end of the connection. Returns whether to reconnect although nobody calls.
    fn on_end(&self, connection: &Arc<Connection>) -> bool {
        let mut state = self.lock();
        if !state.connection.as_ref().is_some_and(|l| Arc::ptr_eq(l, connection)) {
            return false;
        }
        state.drop_connection();
        self.reconnects && state.closed.is_none()
    }

    fn closed(&self, why: &str) -> Failure {
        Failure::not_executed(format!("{}: {why}", self.to))
    }

    /// Closes the connection for good. Later calls need another manager.
    pub(crate) fn close(&self, why: &str) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| why.to_owned());
        let connection = state.connection.take();
        drop(state);
        if let Some(connection) = connection {
            connection.close(why);
        }
    }
}

/// Reconnects to find out which server is there now: it may be another one, or have lost its data. It may take time to
/// start.
async fn reconnect(manager: &Weak<ConnectionManager>) {
    let began = Instant::now();
    while began.elapsed() < RECONNECT_FOR {
        let Some(manager) = manager.upgrade() else { return };
        let Some(connections) =
            manager.connections.upgrade().filter(|connections| connections.transport().is_some())
        else {
            return;
        };
        if manager.lock().closed.is_some() {
            return;
        }
        let mut opening = manager.open(&connections);
        drop((manager, connections));
        let opened = opening.wait_for(Option::is_some).await;
        if !matches!(opened.as_deref(), Ok(Some(Err(Failure::NotExecuted(_))))) {
            return;
        }
    }
}

impl Drop for ConnectionManager {
    fn drop(&mut self) {
        self.close("the connections were closed");
    }
}

const MAX_POOLED: usize = 16;

/// Connections for calls that wait for replicas: such a call has a connection of its own, because `WAIT` blocks all
/// other calls on it.
#[derive(Debug)]
pub(crate) struct Pool {
    to: Address,
    connections: Weak<Connections>,
    permits: Semaphore,
    managers: Mutex<Managers>,
}

#[derive(Debug, Default)]
struct Managers {
    free: Vec<Arc<ConnectionManager>>,
    used: Vec<Arc<ConnectionManager>>,
    /// Why it was closed.
    closed: Option<String>,
}

impl Pool {
    pub(crate) fn new(to: Address, connections: Weak<Connections>) -> Arc<Self> {
        Arc::new(Self { to, connections, permits: Semaphore::new(MAX_POOLED), managers: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Managers> {
        self.managers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A manager with nothing in flight.
    pub(crate) async fn take(&self) -> Pooled<'_> {
        let permit = self.permits.acquire().await.expect("never closed");
        let mut managers = self.lock();
        // If it is not idle, its call was dropped: the answer is still to come, and a release of it is sent there.
        let idle = managers
            .free
            .iter()
            .rposition(|manager| manager.ready().is_none_or(|connection| connection.is_idle()));
        let manager = idle.map(|i| managers.free.remove(i));
        let manager = manager
            .unwrap_or_else(|| ConnectionManager::new(self.to.clone(), self.connections.clone(), false));
        managers.used.push(manager.clone());
        // Limits the number of such managers: the oldest one has had the most time to be answered.
        let oldest = (managers.free.len() >= MAX_POOLED).then(|| managers.free.remove(0));
        let closed = managers.closed.clone();
        drop(managers);
        if let Some(oldest) = oldest {
            oldest.close("too many calls on such connections are unanswered");
        }
        if let Some(why) = closed {
            manager.close(&why);
        }
        Pooled { pool: self, manager, _permit: permit }
    }

    /// Closes all managers for good, including those in use.
    pub(crate) fn close(&self, why: &str) {
        let mut managers = self.lock();
        managers.closed.get_or_insert_with(|| why.to_owned());
        let all: Vec<_> = managers.free.drain(..).collect();
        let all = all.into_iter().chain(managers.used.iter().cloned()).collect::<Vec<_>>();
        drop(managers);
        all.iter().for_each(|manager| manager.close(why));
    }
}

/// A connection that one call uses alone.
pub(crate) struct Pooled<'a> {
    pool: &'a Pool,
    pub(crate) manager: Arc<ConnectionManager>,
    _permit: SemaphorePermit<'a>,
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        let mut managers = self.pool.lock();
        managers.used.retain(|manager| !Arc::ptr_eq(manager, &self.manager));
        if managers.closed.is_none() {
            managers.free.push(self.manager.clone());
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
        assert!(runs_without_panic(|| {}));
        assert!(!runs_without_panic(|| panic!("nobody hears this")));
        assert_eq!(SEEN.load(SeqCst), 0);
        assert!(catch_unwind(|| panic!("this one is heard")).is_err());
        assert_eq!(SEEN.load(SeqCst), 1);
    }
}
