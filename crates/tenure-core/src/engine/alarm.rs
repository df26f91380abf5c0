//! Alarms: the worker wakes tasks at a given time, because the caller's runtime may have no timers. One timer serves
//! all alarms, and setting one wakes the worker only if it is earlier than all others.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::backend::Result;
use crate::engine::core::Core;
use crate::engine::worker::wake;

#[derive(Debug, Default)]
pub(crate) struct Alarms {
    set: Mutex<Set>,
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Set {
    wakers: BTreeMap<(Instant, u64), Waker>,
    /// When the worker checks next.
    planned: Option<Instant>,
    next: u64,
}

impl Alarms {
    fn set(&self, at: Instant, key: &mut Option<u64>, waker: &Waker) {
        let waker = waker.clone();
        let mut set = self.set.lock().unwrap();
        let n = *key.get_or_insert_with(|| {
            set.next += 1;
            set.next
        });
        let before = set.wakers.insert((at, n), waker);
        let sooner = set.planned.is_none_or(|planned| at < planned);
        if sooner {
            set.planned = Some(at);
        }
        drop(set);
        // Dropped outside the lock, for the reason given in `cancel`.
        drop(before);
        if sooner {
            self.sooner.notify_one();
        }
    }

    fn cancel(&self, at: Instant, n: u64) {
        let cancelled = self.set.lock().unwrap().wakers.remove(&(at, n));
        // Dropped outside the lock: it may be the last reference to a task.
        drop(cancelled);
    }

    /// Removes the alarms that are due, and returns their wakers and when to check next.
    fn due(&self, now: Instant) -> (Vec<Waker>, Option<Instant>) {
        let mut set = self.set.lock().unwrap();
        let mut due = Vec::new();
        while let Some(first) = set.wakers.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        set.planned = set.wakers.first_key_value().map(|((at, _), _)| *at);
        (due, set.planned)
    }
}

/// A future that completes at its time.
pub(crate) struct Alarm<'a> {
    alarms: &'a Alarms,
    at: Instant,
    key: Option<u64>,
}

impl Future for Alarm<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if Instant::now() >= this.at {
            return Poll::Ready(());
        }
        this.alarms.set(this.at, &mut this.key, cx.waker());
        Poll::Pending
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.alarms.cancel(self.at, key);
        }
    }
}

impl Core {
    pub(crate) fn alarm(self: &Arc<Self>, at: Instant) -> Result<Alarm<'_>> {
        self.ensure_threads()?;
        Ok(Alarm { alarms: &self.alarms, at, key: None })
    }

    pub(crate) async fn sleep(self: &Arc<Self>, d: Duration) -> Result<()> {
        self.alarm(Instant::now() + d)?.await;
        Ok(())
    }

    /// Runs `work` until `limit`; `None` if it takes longer. Work that completes in the first poll sets no alarm.
    pub(crate) async fn by<T>(
        self: &Arc<Self>,
        limit: Option<Instant>,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        let mut work = pin!(work);
        let Some(limit) = limit else { return Ok(Some(work.await)) };
        let mut alarm = pin!(self.alarm(limit)?);
        Ok(std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(out) => Poll::Ready(Some(out)),
            Poll::Pending => alarm.as_mut().poll(cx).map(|()| None),
        })
        .await)
    }

    /// Wakes the tasks whose alarms are due. Runs on the worker.
    pub(crate) async fn ring(self: Arc<Self>) {
        loop {
            let (due, next) = self.alarms.due(Instant::now());
            due.into_iter().for_each(wake);
            match next {
                None => self.alarms.sooner.notified().await,
                Some(at) => tokio::select! {
                    biased;
                    () = self.alarms.sooner.notified() => {}
                    () = sleep_until(at) => {}
                },
            }
        }
    }
}
