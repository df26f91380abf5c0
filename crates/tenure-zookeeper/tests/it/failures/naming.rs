//! Names that collide with the layout, and the fence of a read under the owner's own write.

use tenure_core::{Error, Owner};
use testbed::{ZkMode, done, until, within};

use super::harness::{Harness, wait_for, waiting};

/// S11. A read under the owner's own write has the writer's fence, also when the write is released first and another
/// reader has entered.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_under_ones_own_write_has_the_fence_of_the_write() {
    let harness = Harness::start();
    let (mine, near) = (harness.client().await, harness.client().await);
    let me = Owner::new();
    let write = mine.rwlock("x").write().owner(&me).acquire().await.unwrap();
    let next = wait_for(near.rwlock("x").read());
    waiting(&near, "x", 1).await;
    let read = within("at once", mine.rwlock("x").read().owner(&me).acquire()).await.unwrap();
    assert_eq!(read.fence(), write.fence());
    let writer = wait_for(near.rwlock("x").write());
    waiting(&near, "x", 2).await;
    let fence = write.fence();
    write.release().await.unwrap();
    let next = done("the other reader", next).await.unwrap();
    assert!(read.is_held() && next.fence() > read.fence());
    next.release().await.unwrap();
    read.release().await.unwrap();
    let writer = done("the other writer", writer).await.unwrap();
    assert!(writer.fence() > fence);
    writer.release().await.unwrap();
    harness.is_empty("x").await;
}

/// L10. Names nest as paths do: those that look like queue nodes of their parent are refused, and all others can be
/// held at once.
#[tokio::test(flavor = "multi_thread")]
async fn names_that_would_stand_in_a_queue_are_refused() {
    let harness = Harness::start();
    let mine = harness.client().await;
    let refused = [
        "a/-x",
        "a/locks",
        "a/leases",
        "a/x-lock-0000000001",
        "a/lock-",
        "a/!b",
        "zookeeper",
        "zookeeper/quota",
    ];
    for name in refused {
        let error = mine.lock(name).try_acquire().await.unwrap_err();
        assert!(matches!(&error, Error::Config(why) if why.contains(name)), "{name}: {error}");
    }
    let mut held = Vec::new();
    for name in ["a", "a/b", "a/b/c", "a/0", "a/~", "a/.", "a/..", "a//b", "locks", "a/x"] {
        held.push(within(name, mine.lock(name).acquire()).await.unwrap());
    }
    let names: Vec<_> = mine.list("", 100).await.unwrap().into_iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names.len(), held.len(), "{names:?}");
    for guard in held {
        guard.release().await.unwrap();
    }
}

/// L10. A name in use as one kind cannot be used as another, whichever library uses it.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_in_use_as_something_else_is_refused() {
    let harness = Harness::start();
    let (mine, near) = (harness.client().await, harness.client().await);
    let _held = near.lock("x").acquire().await.unwrap();
    let error = mine.rwlock("x").write().acquire().await.unwrap_err();
    assert!(matches!(&error, Error::Config(why) if why.contains("in use as a lock")), "{error}");
    let mut raw = harness.raw();
    raw.create("/y", b"", ZkMode::Persistent).unwrap();
    raw.create("/y/_c_00000000-0000-4000-8000-000000000000-latch-", b"", ZkMode::EphemeralSequential)
        .unwrap();
    let error = mine.lock("y").acquire().await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error}");
    until("nothing of them stays", || async {
        harness.children("/x").len() + harness.children("/y").len() == 2
    })
    .await;
}
