//! Owners that wait for each other: one is told, and only of what cannot end by itself.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Client, Clock, Deadlock, Deadlocks, Error, Guard, Lock, Memory, Owner, Result, Settings};
use testbed::{done, until, within};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::puppet::Puppet;

/// How long those are watched who shall go on waiting.
const WHILE: Duration = Duration::from_millis(100);

fn client(deadlocks: Deadlocks) -> Client {
    let mut settings = Settings::default();
    settings.deadlocks = deadlocks;
    Client::with(Arc::new(Memory::new()), settings)
}

/// A task that holds one thing, and waits for another when it is told to.
struct Party {
    go: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
}

impl Party {
    /// Returns once it holds `first`.
    async fn holding(first: Lock, then: Lock) -> Self {
        let (go, told) = oneshot::channel();
        let (holds, held) = oneshot::channel();
        let task = tokio::spawn(async move {
            let one = first.acquire().await?;
            holds.send(()).unwrap();
            told.await.unwrap();
            let two = then.acquire().await?;
            two.release().await?;
            one.release().await
        });
        within("it holds the first", held).await.unwrap();
        Self { go: Some(go), task }
    }

    /// Lets it wait, and returns once that is seen in the store.
    async fn wait_for(&mut self, lock: &Lock, waiters: usize) {
        self.go.take().unwrap().send(()).unwrap();
        until("it is seen to wait", || async { lock.waiters().await.unwrap().len() >= waiters }).await;
    }

    fn go(&mut self) {
        self.go.take().unwrap().send(()).unwrap();
    }

    async fn end(self) -> Result<()> {
        done("it ends", self.task).await
    }
}

fn told(result: Result<()>) -> Deadlock {
    match result {
        Err(Error::Deadlock(deadlock)) => deadlock,
        other => panic!("not told: {other:?}"),
    }
}

