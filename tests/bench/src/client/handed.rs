//! Waiters that hand one name on from one to the next.

use std::sync::{Arc, Mutex};

use rustix::time::{ClockId, clock_gettime};

use super::Gate;
use super::turns::work;

/// When each waiter got the lock, and when it began to release it.
#[derive(Clone, Default)]
pub(crate) struct Handed(Arc<Mutex<Vec<(i64, i64)>>>);

impl Handed {
    /// Each of these begins to wait, enters once, stays for `hold` µs, and leaves.
    pub(crate) fn wait<G: Gate>(&self, gates: Vec<G>, hold: u64) {
        self.0.lock().unwrap().clear();
        for mut gate in gates {
            let handed = self.0.clone();
            tokio::spawn(async move {
                let inside = gate.enter().await?;
                let granted = now();
                work(hold).await?;
                handed.lock().unwrap().push((granted, now()));
                gate.leave(inside).await
            });
        }
    }

    pub(crate) fn so_far(&self) -> String {
        let all = self.0.lock().unwrap();
        all.iter().map(|(granted, released)| format!("{granted}:{released}")).collect::<Vec<_>>().join(",")
    }
}

/// Nanoseconds of the clock that all processes share, in every language.
fn now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
