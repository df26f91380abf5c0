//! What an owner may do with a read/write lock that it already holds, while others wait.

use std::sync::Arc;

use tenure::{Error, Family, Lock, Owner};
use tokio::sync::Barrier;

use super::Case;
use super::rwlock::{read, wait_for_waiters, write};
use crate::harness::{A_WHILE, Harness, done, ok, poll_once, within};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "rwlock"; &[Family::ReadWrite];
        a_writer_reads_under_its_write_and_downgrades,
        a_reader_cannot_become_a_writer,
        tasks_of_one_owner_enter_together_past_another_waiter,
        an_own_read_passes_a_waiting_writer,
        an_owners_unpolled_acquire_blocks_nobody,
        an_owners_unpolled_acquire_does_not_stop_the_queue,
        an_owners_unpolled_acquire_does_not_separate_its_tasks,
    ]
}

async fn a_writer_reads_under_its_write_and_downgrades(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let me = Owner::new();
    let writer = ok(write(&a).owner(&me).acquire().await);
    let own = within("it waits for itself", read(&a).owner(&me).acquire()).await;
    let own = ok(own);
    assert_eq!(own.fence(), writer.fence(), "one stay, one fence");
    assert!(ok(read(&b).try_acquire().await).is_none(), "the write is still held");
    ok(writer.release().await);
    assert!(own.is_held());
    let other = ok(read(&b).try_acquire().await).expect("only readers are inside");
    ok(other.release().await);
    assert!(ok(write(&b).try_acquire().await).is_none(), "a writer is inside with a reader");
    let waiting = tokio::spawn(async move { ok(write(&b).acquire().await) });
    wait_for_waiters(&harness.observer(), 1).await;
    ok(own.release().await);
    ok(done("the writer gets in", waiting).await.release().await);
}

