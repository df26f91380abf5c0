//! A watch in this process, together with what lets other processes wake it: the FIFO of its client, and, for counts
//! and holders, a registration in the ledger, which ends unless it is renewed.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tenure_core::backend::{Interest, Signal, Watch};
use tenure_core::{ClientId, Name};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::Result;
use crate::shared::Shared;
use crate::subscriber::Subscriber;

/// How old a registration is when the next call for a signal renews it.
const REGISTER_EVERY: Duration = Duration::from_secs(3);
/// How old it is when a call that still waits renews it. A registration lasts for longer than this. Waiters that poll
/// more often renew it with their calls.
const REGISTER_WHILE_WAITING: Duration =
    if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(6) };

/// A watch in this process, together with the FIFO through which other processes wake it.
pub(crate) struct SqliteWatch {
    inner: Box<dyn Watch>,
    subscriber: Option<Arc<Subscriber>>,
    registration: Option<Registration>,
}

impl SqliteWatch {
    pub(crate) async fn new(shared: &Arc<Shared>, name: &Name, interest: Interest<'_>) -> Result<Self> {
        let (client, must_register) = match interest {
            Interest::Claim(claim) => (claim.id.client, false),
            Interest::Count(client, _) | Interest::Holder(client) => (client, true),
        };
        let subscriber = shared.subscribe(client);
        let mut registration = None;
        if must_register {
            shared.register_watcher(name, client).await?;
            let (shared, name) = (shared.clone(), name.clone());
            registration = Some(Registration { shared, name, client, tried: Instant::now(), due: None });
        }
        // Not before it is registered, which wakes those who watch already.
        let inner = shared.watched.subscribe(name, interest);
        Ok(Self { inner, subscriber, registration })
    }
}

#[async_trait]
impl Watch for SqliteWatch {
    async fn signal(&mut self) -> Signal {
        let Some(registration) = &mut self.registration else { return self.inner.signal().await };
        if registration.tried.elapsed() >= REGISTER_EVERY {
            registration.renew().await;
        }
        loop {
            tokio::select! {
                biased;
                signal = self.inner.signal() => return signal,
                () = registration.due(), if self.subscriber.is_some() => registration.renew().await,
            }
        }
    }
}

/// The registration of a watcher in the ledger, which must be renewed.
struct Registration {
    shared: Arc<Shared>,
    name: Name,
    client: ClientId,
    tried: Instant,
    /// The sleep until a call that waits renews it. Kept between calls, because each sleep wakes the background thread.
    due: Option<JoinHandle<()>>,
}

impl Registration {
    async fn due(&mut self) {
        if self.due.is_none() {
            let left = REGISTER_WHILE_WAITING.saturating_sub(self.tried.elapsed());
            let handle = self.shared.background.handle().ok();
            self.due = handle.map(|handle| handle.spawn(async move { sleep(left).await }));
        }
        match &mut self.due {
            Some(due) => drop(due.await),
            // No thread can be started, and so nothing reads the FIFO either.
            None => pending().await,
        }
    }

    /// Registers again. A failure counts as an attempt, too: the next one follows soon enough, and notices what was
    /// missed meanwhile.
    async fn renew(&mut self) {
        (self.tried, self.due) = (Instant::now(), None);
        if let Err(error) = self.shared.register_watcher(&self.name, self.client).await {
            tracing::debug!(name = %self.name, %error, "not registered as a watcher, polling");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::task::Poll;

    use tenure_core::backend::{CountOp, Counter, OpId};
    use tenure_core::ledger::LedgerStore;
    use tenure_core::{Backend, Clock};
    use testbed::{done, until, within};

    use super::*;
    use crate::{Options, Sqlite};

    /// How long a registration lasts.
    const REGISTERED: Duration = Duration::from_secs(10);

    /// A latch that is watched in one store and counted down in another one, as that of another process.
    struct Latch {
        name: Name,
        clock: Clock,
        /// Who watches.
        client: ClientId,
        here: Sqlite,
        there: Sqlite,
        _tmp: tempfile::TempDir,
    }

    impl Latch {
        async fn new() -> Self {
            let tmp = tempfile::tempdir().unwrap();
            let (path, clock) = (tmp.path().join("locks.db"), Clock::manual());
            let open = || crate::open(&path, Options { clock: Some(clock.clone()), ..Options::default() });
            let (here, there) = (open().unwrap(), open().unwrap());
            let (name, client) = (Name::new("gate").unwrap(), ClientId::new());
            let latch = Self { name, clock, client, here, there, _tmp: tmp };
            latch.change(CountOp::Init(1)).await;
            latch
        }

        async fn change(&self, op: CountOp) {
            let id = OpId { client: ClientId::new(), n: 1, settled: 1 };
            assert!(self.there.count(&self.name, Counter::Latch, op, id).await.unwrap().applied);
        }

        async fn watch(&self) -> Box<dyn Watch> {
            self.here.watch(&self.name, Interest::Count(self.client, Counter::Latch)).await.unwrap()
        }

        /// How long the watcher stays registered.
        async fn registered_for(&self) -> Duration {
            let (ledger, now) = self.there.store().peek(&self.name).await.unwrap().unwrap();
            ledger.watchers.first().map_or(Duration::ZERO, |watcher| watcher.expiry.left(now))
        }
    }

    /// Polls it once.
    async fn begin<F: Future + Unpin>(signal: &mut F) {
        let polled = poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *signal).poll(cx))).await;
        assert!(polled.is_pending());
    }

    #[tokio::test]
    async fn a_watch_stays_registered_for_as_long_as_one_signal_is_waited_for() {
        let latch = Latch::new().await;
        let mut watch = latch.watch().await;
        let signal = tokio::spawn(async move { watch.signal().await });
        for _ in 0..3 {
            latch.clock.advance(REGISTERED / 2);
            until("registered again", async || latch.registered_for().await == REGISTERED).await;
        }
        latch.change(CountOp::Add(-1)).await;
        done("woken", signal).await;
        latch.clock.advance(REGISTERED);
        latch.change(CountOp::Init(1)).await;
        assert_eq!(latch.registered_for().await, Duration::ZERO, "one that is dropped goes");
    }

    #[tokio::test]
    async fn changes_before_a_watch_is_registered_are_noticed() {
        let latch = Latch::new().await;
        let (mut one, mut other) = (latch.watch().await, latch.watch().await);
        let (mut one, mut other) = (one.signal(), other.signal());
        begin(&mut one).await;
        begin(&mut other).await;
        latch.clock.advance(REGISTERED);
        latch.change(CountOp::Add(-1)).await;
        assert_eq!(latch.registered_for().await, Duration::ZERO, "it was too late");
        within("both look again", async { (one.await, other.await) }).await;
    }
}
