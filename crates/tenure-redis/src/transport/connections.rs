//! The connections of one runtime. They end with it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Poll;
use std::time::Instant;

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;

use super::Transport;
use super::lane::Lane;
use super::pool::Pool;
use super::subscriber::Subscribers;
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
