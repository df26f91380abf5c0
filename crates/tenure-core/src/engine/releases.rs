//! Pending releases in the background: of dropped guards and futures, and of lost holds. Each is retried until it is
//! confirmed, or until the store cannot have anything left of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::backend::{Claim, Error, Name, Released, Result, Time};
use crate::engine::core::Core;
use crate::engine::hold::Hold;
use crate::engine::limit::RETRIES;
use crate::engine::worker::wake_all;

/// The pending releases by name, each with its number and start time.
#[derive(Debug, Default)]
pub(crate) struct Releases(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    any: AtomicUsize,
    names: Mutex<BTreeMap<Name, UnderWay>>,
    next: AtomicU64,
    changed: Notify,
    /// Detached holds that must be released when their time is over, because the store would keep them.
    alone: Mutex<BTreeMap<u64, Arc<Claim>>>,
}

/// The pending releases of one name by number, which is the order in which they began.
type UnderWay = BTreeMap<u64, Begun>;

/// A pending release. Each wakes its own waiters, so that many waiters for many releases are not all woken by each.
#[derive(Clone, Debug)]
struct Begun {
    at: Instant,
    done: Arc<Notify>,
}

/// One pending release, counted until it is dropped.
pub(crate) struct Pending {
    releases: Arc<Shared>,
    name: Name,
    n: u64,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut names = self.releases.names.lock().unwrap();
        let mut begun = None;
        if let Some(under_way) = names.get_mut(&self.name) {
            begun = under_way.remove(&self.n);
            if under_way.is_empty() {
                names.remove(&self.name);
            }
        }
        self.releases.any.fetch_sub(1, SeqCst);
        drop(names);
        if let Some(begun) = begun {
            wake_all(&begun.done);
        }
        wake_all(&self.releases.changed);
    }
}

