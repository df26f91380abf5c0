//! Lanes for calls that wait for replicas: such a call has its connection for itself, for the server answers nobody
//! else on it meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::home::Home;
use super::lane::Lane;
use crate::Address;

const MOST: usize = 16;

#[derive(Debug)]
pub(crate) struct Pool {
    to: Address,
    home: Weak<Home>,
    turns: Semaphore,
    lanes: Mutex<Lanes>,
}

#[derive(Debug, Default)]
struct Lanes {
    free: Vec<Arc<Lane>>,
    used: Vec<Arc<Lane>>,
    /// Why there are no more.
    ended: Option<String>,
}

impl Pool {
    pub(crate) fn new(to: Address, home: Weak<Home>) -> Arc<Self> {
        Arc::new(Self { to, home, turns: Semaphore::new(MOST), lanes: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A lane on which nothing is in flight.
    pub(crate) async fn take(&self) -> Turn<'_> {
        let permit = self.turns.acquire().await.expect("never closed");
        let mut lanes = self.lock();
        // The call of one that is not idle was dropped: its answer is still to come, and whatever undoes it goes there.
        let idle = lanes.free.iter().rposition(|lane| lane.ready().is_none_or(|link| link.is_idle()));
        let lane = idle.map(|i| lanes.free.remove(i));
        let lane = lane.unwrap_or_else(|| Lane::new(self.to.clone(), self.home.clone(), false));
        lanes.used.push(lane.clone());
        // Not without end: the one that was left first has had the most time.
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

    /// Closes all of them, those in use included, for good.
    pub(crate) fn close(&self, why: &str) {
        let mut lanes = self.lock();
        lanes.ended.get_or_insert_with(|| why.to_owned());
        let all: Vec<_> = lanes.free.drain(..).collect();
        let all = all.into_iter().chain(lanes.used.iter().cloned()).collect::<Vec<_>>();
        drop(lanes);
        all.iter().for_each(|lane| lane.close(why));
    }
}

/// The use of a lane by one call.
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
