//! A store that does not answer: what callers are told of it, and what is left to undo.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure_core::backend::CountOp;
use tenure_core::testing::{Call, Fate, Faults};
use tenure_core::{Client, Clock, CountingSemaphore, Error, Lock, Memory, Result, Settings};
use testbed::{PATIENCE, done, until};
use tokio::task::JoinHandle;

use crate::puppet::{Act, Puppet};

const CALL_TIMEOUT: Duration = Duration::from_millis(200);

fn settings(call_timeout: Duration) -> Settings {
    let mut settings = Settings::default();
    (settings.poll, settings.call_timeout) = (Some(Duration::from_millis(10)), call_timeout);
    settings
}

/// How attempts and takes fare, and how many there were.
#[derive(Debug, Default)]
struct Network {
    /// They never arrive, and the caller knows.
    refuses: AtomicBool,
    /// They never arrive, and the caller does not know.
    loses: AtomicBool,
    asked: AtomicUsize,
    failed: AtomicUsize,
    undos: AtomicUsize,
}

impl Network {
    fn client(self: &Arc<Self>, memory: &Arc<Memory>) -> Client {
        let network = self.clone();
        let plan = move |call: Call<'_>| {
            match call {
                Call::TryAcquire(_) | Call::Count(_, CountOp::TakeIfAtLeast(_)) => {}
                Call::Count(_, CountOp::Undo(_)) => {
                    network.undos.fetch_add(1, SeqCst);
                    return Fate::default();
                }
                _ => return Fate::default(),
            }
            network.asked.fetch_add(1, SeqCst);
            let (refused, request_lost) = (network.refuses.load(SeqCst), network.loses.load(SeqCst));
            network.failed.fetch_add(usize::from(refused || request_lost), SeqCst);
            Fate { refused, request_lost, ..Fate::default() }
        };
        Client::with(Arc::new(Faults::new(memory.clone(), plan)), settings(CALL_TIMEOUT))
    }

    /// What is told to somebody who waits when the store does not answer any more. On a busy machine the wait may be
    /// over before it has been silent for long.
    async fn goes_down_while<F>(&self, wait: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let attempt = async || {
            let waiting = tokio::spawn(wait());
            tokio::time::sleep(CALL_TIMEOUT).await;
            let before = self.failed.load(SeqCst);
            self.refuses.store(true, SeqCst);
            until("it fails", || async { self.failed.load(SeqCst) > before || waiting.is_finished() }).await;
            let began = Instant::now();
            let told = done("told", waiting).await;
            self.refuses.store(false, SeqCst);
            (began.elapsed() > CALL_TIMEOUT * 10).then_some(told)
        };
        loop {
            if let Some(told) = attempt().await {
                return told;
            }
        }
    }

    /// Somebody who takes a seat and has found none: once by itself, and once in the driver.
    async fn taker(&self, seats: &CountingSemaphore) -> JoinHandle<Result<()>> {
        let (seats, before) = (seats.clone(), self.asked.load(SeqCst));
        let taking = tokio::spawn(async move { seats.acquire(1).await });
        until("it waits", || async { self.asked.load(SeqCst) >= before + 2 }).await;
        taking
    }

    async fn fails(&self, times: usize) {
        let before = self.failed.load(SeqCst);
        until("it fails", || async { self.failed.load(SeqCst) >= before + times }).await;
    }
}

/// Much longer than a call may take to be answered.
const WAIT: Duration = Duration::from_secs(3);

async fn wait_for(lock: Lock) -> Result<()> {
    lock.try_acquire_for(WAIT).await.map(drop)
}

async fn take_from(count: CountingSemaphore) -> Result<()> {
    count.try_acquire_for(1, WAIT).await.map(drop)
}

