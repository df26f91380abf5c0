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
    free: Mutex<Vec<Arc<Lane>>>,
}

impl Pool {
    pub(crate) fn new(to: Address, home: Weak<Home>) -> Arc<Self> {
        Arc::new(Self { to, home, turns: Semaphore::new(MOST), free: Mutex::default() })
    }

    fn free(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        self.free.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A lane on which nothing is in flight.
    pub(crate) async fn take(&self) -> Turn<'_> {
        let permit = self.turns.acquire().await.expect("never closed");
        let mut free = self.free();
        // The call of one that is not idle was dropped: its answer is still to come, and whatever undoes it goes there.
        let idle = free.iter().rposition(|lane| lane.ready().is_none_or(|link| link.is_idle()));
        let lane = idle.map(|i| free.swap_remove(i));
        drop(free);
        let lane = lane.unwrap_or_else(|| Lane::new(self.to.clone(), self.home.clone(), false));
        Turn { pool: self, lane, _permit: permit }
    }

    pub(crate) fn close(&self, why: &str) {
        let free = std::mem::take(&mut *self.free());
        free.iter().for_each(|lane| lane.close(why));
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
        self.pool.free().push(self.lane.clone());
    }
}