async fn a_reader_cannot_become_a_writer(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let me = Owner::new();
    let own = ok(read(&a).owner(&me).acquire().await);
    let refused = within("the answer", write(&a).owner(&me).acquire()).await;
    let Err(Error::Config(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("cannot become its writer"), "{reason}");
    let refused = within("the answer", write(&a).owner(&me).try_acquire()).await;
    assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    assert!(own.is_held());
    assert!(ok(write(&b).try_acquire().await).is_none(), "the read is gone");
    ok(own.release().await);
    let writer = ok(write(&a).owner(&me).try_acquire().await).expect("nobody is inside");
    ok(writer.release().await);
}

async fn tasks_of_one_owner_enter_together_past_another_waiter(harness: Arc<Harness>) {
    let (client, other, look) = (harness.client(), harness.client(), harness.observer());
    for half in [read, write] {
        for stranger in [&client, &other] {
            let me = Owner::new();
            let held = ok(write(&other).acquire().await);
            let mine = half(&client).owner(&me);
            let together = Arc::new(Barrier::new(2));
            let spawn = |lock: Lock, together: Arc<Barrier>| {
                tokio::spawn(async move {
                    let held = ok(lock.acquire().await);
                    // Neither releases before both are inside.
                    together.wait().await;
                    held
                })
            };
            let first = spawn(mine.clone(), together.clone());
            wait_for_waiters(&look, 1).await;
            let stranger = write(stranger);
            let between = tokio::spawn(async move { ok(stranger.acquire().await) });
            wait_for_waiters(&look, 2).await;
            let second = spawn(mine, together);
            wait_for_waiters(&look, 3).await;
            ok(held.release().await);
            let (first, second) =
                (done("the first gets in", first).await, done("so does the second", second).await);
            assert_eq!(first.id(), second.id(), "one owner, one hold");
            tokio::time::sleep(A_WHILE / 3).await;
            assert!(!between.is_finished(), "the stranger is inside too");
            ok(first.release().await);
            ok(second.release().await);
            ok(done("the stranger gets in", between).await.release().await);
        }
    }
}

async fn an_own_read_passes_a_waiting_writer(harness: Arc<Harness>) {
    let (client, other, look) = (harness.client(), harness.client(), harness.observer());
    for stranger in [&client, &other] {
        let me = Owner::new();
        let writer = ok(write(&client).owner(&me).acquire().await);
        let stranger = write(stranger);
        let waiting = tokio::spawn(async move { ok(stranger.acquire().await) });
        wait_for_waiters(&look, 1).await;
        let own = ok(within("it waits for the stranger", read(&client).owner(&me).acquire()).await);
        ok(writer.release().await);
        tokio::time::sleep(A_WHILE / 3).await;
        assert!(!waiting.is_finished(), "the stranger is inside with a reader");
        ok(own.release().await);
        ok(done("the stranger gets in", waiting).await.release().await);
    }
}

async fn an_owners_unpolled_acquire_blocks_nobody(harness: Arc<Harness>) {
    let client = harness.client_with(harness.renewing_settings());
    let me = Owner::new();
    let lock = read(&client).owner(&me);
    let mut asleep = Box::pin(lock.acquire());
    // Its attempt is in flight, or answered but not collected.
    let _ = poll_once(asleep.as_mut());
    let (mine, another) = (read(&client).owner(&me), read(&client));
    let mine = tokio::spawn(async move { ok(mine.acquire().await) });
    let another = tokio::spawn(async move { ok(another.acquire().await) });
    ok(done("a stranger gets in", another).await.release().await);
    ok(done("another task of the owner gets in", mine).await.release().await);
    drop(asleep);
}

async fn an_owners_unpolled_acquire_does_not_stop_the_queue(harness: Arc<Harness>) {
    let (client, other, look) =
        (harness.client_with(harness.renewing_settings()), harness.client(), harness.observer());
    for half in [read, write] {
        let me = Owner::new();
        let held = ok(write(&other).acquire().await);
        let (mine, another) = (half(&client).owner(&me), write(&client));
        let mine = tokio::spawn(async move { ok(mine.acquire().await) });
        wait_for_waiters(&look, 1).await;
        let another = tokio::spawn(async move { ok(another.acquire().await) });
        wait_for_waiters(&look, 2).await;
        let lock = half(&client).owner(&me);
        let mut asleep = Box::pin(lock.acquire());
        assert!(poll_once(asleep.as_mut()).is_pending());
        ok(held.release().await);
        ok(done("the owner gets in", mine).await.release().await);
        ok(done("a stranger behind it gets in", another).await.release().await);
        drop(asleep);
    }
}

async fn an_owners_unpolled_acquire_does_not_separate_its_tasks(harness: Arc<Harness>) {
    let (client, other, look) =
        (harness.client_with(harness.renewing_settings()), harness.client(), harness.observer());
    for half in [read, write] {
        let me = Owner::new();
        let held = ok(write(&other).acquire().await);
        let together = Arc::new(Barrier::new(2));
        let mine = || {
            let (lock, together) = (half(&client).owner(&me), together.clone());
            tokio::spawn(async move {
                let held = ok(lock.acquire().await);
                together.wait().await;
                held
            })
        };
        let first = mine();
        wait_for_waiters(&look, 1).await;
        let stranger = write(&client);
        let between = tokio::spawn(async move { ok(stranger.acquire().await) });
        wait_for_waiters(&look, 2).await;
        let second = mine();
        wait_for_waiters(&look, 3).await;
        let lock = half(&client).owner(&me);
        let mut asleep = Box::pin(lock.acquire());
        assert!(poll_once(asleep.as_mut()).is_pending());
        ok(held.release().await);
        let (first, second) =
            (done("the first gets in", first).await, done("so does the second", second).await);
        ok(first.release().await);
        ok(second.release().await);
        // The grant that the sleeping future does not collect is returned automatically.
        ok(done("the stranger gets in", between).await.release().await);
        drop(asleep);
    }
}