/// The wait is over while the store does not answer: that is an error, and not the same as busy.
#[tokio::test]
async fn a_wait_that_ends_while_the_store_is_down_is_not_busy() {
    let (network, memory) = (Arc::new(Network::default()), Arc::new(Memory::new()));
    let client = network.client(&memory);
    let held = client.lock("x").acquire().await.unwrap();
    let short = Duration::from_millis(30);
    let patient = Client::with(memory.clone(), settings(PATIENCE));
    assert!(patient.lock("x").try_acquire_for(short).await.unwrap().is_none(), "busy");
    assert!(!patient.counting_semaphore("n").try_acquire_for(1, short).await.unwrap(), "busy");
    let (lock, count) = (client.lock("x"), client.counting_semaphore("n"));
    let told = [
        network.goes_down_while(|| wait_for(lock.clone())).await,
        network.goes_down_while(|| take_from(count.clone())).await,
    ];
    for told in told {
        assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
    }
    held.release().await.unwrap();
    assert!(client.lock("x").try_acquire().await.unwrap().is_some(), "nothing is left");
}

/// The store was not ready for its own attempt, and has answered nobody since: nothing is known, however short that was.
#[tokio::test]
async fn a_wait_that_was_never_answered_is_not_busy() {
    let store = Puppet::new(&Clock::boot());
    let client = store.client(|settings| settings.call_timeout = PATIENCE);
    let mut asked = 0;
    store.tell(move |call| match call {
        crate::puppet::Call::Acquire(_) if asked == 0 => {
            asked += 1;
            Act::NotReady
        }
        crate::puppet::Call::Acquire(_) => Act::Fail,
        _ => Act::Pass,
    });
    let told = client.lock("x").try_acquire_for(Duration::from_millis(100)).await;
    assert!(matches!(told, Err(Error::Unavailable { .. })), "{told:?}");
}

/// Takes that certainly were not executed leave nothing to undo, however many there were.
#[tokio::test]
async fn a_take_that_was_not_executed_is_not_undone() {
    let (network, memory) = (Arc::new(Network::default()), Arc::new(Memory::new()));
    let client = network.client(&memory);
    network.refuses.store(true, SeqCst);
    let seats = client.counting_semaphore("seats");
    assert!(matches!(seats.try_acquire(1).await, Err(Error::Unavailable { .. })));
    network.refuses.store(false, SeqCst);
    let taking = network.taker(&seats).await;
    network.refuses.store(true, SeqCst);
    network.fails(7).await;
    network.refuses.store(false, SeqCst);
    seats.release(1).await.unwrap();
    done("taken", taking).await.unwrap();
    // Nor by one who gives up.
    let taking = network.taker(&seats).await;
    network.refuses.store(true, SeqCst);
    network.fails(7).await;
    taking.abort();
    assert!(taking.await.unwrap_err().is_cancelled());
    network.refuses.store(false, SeqCst);
    client.close().await.unwrap();
    assert_eq!(network.undos.load(SeqCst), 0);
    assert_eq!(network.client(&memory).counting_semaphore("seats").available().await.unwrap(), 0);
}

/// Takes of one waiter that were not answered are repeated as one, and whoever gives up undoes that one.
#[tokio::test]
async fn takes_that_were_not_answered_are_undone_as_one() {
    let (network, memory) = (Arc::new(Network::default()), Arc::new(Memory::new()));
    let client = network.client(&memory);
    let seats = client.counting_semaphore("seats");
    for gives_up in [false, true] {
        let taking = network.taker(&seats).await;
        network.loses.store(true, SeqCst);
        network.fails(7).await;
        if gives_up {
            taking.abort();
            until("undone", || async { network.undos.load(SeqCst) > 0 }).await;
            network.loses.store(false, SeqCst);
        } else {
            network.loses.store(false, SeqCst);
            seats.release(1).await.unwrap();
            done("taken", taking).await.unwrap();
            assert_eq!(network.undos.load(SeqCst), 0);
        }
    }
    client.close().await.unwrap();
    assert_eq!(network.undos.load(SeqCst), 1);
    assert_eq!(network.client(&memory).counting_semaphore("seats").available().await.unwrap(), 0);
}
