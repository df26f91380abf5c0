//! Calls inside calls enter again what those around them hold, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Client, Error, Fence, Result, distributed_lock};
use testbed::within;

use super::harness::{Room, memory, on_each_store};

on_each_store!(two_functions_that_call_each_other, branches_inside_one_call, a_list_with_a_name_that_is_held);

async fn two_functions_that_call_each_other(client: Client) {
    #[distributed_lock(key = 7, prefix = "account", client = client)]
    async fn even(client: &Client, n: u32) -> Result<Vec<Option<Fence>>> {
        let mut fences = vec![tenure::current().unwrap().fence()];
        if n > 0 {
            fences.extend(Box::pin(odd(client, n - 1)).await?);
        }
        assert!(
            client.lock("account:7").try_acquire().await?.is_none(),
            "held until the outermost call ends"
        );
        Ok(fences)
    }
    #[distributed_lock(key = "account:7", client = client)]
    async fn odd(client: &Client, n: u32) -> Result<Vec<Option<Fence>>> {
        Box::pin(even(client, n - 1)).await
    }
    let fences = even(&client, 4).await.unwrap();
    assert_eq!(fences.len(), 3);
    assert!(fences[0].is_some() && fences.iter().all(|f| *f == fences[0]), "one hold: {fences:?}");
    assert!(!client.lock("account:7").is_locked().await.unwrap());
}

/// Both are inside the call around them; what they take there, each takes alone.
async fn branches_inside_one_call(client: Client) {
    #[distributed_lock(key = "outer", client = client)]
    async fn outer(client: &Client, room: &Room) -> Result<()> {
        let (a, b) = tokio::join!(inner(client, room), inner(client, room));
        a.and(b)
    }
    #[distributed_lock(key = "outer", client = client)]
    async fn inner(client: &Client, room: &Room) -> Result<()> {
        alone(client, room).await
    }
    #[distributed_lock(key = "alone", client = client)]
    async fn alone(client: &Client, room: &Room) -> Result<()> {
        room.visit().await;
        Ok(())
    }
    let room = Room::default();
    outer(&client, &room).await.unwrap();
    assert_eq!((room.most(), room.visits()), (1, 2));
}

async fn a_list_with_a_name_that_is_held(client: Client) {
    #[distributed_lock(key = "a", client = client)]
    async fn one(client: &Client) -> Result<Vec<Option<Fence>>> {
        let mine = tenure::current().unwrap().fence();
        let mut fences = vec![mine];
        fences.extend(both(client).await?);
        Ok(fences)
    }
    #[distributed_lock(key = ["b", "a"], client = client)]
    async fn both(client: &Client) -> Result<Vec<Option<Fence>>> {
        Ok(tenure::current().unwrap().fences().into_iter().map(|(_, fence)| fence).collect())
    }
    let fences = one(&client).await.unwrap();
    assert_eq!(fences[0], fences[2], "a is entered again");
    assert_ne!(fences[0], fences[1], "b is new");
}

#[tokio::test]
async fn spawned_tasks_are_outside() {
    #[distributed_lock(key = "x", client = client)]
    async fn outer(client: &Client) -> Result<Error> {
        let other = client.clone();
        Ok(tokio::spawn(async move { now(&other).await }).await.unwrap().unwrap_err())
    }
    #[distributed_lock(key = "x", wait = "0s", client = client)]
    async fn now(client: &Client) -> Result<()> {
        Ok(())
    }
    let client = memory().await;
    let error = within("its end", outer(&client)).await.unwrap();
    assert!(error.is_busy(), "{error}");
    assert_eq!(error.to_string(), "memory: acquire x: busy: held by others");
}

