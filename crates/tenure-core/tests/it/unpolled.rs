//! First attempts that the store has answered to nobody, on a clock that stands until it is moved.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Released, Renewal, Watch,
};
use tenure_core::{Claim, Client, Clock, Error, HoldId, Memory, Name, OpId, Owner, Result, Settings};
use testbed::{done, until, within};
use tokio::sync::watch;

const SECOND: Duration = Duration::from_secs(1);
/// Of the default lease.
const THIRD: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);
/// For how long something is watched that shall not happen.
const A_WHILE: Duration = Duration::from_millis(30);

/// A store that does at once what it is asked, and keeps some answers back until it is told otherwise.
#[derive(Debug)]
struct Slow {
    inner: Memory,
    /// The call that is not answered, `acquire x` say.
    mute: watch::Sender<String>,
    tried: Mutex<Vec<HoldId>>,
    polled_dead: AtomicUsize,
    released: Mutex<Vec<HoldId>>,
}

impl Slow {
    fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            inner: Memory::with_clock(clock.clone()),
            mute: watch::Sender::default(),
            tried: Mutex::default(),
            polled_dead: AtomicUsize::new(0),
            released: Mutex::default(),
        })
    }

    fn mute(&self, call: &str) {
        self.mute.send_replace(call.to_owned());
    }

    fn answer(&self) {
        self.mute("");
    }

    async fn may_answer(&self, call: String, of: Option<HoldId>) {
        let mut muted = self.mute.subscribe();
        let mut may = pin!(muted.wait_for(|mute| *mute != call));
        std::future::poll_fn(|cx| {
            let dead = of.is_some_and(|id| self.released.lock().unwrap().contains(&id));
            self.polled_dead.fetch_add(usize::from(dead), SeqCst);
            may.as_mut().poll(cx).map(drop)
        })
        .await;
    }

    fn tries(&self) -> Vec<HoldId> {
        self.tried.lock().unwrap().clone()
    }
}

#[async_trait]
impl Backend for Slow {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.tried.lock().unwrap().push(claim.id);
        let answer = self.inner.try_acquire(claim).await;
        self.may_answer(format!("acquire {}", claim.name), Some(claim.id)).await;
        answer
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.inner.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        self.inner.renew(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        self.released.lock().unwrap().push(claim.id);
        let released = self.inner.release(claim, left).await;
        self.may_answer(format!("release {}", claim.name), None).await;
        released
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        let reply = self.inner.count(name, counter, op, id).await;
        if matches!(op, CountOp::TakeIfAtLeast(_)) {
            self.may_answer(format!("take {name}"), None).await;
        }
        reply
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin()
    }
}

/// Two clients of one slow store.
fn world() -> (Clock, Arc<Slow>, Client, Client) {
    let clock = Clock::manual();
    let store = Slow::new(&clock);
    let client = || Client::with(store.clone(), Settings::default());
    let (a, b) = (client(), client());
    (clock, store, a, b)
}

/// How often a task was woken that does not poll by itself.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll_once<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
    work.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls it once, in a task that does not poll again.
fn poll_and_leave<F: Future>(work: Pin<&mut F>) -> Arc<Woken> {
    let woken = Arc::new(Woken::default());
    assert!(work.poll(&mut Context::from_waker(&Waker::from(woken.clone()))).is_pending());
    woken
}

/// Lets `third` of a lease pass, exactly: after three quarters of that the task is woken, and has left its future alone if
/// it does not poll then.
async fn a_third_passes(clock: &Clock, third: Duration, woken: &Woken) {
    let before = woken.0.load(SeqCst);
    clock.advance(third - third / 4 - MOMENT);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(woken.0.load(SeqCst), before, "nobody is in suspicion yet");
    clock.advance(MOMENT);
    until("it is asked whether anybody polls", || async { woken.0.load(SeqCst) > before }).await;
    clock.advance((third / 4).max(Duration::from_millis(50)));
}

