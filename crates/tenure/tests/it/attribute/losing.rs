//! A lock that is lost while the body runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tenure::{Client, Error, LostReason, Result, distributed_lock};
use testbed::{until, within};
use tokio::sync::Notify;

use super::harness::{memory, on_each_store};

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

fn reason(error: Error) -> LostReason {
    match error {
        Error::Lost(lost) => lost.reason,
        other => panic!("{other}"),
    }
}

on_each_store!(a_body_is_dropped_when_the_lease_ends);

async fn a_body_is_dropped_when_the_lease_ends(client: Client) {
    #[distributed_lock(key = "x", max_hold = "100ms", client = client)]
    async fn stays(client: &Client, dropped: Dropped) -> Result<()> {
        let _dropped = dropped;
        std::future::pending().await
    }
    let dropped = Arc::<AtomicBool>::default();
    let error = stays(&client, Dropped(dropped.clone())).await.unwrap_err();
    assert!(dropped.load(SeqCst));
    assert_eq!(reason(error), LostReason::MaxHold);
    client.lock("x").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_minimum_outlives_the_call() {
    #[distributed_lock(key = "x", at_least = "30m", client = client)]
    async fn returns_at_once(client: &Client) -> Result<()> {
        Ok(())
    }
    let client = tenure::connect("memory:").await.unwrap();
    returns_at_once(&client).await.unwrap();
    assert!(client.lock("x").try_acquire().await.unwrap().is_none());
}

/// What was done while somebody else may have been there too is not reported as done.
#[tokio::test]
async fn a_body_that_finishes_after_the_loss_is_an_error() {
    #[distributed_lock(key = "x", max_hold = "20ms", on_lost = finish, client = client)]
    async fn finishes(client: &Client, done: &AtomicBool, own: bool) -> std::result::Result<(), Failure> {
        let current = tenure::current().unwrap();
        while current.is_held() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(current.ensure(Duration::ZERO).is_err());
        done.store(true, SeqCst);
        if own { Err(Failure::Own) } else { Ok(()) }
    }
    #[derive(Debug)]
    enum Failure {
        Lock(Error),
        Own,
    }
    impl From<Error> for Failure {
        fn from(error: Error) -> Self {
            Self::Lock(error)
        }
    }
    let (client, done) = (memory().await, AtomicBool::new(false));
    match within("its end", finishes(&client, &done, false)).await {
        Err(Failure::Lock(error)) => assert_eq!(reason(error), LostReason::MaxHold),
        other => panic!("{other:?}"),
    }
    assert!(done.load(SeqCst), "it ran to its end");
    assert!(
        matches!(within("its end", finishes(&client, &done, true)).await, Err(Failure::Own)),
        "its own error says more"
    );
}

/// Taken away by force, and noticed only by the release.
#[tokio::test]
async fn a_lock_that_was_taken_away_is_told() {
    #[distributed_lock(key = "x", client = client)]
    async fn robbed(client: &Client) -> Result<()> {
        assert!(client.lock("x").force_release().await?);
        Ok(())
    }
    let client = memory().await;
    assert_eq!(reason(within("its end", robbed(&client)).await.unwrap_err()), LostReason::Gone);
}

/// One of several is enough.
#[tokio::test]
async fn a_list_is_lost_with_its_first_loss() {
    #[distributed_lock(key = ["a", "b"], client = client)]
    async fn robbed(client: &Client, _dropped: Dropped) -> Result<()> {
        assert!(client.lock("b").force_release().await?);
        Ok(())
    }
    let (client, dropped) = (memory().await, Arc::<AtomicBool>::default());
    let error = within("its end", robbed(&client, Dropped(dropped.clone()))).await.unwrap_err();
    assert_eq!(reason(error), LostReason::Gone);
    assert!(client.lock("a").try_acquire().await.unwrap().is_some(), "the other one is released");
}

/// Without a `Result` there is nothing else to return: the body ends, and the loss is logged.
#[tokio::test]
async fn a_body_without_a_result_is_ended() {
    #[distributed_lock(key = "x", max_hold = "20ms", on_busy = skip(false), client = client)]
    async fn ends(client: &Client) -> bool {
        let current = tenure::current().unwrap();
        while current.is_held() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        true
    }
    assert!(within("its end", ends(&memory().await)).await);
}

#[tokio::test]
async fn a_call_inside_is_dropped_with_the_call_that_lost() {
    #[distributed_lock(key = "outer", max_hold = "50ms", client = client)]
    async fn outer(client: &Client, dropped: Dropped) -> Result<()> {
        inner(client, dropped).await
    }
    #[distributed_lock(key = "inner", client = client)]
    async fn inner(client: &Client, dropped: Dropped) -> Result<()> {
        let _dropped = dropped;
        std::future::pending().await
    }
    let (client, dropped) = (memory().await, Arc::<AtomicBool>::default());
    let error = within("its end", outer(&client, Dropped(dropped.clone()))).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(lost) if lost.name.as_str() == "outer"), "{error}");
    assert!(dropped.load(SeqCst));
    within("its end", client.lock("inner").acquire()).await.unwrap().release().await.unwrap();
}

/// A lease that is given is not renewed; without one it is, while the body runs.
#[tokio::test]
async fn a_lease_is_renewed_unless_it_is_given() {
    #[distributed_lock(key = "given", lease = "60ms", client = client)]
    async fn given(client: &Client) -> Result<()> {
        std::future::pending().await
    }
    #[distributed_lock(key = "renewed", client = client)]
    async fn renewed(client: &Client, three_leases: Arc<Notify>) -> Result<()> {
        three_leases.notified().await;
        tenure::current().unwrap().ensure(Duration::from_millis(1))
    }
    let client = memory().await;
    assert_eq!(reason(within("its end", given(&client)).await.unwrap_err()), LostReason::Expired);
    let (store, over) = (tenure::testing::Store::new(), Arc::new(Notify::new()));
    let client = store.client();
    let ends = async {
        until("it is held", || async { store.is_held("renewed") }).await;
        store.advance(3 * client.settings().lease);
        over.notify_one();
    };
    within("its end", async { tokio::join!(renewed(&client, over.clone()), ends) }).await.0.unwrap();
}