#[tokio::test]
async fn the_one_that_closes_the_circle_is_told_and_the_other_goes_on() {
    let client = client(Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let lock = |name: &str, owner| client.lock(name).owner(owner);
    let mut one = Party::holding(lock("a", &x).note("billing"), lock("b", &x)).await;
    let mut two = Party::holding(lock("b", &y), lock("a", &y)).await;
    one.wait_for(&client.lock("b"), 1).await;
    two.go();
    let deadlock = told(two.end().await);
    assert_eq!((deadlock.backend, deadlock.name.as_str()), ("memory", "a"));
    let links: Vec<_> = deadlock.cycle.iter().map(ToString::to_string).collect();
    let number = |owner: &Owner| format!("{owner:?}").replace(|c: char| !c.is_ascii_digit(), "");
    assert_eq!(
        links,
        [
            format!("owner {} holds b and waits for a", number(&y)),
            format!("owner {} (billing) holds a and waits for b", number(&x)),
        ]
    );
    assert_eq!(deadlock.cycle[0].owner, y);
    let message = deadlock.to_string();
    assert!(
        message.starts_with(&format!("memory: waiting for a would never end: {}, ", links[0])),
        "{message}"
    );
    one.end().await.unwrap();
}

#[tokio::test]
async fn a_circle_of_many_is_shown_in_order() {
    let client = client(Deadlocks::Report);
    let mut parties = Vec::new();
    for n in 0..5 {
        let me = Owner::new();
        let lock = |n: usize| client.lock(format!("n{}", n % 5)).owner(&me);
        parties.push(Party::holding(lock(n), lock(n + 1)).await);
    }
    for (n, party) in parties.iter_mut().enumerate().take(4) {
        party.wait_for(&client.lock(format!("n{}", n + 1)), 1).await;
    }
    let mut last = parties.pop().unwrap();
    last.go();
    let deadlock = told(last.end().await);
    let names: Vec<_> = deadlock.cycle.iter().map(|l| (l.holds.as_str(), l.waits_for.as_str())).collect();
    assert_eq!(names, [("n4", "n0"), ("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n3", "n4")]);
    for party in parties {
        party.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_writer_and_a_reader_can_stand_in_a_circle_and_queued_places_are_given_up() {
    let client = client(Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let (stock, till) = (client.rwlock("stock"), client.lock("till").fair());
    let mut one = Party::holding(stock.read().owner(&x), till.clone().owner(&x)).await;
    let mut two = Party::holding(till.clone().owner(&y), stock.write().owner(&y)).await;
    one.wait_for(&till, 1).await;
    two.go();
    told(two.end().await);
    one.end().await.unwrap();
    // A writer that was told stands in nobody's way.
    let reader = within("a reader gets in", stock.read().acquire()).await.unwrap();
    reader.release().await.unwrap();
    until("its place is given up", || async { stock.waiters().await.unwrap().is_empty() }).await;
}

/// `one` holds "a" and waits for "b"; `two` holds "b", waits for "a", and is not told.
async fn no_deadlock_is_reported(client: &Client, one: Lock, one_then: Lock, two: Lock, two_then: Lock) {
    let mut one = Party::holding(one, one_then).await;
    let mut two = Party::holding(two, two_then).await;
    one.wait_for(&client.lock("b"), 1).await;
    two.go();
    let mut tasks = (one.task, two.task);
    let ended = timeout(WHILE, async {
        tokio::select! { r = &mut tasks.0 => r, r = &mut tasks.1 => r }
    })
    .await;
    assert!(ended.is_err(), "{ended:?}");
    // Both before either is awaited, or the one that is left would get in.
    tasks.0.abort();
    tasks.1.abort();
    for task in [tasks.0, tasks.1] {
        assert!(within("it is cancelled", task).await.unwrap_err().is_cancelled());
    }
    // What was cancelled has left the graph: the same names are taken in turn, by others.
    let me = Owner::new();
    for names in [["a", "b"], ["b", "a"]] {
        let mut held: Vec<Guard> = Vec::new();
        for name in names {
            held.push(within("it is free", client.lock(name).owner(&me).acquire()).await.unwrap());
        }
        for guard in held {
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn deadlocks_are_reported_only_if_enabled() {
    let client = client(Deadlocks::Ignore);
    let (x, y) = (Owner::new(), Owner::new());
    let lock = |name: &str, owner| client.lock(name).owner(owner);
    no_deadlock_is_reported(&client, lock("a", &x), lock("b", &x), lock("b", &y), lock("a", &y)).await;
}

#[tokio::test]
async fn a_hold_that_ends_by_itself_is_no_deadlock() {
    let minute = Duration::from_secs(60);
    for ends in [|l: Lock, d| l.lease(d), |l: Lock, d| l.max_hold(d)] {
        let client = client(Deadlocks::Report);
        let (x, y) = (Owner::new(), Owner::new());
        let lock = |name: &str, owner| client.lock(name).owner(owner);
        no_deadlock_is_reported(
            &client,
            ends(lock("a", &x), minute),
            lock("b", &x),
            lock("b", &y),
            lock("a", &y),
        )
        .await;
        no_deadlock_is_reported(
            &client,
            lock("a", &x),
            lock("b", &x),
            ends(lock("b", &y), minute),
            lock("a", &y),
        )
        .await;
    }
}

#[tokio::test]
async fn owners_without_a_name_are_not_looked_at() {
    let client = client(Deadlocks::Report);
    let lock = |name: &str| client.lock(name);
    no_deadlock_is_reported(&client, lock("a"), lock("b"), lock("b"), lock("a")).await;
}

#[tokio::test]
async fn a_wait_with_a_limit_is_no_deadlock() {
    let client = client(Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let mut one = Party::holding(client.lock("a").owner(&x), client.lock("b").owner(&x)).await;
    let b = client.lock("b").owner(&y).acquire().await.unwrap();
    one.wait_for(&client.lock("b"), 1).await;
    assert!(client.lock("a").owner(&y).try_acquire_for(WHILE).await.unwrap().is_none());
    b.release().await.unwrap();
    one.end().await.unwrap();
}

/// An owner that acts in two tasks is not stuck when one of them waits: the other may release.
#[tokio::test]
async fn an_owner_in_two_tasks_is_not_stuck() {
    let client = client(Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    // It is held here, and waited for in the task.
    let a = client.lock("a").owner(&x).acquire().await.unwrap();
    let mut one = Party::holding(client.lock("other").owner(&x), client.lock("b").owner(&x)).await;
    let mut two = Party::holding(client.lock("b").owner(&y), client.lock("a").owner(&y)).await;
    one.wait_for(&client.lock("b"), 1).await;
    two.wait_for(&client.lock("a"), 1).await;
    a.release().await.unwrap();
    two.end().await.unwrap();
    one.end().await.unwrap();
}

/// No deadlock is reported where the hold began in the waiting task but was also entered from another one.
#[tokio::test]
async fn a_hold_entered_by_another_task_may_be_released_there() {
    let client = client(Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let mut one = Party::holding(client.lock("a").owner(&x), client.lock("b").owner(&x)).await;
    let entered = client.lock("a").owner(&x).acquire().await.unwrap();
    let mut two = Party::holding(client.lock("b").owner(&y), client.lock("a").owner(&y)).await;
    one.wait_for(&client.lock("b"), 1).await;
    two.go();
    let ended = timeout(WHILE, &mut two.task).await;
    assert!(ended.is_err(), "{ended:?}");
    two.task.abort();
    within("it is free", one.end()).await.unwrap();
    entered.release().await.unwrap();
}

/// Any holder of a permit may give one back.
#[tokio::test]
async fn a_wait_for_a_permit_is_no_wait_for_one_holder() {
    let client = client(Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let seats = client.semaphore("seats", 2);
    let other = seats.acquire().await.unwrap();
    let (taken, seat_taken) = oneshot::channel();
    let (go, told) = oneshot::channel::<()>();
    let holds = tokio::spawn({
        let (seats, a) = (seats.clone(), client.lock("a"));
        async move {
            let work = async {
                let seat = seats.acquire().await?;
                taken.send(()).unwrap();
                told.await.unwrap();
                a.acquire().await?.release().await?;
                seat.release().await
            };
            y.scope(work).await
        }
    });
    within("the last seat is taken", seat_taken).await.unwrap();
    let waits = tokio::spawn({
        let (seats, a) = (seats.clone(), client.lock("a"));
        async move {
            let work = async {
                let held = a.acquire().await?;
                seats.acquire().await?.release().await?;
                held.release().await
            };
            x.scope(work).await
        }
    });
    until("it waits for a seat", || async { !seats.waiters().await.unwrap().is_empty() }).await;
    go.send(()).unwrap();
    let a = client.lock("a");
    until("and the other for it", || async { !a.waiters().await.unwrap().is_empty() }).await;
    other.release().await.unwrap();
    done("both go on", waits).await.unwrap();
    done("both go on", holds).await.unwrap();
}

/// Several locks as one never wait while holding, so that they stand in no circle.
#[tokio::test]
async fn multi_locks_in_both_orders_are_never_told() {
    let client = client(Deadlocks::Report);
    let mut tasks = Vec::new();
    for n in 0..8 {
        let me = Owner::new();
        let names = if n % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
        let both = tenure_core::multi(names.map(|name| client.lock(name).owner(&me)));
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                both.acquire().await?.release().await?;
            }
            Ok::<_, Error>(())
        }));
    }
    for task in tasks {
        done("all take their turns", task).await.unwrap();
    }
}

/// Threads that block outside of any task.
#[test]
fn threads_that_block_are_told_too() {
    let client = client(Deadlocks::Report);
    let meet = std::sync::Barrier::new(2);
    let run = |first: &str, then: &str| -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let me = Owner::new();
        let one = runtime.block_on(client.lock(first).owner(&me).acquire())?;
        meet.wait();
        let two = runtime.block_on(client.lock(then).owner(&me).acquire())?;
        runtime.block_on(two.release())?;
        runtime.block_on(one.release())
    };
    std::thread::scope(|threads| {
        let other = threads.spawn(|| run("b", "a"));
        let results = [run("a", "b"), other.join().unwrap()];
        assert_eq!(results.iter().filter(|r| matches!(r, Err(Error::Deadlock(_)))).count(), 1, "{results:?}");
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1, "{results:?}");
    });
}

#[tokio::test]
async fn a_fair_lock_and_a_lock_of_one_name_wait_for_each_other() {
    let client = client(Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let lock = |name: &str, owner| client.lock(name).owner(owner);
    let mut one = Party::holding(lock("a", &x), lock("b", &x).fair()).await;
    let mut two = Party::holding(lock("b", &y), lock("a", &y).fair()).await;
    one.wait_for(&client.lock("b"), 1).await;
    two.go();
    told(two.end().await);
    one.end().await.unwrap();
}

/// On a store where readers are verified now and then, that is no reason to expect that they end by themselves.
#[tokio::test]
async fn readers_that_are_verified_now_and_then_are_waited_for() {
    let store = Puppet::like(&Clock::manual(), |mut info| {
        info.shared_proof = Some(Duration::from_secs(1));
        info
    });
    let client = store.client(|settings| settings.deadlocks = Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let read = |name: &str, owner| client.rwlock(name).read().owner(owner);
    let write = |name: &str, owner| client.rwlock(name).write().owner(owner);
    let mut one = Party::holding(read("a", &x), write("b", &x)).await;
    let mut two = Party::holding(read("b", &y), write("a", &y)).await;
    one.wait_for(&client.rwlock("b").read(), 1).await;
    two.go();
    told(two.end().await);
    one.end().await.unwrap();
}