#[cfg(test)]
thread_local! {
    /// How often somebody who waits for releases has checked whether they are done.
    static CHECKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Waits until `done` returns `true`, checked after each change.
async fn until(changed: &Notify, done: impl Fn() -> bool) {
    loop {
        let change = changed.notified();
        tokio::pin!(change);
        change.as_mut().enable();
        #[cfg(test)]
        CHECKED.set(CHECKED.get() + 1);
        if done() {
            return;
        }
        change.await;
    }
}

impl Releases {
    /// Counts a pending release of `name` until the returned value is dropped.
    pub(crate) fn begin(&self, name: &Name) -> Pending {
        let mut names = self.0.names.lock().unwrap();
        let n = self.0.next.fetch_add(1, SeqCst);
        let begun = Begun { at: Instant::now(), done: Arc::default() };
        names.entry(name.clone()).or_default().insert(n, begun);
        self.0.any.fetch_add(1, SeqCst);
        drop(names);
        Pending { releases: self.0.clone(), name: name.clone(), n }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.any.load(SeqCst) > 0
    }

    /// How many have begun so far.
    pub(crate) fn begun(&self) -> u64 {
        self.0.next.load(SeqCst)
    }

    /// Whether one of the first `n` is pending.
    fn any_of(&self, n: u64) -> bool {
        // For the exit handler: it must not wait for a thread that ends the process while it has the lock.
        self.any()
            && self.0.names.try_lock().map_or(true, |names| {
                names
                    .values()
                    .any(|under_way| under_way.first_key_value().is_some_and(|(first, _)| *first < n))
            })
    }

    /// Wakes [`Core::quiesce`], because something else that it waits for has ended.
    pub(crate) fn look_again(&self) {
        wake_all(&self.0.changed);
    }
}

impl Core {
    /// Releases a claim that was not answered, or a queue position.
    pub(crate) fn leave_claim(self: &Arc<Self>, claim: Arc<Claim>) {
        let end = self.clock.now().after(claim.lasts());
        self.leave_by(claim, end, None);
    }

    /// Releases a hold in the background. `unanswered` is the error of a release that was already sent and not
    /// answered.
    pub(crate) fn leave_hold(
        self: &Arc<Self>,
        hold: &Hold,
        unanswered: Option<Error>,
    ) -> Option<JoinHandle<Result<Released>>> {
        self.leave_by(hold.to_release(), hold.leases.lasts(), unanswered)
    }

    fn leave_by(
        self: &Arc<Self>,
        claim: Arc<Claim>,
        end: Time,
        unanswered: Option<Error>,
    ) -> Option<JoinHandle<Result<Released>>> {
        let pending = self.releases.begin(&claim.name);
        let core = self.clone();
        let job = async move {
            let span = core.telemetry.release_span(&claim);
            let released = span.around(core.leave(&claim, end, unanswered)).await;
            if let Err(error) = &released {
                span.in_scope(|| core.telemetry.release_failed(&claim, error));
            }
            // First, so that a program exports it that closes its client and then ends.
            drop(span);
            drop(pending);
            core.gates.left(&claim.name);
            released
        };
        // Without a thread nothing can be released; the hold ends with its lease.
        Some(self.runtime().ok()?.spawn(job))
    }

    /// Retries a release until it is confirmed, or until `end`, when the store cannot have anything left of the claim:
    /// an attempt sent on a connection that broke may take effect after a release sent on the next one.
    async fn leave(&self, claim: &Claim, end: Time, mut unanswered: Option<Error>) -> Result<Released> {
        let mut backoff = RETRIES;
        loop {
            let limit = self.settings.call_timeout;
            let error = match timeout(limit, self.backend.release(claim, 0)).await {
                Ok(Ok(Released::Gone)) if unanswered.is_some() => return Ok(Released::Freed),
                Ok(Err(error)) if error.is_transient() => error,
                Ok(answer) => return answer,
                Err(_) => self.unanswered(format_args!("release {}", claim.name), limit),
            };
            if self.clock.now() >= end {
                return Err(error);
            }
            if error.is_unknown() {
                unanswered = Some(error);
            }
            tokio::time::sleep(backoff.failed_by(self.chance())).await;
        }
    }

    /// Releases a claim when its time is over, or when the client ends.
    pub(crate) fn leave_at(self: &Arc<Self>, claim: Arc<Claim>, end: Time) {
        let core = self.clone();
        if let Ok(runtime) = self.runtime() {
            let key = claim.id.n;
            self.releases.0.alone.lock().unwrap().insert(key, claim);
            runtime.spawn(async move {
                core.clock.sleep_until(end).await;
                let claim = core.releases.0.alone.lock().unwrap().remove(&key);
                if let Some(claim) = claim {
                    core.leave_claim(claim);
                }
            });
        }
    }

    /// Releases now everything that [`Core::leave_at`] would release later.
    pub(crate) fn leave_all_alone(self: &Arc<Self>) {
        let alone = std::mem::take(&mut *self.releases.0.alone.lock().unwrap());
        alone.into_values().for_each(|claim| self.leave_claim(claim));
    }

    /// Writes the count of a hold after one of its guards was dropped. The count is informational: no retry.
    pub(crate) fn unnest_in_background(self: &Arc<Self>, claim: Arc<Claim>, left: u32) {
        let core = self.clone();
        if let Ok(runtime) = self.runtime() {
            runtime.spawn(async move { core.backend.release(&claim, left).await });
        }
    }

    /// Asks once for the whole lease of a hold that nobody renews any more, which was granted for less.
    pub(crate) fn extend_in_background(self: &Arc<Self>, claim: Arc<Claim>) {
        let core = self.clone();
        if let Ok(runtime) = self.runtime() {
            runtime.spawn(async move { core.backend.renew(&[claim]).await });
        }
    }

    /// Waits for the pending releases of `name` in this client, so that `drop(guard); try_acquire()` does not find its
    /// own leftover. A release that takes longer than the call timeout is not waited for, because it may take a whole
    /// lease. At least half of the time until `limit` is left for the attempt that follows.
    pub(crate) async fn settle(self: &Arc<Self>, name: &Name, limit: Instant) {
        if !self.releases.any() {
            return;
        }
        let (now, patience) = (Instant::now(), self.settings.call_timeout);
        let names = &self.releases.0.names;
        // Numbers are in the order of starting: wait for all from the first recent one to the last.
        let (recent, end) = match names.lock().unwrap().get(name) {
            Some(under_way) => {
                let first = under_way.iter().find(|(_, begun)| begun.at + patience > now).map(|(n, _)| *n);
                let (Some(first), Some((last, begun))) = (first, under_way.last_key_value()) else { return };
                (first..=*last, begun.at + patience)
            }
            None => return,
        };
        let last = || {
            let names = names.lock().unwrap();
            names.get(name)?.range(recent.clone()).next_back().map(|(n, begun)| (*n, begun.clone()))
        };
        let all = async {
            // The last one first: most of the others are done when it is.
            while let Some((n, begun)) = last() {
                let is_done = || names.lock().unwrap().get(name).is_none_or(|all| !all.contains_key(&n));
                until(&begun.done, is_done).await;
            }
        };
        let half = now + limit.saturating_duration_since(now) / 2;
        let _ = self.by(Some(end.min(half)), all).await;
    }

    /// Whether no release is pending or about to start.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.releases.any() && self.worker.is_idle()
    }

    /// Whether none of the first `n` releases is pending, and none about to start.
    pub(crate) fn is_flushed_of(&self, n: u64) -> bool {
        self.worker.is_idle() && !self.releases.any_of(n)
    }

    /// Waits until no release is pending or about to start.
    pub(crate) async fn all_released(&self) {
        until(&self.releases.0.changed, || self.is_flushed()).await;
    }

    /// Waits until nothing is pending in the background. Returns the names of what was not done in time.
    pub(crate) async fn quiesce(self: &Arc<Self>, limit: Duration) -> Vec<Name> {
        let core = self.clone();
        let Some(runtime) = self.worker.started() else { return Vec::new() };
        let waiting = runtime.spawn(async move {
            let done = || core.gates.is_empty() && core.is_flushed();
            let _ = timeout(limit, until(&core.releases.0.changed, done)).await;
            let mut left: BTreeSet<Name> = core.releases.0.names.lock().unwrap().keys().cloned().collect();
            left.extend(core.gates.names());
            left.into_iter().collect()
        });
        waiting.await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Memory, Settings};

    /// Lets `n` tasks wait for `n` releases, which end one after the other. Returns how often the tasks checked.
    async fn checks(n: usize) -> usize {
        let far = Duration::from_secs(3600);
        let settings = Settings { call_timeout: far, ..Settings::default() };
        let client = Client::with(Arc::new(Memory::new()), settings);
        let (core, name) = (client.engine.core.clone(), Name::new("x").unwrap());
        core.ensure_threads().unwrap();
        CHECKED.set(0);
        let pending: Vec<_> = (0..n).map(|_| core.releases.begin(&name)).collect();
        let settles = || {
            let (core, name) = (core.clone(), name.clone());
            tokio::spawn(async move { core.settle(&name, Instant::now() + far).await })
        };
        let tasks: Vec<_> = (0..n).map(|_| settles()).collect();
        testbed::until("all wait", async || CHECKED.get() >= n).await;
        for release in pending {
            assert!(!tasks.iter().any(JoinHandle::is_finished), "all are waited for");
            drop(release);
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(core.releases.0.names.lock().unwrap().is_empty(), "nothing is left of them");
        CHECKED.get()
    }

    #[tokio::test]
    async fn to_wait_for_releases_costs_no_more_when_more_wait() {
        let (few, many) = (checks(50).await, checks(200).await);
        assert!(
            many <= 5 * few && many <= 10 * 200,
            "{few} checks by 50 for 50 releases, {many} by 200 for 200"
        );
    }
}