/// A future that was made inside and runs outside is outside; one that moves to another task takes its calls along.
#[tokio::test]
async fn a_future_reenters_by_where_it_runs() {
    #[distributed_lock(key = "x", client = client)]
    async fn outer(client: Client) -> Result<impl Future<Output = Result<bool>>> {
        Ok(async move { inner(&client).await })
    }
    #[distributed_lock(key = "x", client = client)]
    async fn inner(client: &Client) -> Result<bool> {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        innermost(client).await
    }
    #[distributed_lock(key = "x", client = client)]
    async fn innermost(client: &Client) -> Result<bool> {
        Ok(tenure::current().is_some())
    }
    let client = memory().await;
    let later = within("its end", outer(client.clone())).await.unwrap();
    let held = client.lock("x").try_acquire().await.unwrap().expect("the call is over");
    let mut later = Box::pin(later);
    assert!(futures_util::poll!(&mut later).is_pending());
    held.release().await.unwrap();
    // Begun here, ended elsewhere.
    while client.lock("x").holder().await.unwrap().is_none() {
        assert!(futures_util::poll!(&mut later).is_pending());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(within("its end", tokio::spawn(later)).await.unwrap().unwrap());
}

/// Bodies that were begun inside a call and go on elsewhere, two of them, are not inside that call any more: neither
/// enters what it held, nor beside the other what they then take.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_moves_away_leaves_the_calls_around_it() {
    type Moved = std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>>;
    #[derive(Default)]
    struct Inside(std::sync::atomic::AtomicUsize);
    #[distributed_lock(key = "x", client = client)]
    async fn outer(client: Client, inside: Arc<Inside>) -> Result<Vec<Moved>> {
        let mut begun: Vec<Moved> = Vec::new();
        for key in ["a", "b"] {
            let (gate, open) = tokio::sync::oneshot::channel();
            let mut moved: Moved = Box::pin(middle(client.clone(), inside.clone(), key, gate));
            tokio::select! {
                // Polled once more it would go on in here, where both may enter again.
                biased;
                _ = &mut moved => unreachable!("it waits"),
                is_inside = open => is_inside.unwrap(),
            }
            begun.push(moved);
        }
        Ok(begun)
    }
    #[distributed_lock(key = key, client = client)]
    async fn middle(
        client: Client,
        inside: Arc<Inside>,
        key: &'static str,
        gate: tokio::sync::oneshot::Sender<()>,
    ) -> Result<()> {
        gate.send(()).unwrap();
        tokio::task::yield_now().await;
        for _ in 0..50 {
            inner(&client, &inside).await?;
        }
        Ok(())
    }
    #[distributed_lock(key = "x", client = client)]
    async fn inner(client: &Client, inside: &Inside) -> Result<()> {
        use std::sync::atomic::Ordering::SeqCst;
        assert_eq!(inside.0.fetch_add(1, SeqCst), 0, "two at once");
        tokio::task::yield_now().await;
        inside.0.fetch_sub(1, SeqCst);
        Ok(())
    }
    let client = memory().await;
    let moved = within("its end", outer(client.clone(), Arc::default())).await.unwrap();
    let tasks: Vec<_> = moved.into_iter().map(tokio::spawn).collect();
    for task in tasks {
        within("its end", task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn readers_under_a_writer_but_no_writer_under_a_reader() {
    #[distributed_lock(key = "x", kind = write, client = client)]
    async fn write(client: &Client) -> Result<()> {
        read(client, false).await
    }
    #[distributed_lock(key = "x", kind = read, client = client)]
    async fn read(client: &Client, upgrade: bool) -> Result<()> {
        if upgrade { Box::pin(write(client)).await } else { Ok(()) }
    }
    let client = memory().await;
    within("its end", write(&client)).await.unwrap();
    let error = within("its end", read(&client, true)).await.unwrap_err();
    assert!(error.to_string().contains("cannot become its writer"), "{error}");
}

/// A semaphore is not re-entrant: a call inside takes permits of its own.
#[tokio::test]
async fn permits_add_up() {
    #[distributed_lock(key = "x", kind = permits(1, 2), wait = "0s", client = client)]
    async fn nested(client: &Client, depth: u32) -> Result<u32> {
        if depth == 0 { Ok(0) } else { Ok(1 + Box::pin(nested(client, depth - 1)).await?) }
    }
    let client = memory().await;
    assert_eq!(nested(&client, 1).await.unwrap(), 1);
    assert!(nested(&client, 2).await.unwrap_err().is_busy());
    assert_eq!(client.semaphore("x", 2).available().await.unwrap(), 2);
}

/// Another client is somebody else, also to itself.
#[tokio::test]
async fn clients_are_told_apart() {
    #[distributed_lock(key = "x", client = outer)]
    async fn around(outer: &Client, inner: &Client) -> Result<()> {
        within(inner).await
    }
    #[distributed_lock(key = "x", wait = "0s", client = client)]
    async fn within(client: &Client) -> Result<()> {
        Ok(())
    }
    let a = memory().await;
    let b = Client::with(a.backend().clone(), a.settings().clone());
    assert!(around(&a, &b).await.unwrap_err().is_busy());
    around(&a, &a).await.unwrap();
}