#[tokio::test]
async fn a_grant_that_nobody_collects_goes_back_after_a_third_of_the_lease() {
    let (clock, store, a, b) = world();
    for kind in ["lock", "fair", "write", "read", "permit", "leader"] {
        let of = |client: &Client| match kind {
            "fair" => client.lock(kind).fair(),
            "write" => client.rwlock(kind).write(),
            "read" => client.rwlock(kind).read(),
            "permit" => client.semaphore(kind, 1).permits(1),
            _ => client.lock(kind),
        };
        let (lock, election) = (of(&a).lease(600 * SECOND), a.election(kind).lease(600 * SECOND));
        store.mute(&format!("acquire {kind}"));
        let mut left = Box::pin(async {
            if kind == "leader" { election.campaign().await } else { lock.acquire().await }
        });
        let woken = poll_and_leave(left.as_mut());
        store.answer();
        let first = *store.tries().last().expect("sent");
        assert!(b.lock(kind).is_locked().await.unwrap(), "the store has granted it");
        a_third_passes(&clock, THIRD, &woken).await;
        until("it is free", || async { !b.lock(kind).is_locked().await.unwrap() }).await;
        // Others use it meanwhile; whoever comes back to the future begins anew.
        let other = if kind == "read" { b.rwlock(kind).write() } else { of(&b) };
        let other = within("others get in", other.acquire()).await.unwrap();
        assert!(poll_once(left.as_mut()).is_pending(), "{kind}: two are inside");
        other.release().await.unwrap();
        let guard = within("it begins anew", left).await.unwrap();
        assert_ne!(guard.id(), first, "{kind}: its id is dead");
        assert!(guard.is_held() && b.lock(kind).is_locked().await.unwrap());
        assert_eq!(store.tries().iter().filter(|id| **id == first).count(), 1);
        assert_eq!(store.polled_dead.load(SeqCst), 0, "{kind}: polled although it was undone");
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_place_in_a_queue_that_nobody_knows_of_is_given_up() {
    let (clock, store, a, b) = world();
    let held = b.lock("x").fair().acquire().await.unwrap();
    store.mute("acquire x");
    let lock = a.lock("x").fair();
    let mut left = Box::pin(lock.acquire());
    let woken = poll_and_leave(left.as_mut());
    store.answer();
    let first = *store.tries().last().expect("sent");
    assert_eq!(b.lock("x").waiters().await.unwrap().len(), 1);
    a_third_passes(&clock, THIRD, &woken).await;
    until("it is given up", || async { store.released.lock().unwrap().contains(&first) }).await;
    // It queues anew, behind one who came later and was there.
    let next = tokio::spawn({
        let lock = b.lock("x").fair();
        async move { lock.acquire().await.unwrap() }
    });
    until("another waits", || async { !b.lock("x").waiters().await.unwrap().is_empty() }).await;
    assert!(poll_once(left.as_mut()).is_pending());
    held.release().await.unwrap();
    let next = done("the one before it", next).await;
    assert!(poll_once(left.as_mut()).is_pending());
    let fence = next.fence();
    next.release().await.unwrap();
    assert!(within("its turn comes", left).await.unwrap().fence() > fence);
}

#[tokio::test]
async fn a_store_that_is_slow_is_waited_for() {
    let (clock, store, a, b) = world();
    store.mute("acquire x");
    let polls = Arc::new(AtomicUsize::new(0));
    let acquire = tokio::spawn({
        let (lock, polls) = (a.lock("x").lease(86_400 * SECOND), polls.clone());
        async move {
            let mut acquire = pin!(lock.acquire());
            std::future::poll_fn(|cx| {
                polls.fetch_add(1, SeqCst);
                acquire.as_mut().poll(cx)
            })
            .await
        }
    });
    // Asked again and again whether anybody polls it, it is not given up while somebody does.
    for times in 1..=3 {
        // However long the keeper takes, on a thread of its own: it asks once in a while, by the clock.
        until("it is asked", || async {
            clock.advance(SECOND);
            polls.load(SeqCst) > times
        })
        .await;
    }
    assert!(b.lock("x").is_locked().await.unwrap());
    store.answer();
    let guard = done("it is answered", acquire).await.unwrap();
    assert!(guard.is_held());
    assert_eq!(store.tries(), [guard.id()], "it was tried once");
}

#[tokio::test]
async fn permits_that_nobody_knows_of_come_back() {
    let (clock, store, a, b) = world();
    let (seats, look) = (a.counting_semaphore("seats"), b.counting_semaphore("seats"));
    seats.try_set(3).await.unwrap();
    store.mute("take seats");
    let mut left = Box::pin(seats.acquire(2));
    let woken = poll_and_leave(left.as_mut());
    store.answer();
    assert_eq!(look.available().await.unwrap(), 1);
    a_third_passes(&clock, THIRD, &woken).await;
    until("they are back", || async { look.available().await.unwrap() == 3 }).await;
    within("they are taken anew", left).await.unwrap();
    assert_eq!(look.available().await.unwrap(), 1);
}

#[tokio::test]
async fn a_multi_lock_left_half_way_gives_back_what_it_has() {
    let (clock, store, a, b) = world();
    let both = tenure_core::multi([a.lock("x"), a.lock("y")]);
    store.mute("acquire y");
    let mut left = Box::pin(both.acquire());
    let woken = poll_and_leave(left.as_mut());
    assert!(b.lock("x").is_locked().await.unwrap() && b.lock("y").is_locked().await.unwrap());
    // The first has its guard, and would be renewed for ever.
    a_third_passes(&clock, THIRD, &woken).await;
    for name in ["x", "y"] {
        until("it is free", || async { !b.lock(name).is_locked().await.unwrap() }).await;
    }
    store.answer();
    let all = within("it begins anew", left).await.unwrap();
    assert!(all.is_held());
    // Those that come later in a release are not held until their turn comes.
    store.mute("release x");
    let mut release = Box::pin(all.release());
    assert!(poll_once(release.as_mut()).is_pending());
    assert!(!b.lock("y").is_locked().await.unwrap());
    store.answer();
    within("released", release).await.unwrap();
}

#[tokio::test]
async fn an_owner_that_came_in_by_another_task_enters_again() {
    let clock = Clock::manual();
    let store = Slow::new(&clock);
    let mut settings = Settings::default();
    settings.lease = SECOND / 2;
    let client = Client::with(store.clone(), settings);
    let lock = client.lock("x").owner(&Owner::new());
    store.mute("acquire x");
    let mut left = Box::pin(lock.try_acquire());
    let woken = poll_and_leave(left.as_mut());
    store.answer();
    let first = store.tries()[0];
    a_third_passes(&clock, SECOND / 6, &woken).await;
    until("it is given up", || async { store.released.lock().unwrap().contains(&first) }).await;
    // Behind one that nobody polls it waits for its turn no longer than a third of the lease.
    let guard = within("its turn", lock.acquire()).await.unwrap();
    let again = within("the other", left).await.unwrap().expect("its owner is inside");
    assert_eq!((again.id(), again.reentry_count()), (guard.id(), 2));
}

#[tokio::test]
async fn closing_takes_back_what_nobody_collected() {
    let (_, store, a, b) = world();
    store.mute("acquire x");
    let lock = a.rwlock("x").read();
    let mut left = Box::pin(lock.acquire());
    assert!(poll_once(left.as_mut()).is_pending());
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    until("both are inside", || async { b.lock("x").holders().await.unwrap().len() == 2 }).await;
    a.close().await.unwrap();
    assert!(!b.lock("x").is_locked().await.unwrap());
    assert!(
        matches!(done("it is told", waits).await, Err(Error::Closed)),
        "told at once, though nothing was answered"
    );
    assert!(matches!(left.await, Err(Error::Closed)));
}
