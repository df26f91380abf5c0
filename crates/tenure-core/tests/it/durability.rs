//! How many copies a hold asks for, with each command that grants or extends it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Released, Renewal, Watch,
};
use tenure_core::{Claim, Client, Clock, Durability, Memory, Name, OpId, Owner, Result, Settings};
use testbed::until;

use Durability::{Master, Replicas};

/// A store with copies, which notes how many it was asked for.
#[derive(Debug)]
struct Copied {
    inner: Memory,
    info: Info,
    asked: Mutex<Vec<(u32, Durability)>>,
}

impl Copied {
    fn new(clock: &Clock) -> Arc<Self> {
        let inner = Memory::with_clock(clock.clone());
        let mut info = inner.info().clone();
        info.durable = true;
        Arc::new(Self { inner, info, asked: Mutex::default() })
    }

    /// How many times inside and how many copies, for each command since the last look.
    fn asked(&self) -> Vec<(u32, Durability)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

#[async_trait]
impl Backend for Copied {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.asked.lock().unwrap().push((claim.holds, claim.durability));
        self.inner.try_acquire(claim).await
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.inner.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        self.asked.lock().unwrap().extend(claims.iter().map(|c| (0, c.durability)));
        self.inner.renew(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        self.inner.release(claim, left).await
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        self.inner.count(name, counter, op, id).await
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin()
    }
}

/// The copies that the next renewal or proof asks for, which `cause` brings about.
async fn renewal(store: &Copied, cause: impl FnOnce()) -> Durability {
    store.asked();
    cause();
    let renewed = || store.asked.lock().unwrap().iter().find(|(holds, _)| *holds == 0).map(|a| a.1);
    until("something is renewed", || async { renewed().is_some() }).await;
    renewed().unwrap()
}

/// Renewals come every third of a lease of half a minute.
fn time_for_one(clock: &Clock) -> impl FnOnce() {
    || clock.advance(Duration::from_secs(10))
}

#[tokio::test]
async fn the_settings_hold_unless_the_template_says_otherwise() {
    let clock = Clock::manual();
    let store = Copied::new(&clock);
    let mut settings = Settings::default();
    assert_eq!(settings.durability, Master);
    settings.durability = Replicas(1);
    let client = Client::with(store.clone(), settings);
    client.lock("x").acquire().await.unwrap().release().await.unwrap();
    client.lock("x").durability(Master).acquire().await.unwrap().release().await.unwrap();
    client.election("x").durability(Replicas(2)).campaign().await.unwrap().release().await.unwrap();
    client.rwlock("y").write().durability(Replicas(3)).acquire().await.unwrap().release().await.unwrap();
    let permit = client.semaphore("z", 2).permits(1).durability(Replicas(4));
    permit.acquire().await.unwrap().release().await.unwrap();
    let expected = [Replicas(1), Master, Replicas(2), Replicas(3), Replicas(4)].map(|d| (1, d));
    assert_eq!(store.asked(), expected);
}

#[tokio::test]
async fn waiting_and_renewing_ask_for_the_same() {
    let clock = Clock::manual();
    let store = Copied::new(&clock);
    let client = Client::with(store.clone(), Settings::default());
    let held = client.lock("x").acquire().await.unwrap();
    store.asked();
    let waiting = tokio::spawn({
        let lock = client.lock("x").durability(Replicas(2));
        async move { lock.acquire().await.unwrap() }
    });
    until("it waits", || async { !client.lock("x").waiters().await.unwrap().is_empty() }).await;
    held.release().await.unwrap();
    let guard = testbed::done("it gets in", waiting).await;
    let asked = store.asked();
    assert!(asked.len() >= 3 && asked.iter().all(|a| *a == (1, Replicas(2))), "{asked:?}");
    assert_eq!(renewal(&store, time_for_one(&clock)).await, Replicas(2));
    drop(guard);
}

#[tokio::test]
async fn a_reentry_asks_for_no_less_than_the_hold_has() {
    let clock = Clock::manual();
    let store = Copied::new(&clock);
    let client = Client::with(store.clone(), Settings::default());
    let lock = client.lock("x").owner(&Owner::new());
    let outer = lock.acquire().await.unwrap();
    let inner = lock.clone().durability(Replicas(2)).acquire().await.unwrap();
    let innermost = lock.clone().durability(Replicas(1)).acquire().await.unwrap();
    assert_eq!(store.asked(), [(1, Master), (2, Replicas(2)), (3, Replicas(2))]);
    assert_eq!(renewal(&store, time_for_one(&clock)).await, Replicas(2));
    inner.release().await.unwrap();
    assert_eq!(renewal(&store, time_for_one(&clock)).await, Replicas(2), "it stays with the hold");
    let proof = renewal(&store, || store.info().suspicion.raise()).await;
    assert_eq!(proof, Replicas(2), "a hold in suspicion is proved by as many");
    drop((innermost, outer));
}
