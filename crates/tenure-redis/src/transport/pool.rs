//! Connections for calls that wait for replicas: such a call has a connection of its own, because `WAIT` blocks all
//! other calls on it.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::connections::Connections;
use super::lane::Lane;
use crate::Address;

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
