//! The read/write lock: who shares, who excludes, and in what order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tenure::backend::Mode;
use tenure::{Client, Family, Lock, Owner};
use tokio::sync::Barrier;

use super::Case;
use crate::harness::{A_WHILE, Harness, RENEWED, done, ok, repeat_if_unanswered, until, within};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "rwlock"; &[Family::ReadWrite];
        readers_share,
        a_writer_keeps_readers_out,
        readers_keep_a_writer_out_until_the_last_is_gone,
        writers_exclude_each_other,
        a_stream_of_readers_does_not_starve_a_writer,
        readers_behind_a_writer_go_in_together,
        a_writer_that_gives_up_lets_readers_pass,
        a_dead_readers_share_expires_alone,
        each_reader_is_shown,
    ]
}

pub(super) fn read(client: &Client) -> Lock {
    client.rwlock("x").read()
}

pub(super) fn write(client: &Client) -> Lock {
    client.rwlock("x").write()
}

pub(super) async fn wait_for_waiters(look: &Client, n: usize) {
    until("they wait", || async { ok(look.rwlock("x").waiters().await).len() == n }).await;
}

async fn readers_share(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let held = [ok(read(&a).acquire().await), ok(read(&a).acquire().await), ok(read(&b).acquire().await)];
    let tried = ok(read(&b).try_acquire().await).expect("readers share");
    assert!(held.iter().all(|g| g.is_held()) && tried.is_held());
    for guard in held {
        ok(guard.release().await);
    }
    assert!(ok(write(&a).try_acquire().await).is_none(), "one reader is still inside");
    ok(tried.release().await);
}

async fn a_writer_keeps_readers_out(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let writer = ok(write(&a).acquire().await);
    assert!(ok(read(&a).try_acquire().await).is_none());
    assert!(ok(read(&b).try_acquire().await).is_none());
    assert!(repeat_if_unanswered(|| async { read(&b).try_acquire_for(A_WHILE).await }).await.is_none());
    let waiting = tokio::spawn(async move { ok(read(&b).acquire().await) });
    wait_for_waiters(&harness.observer(), 1).await;
    assert!(!waiting.is_finished(), "a reader is inside with the writer");
    ok(writer.release().await);
    ok(done("the reader gets in", waiting).await.release().await);
}

async fn readers_keep_a_writer_out_until_the_last_is_gone(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let (first, second) = (ok(read(&a).acquire().await), ok(read(&b).acquire().await));
    assert!(ok(write(&a).try_acquire().await).is_none());
    let waiting = tokio::spawn(async move { ok(write(&b).acquire().await) });
    wait_for_waiters(&harness.observer(), 1).await;
    ok(first.release().await);
    tokio::time::sleep(A_WHILE).await;
    assert!(!waiting.is_finished(), "the writer is inside with a reader");
    ok(second.release().await);
    ok(done("the writer gets in", waiting).await.release().await);
}

async fn writers_exclude_each_other(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let writer = ok(write(&a).acquire().await);
    assert!(ok(write(&a).try_acquire().await).is_none());
    assert!(ok(write(&b).try_acquire().await).is_none());
    let waiting = tokio::spawn(async move { ok(write(&b).acquire().await) });
    wait_for_waiters(&harness.observer(), 1).await;
    assert!(!waiting.is_finished(), "two writers are inside");
    let fence = writer.fence();
    ok(writer.release().await);
    let next = done("the next writer gets in", waiting).await;
    assert!(next.fence() > fence || fence.is_none());
    ok(next.release().await);
}

async fn a_stream_of_readers_does_not_starve_a_writer(harness: Arc<Harness>) {
    let clients = [harness.client(), harness.client()];
    let (stop, stood_back) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers: Vec<_> = (0..4)
        .map(|i| {
            let (read, stop, stood_back) = (read(&clients[i % 2]), stop.clone(), stood_back.clone());
            tokio::spawn(async move {
                let mut held = ok(read.acquire().await);
                while !stop.load(SeqCst) {
                    // The next reader enters before the last one leaves: on their own they never leave a gap.
                    let next = match ok(read.try_acquire().await) {
                        Some(next) => Some(next),
                        None => {
                            stood_back.fetch_add(1, SeqCst);
                            None
                        }
                    };
                    ok(held.release().await);
                    held = match next {
                        Some(next) => next,
                        None => ok(read.acquire().await),
                    };
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                ok(held.release().await);
            })
        })
        .collect();
    for _ in 0..5 {
        let look = harness.observer();
        until("all read", || async { ok(look.rwlock("x").holders().await).len() >= 4 }).await;
        let writer = within("the writer gets in", write(&clients[0]).acquire()).await;
        ok(ok(writer).release().await);
    }
    stop.store(true, SeqCst);
    for reader in readers {
        done("the reader ends", reader).await;
    }
    assert!(stood_back.load(SeqCst) > 0, "nobody stood back, so nobody was in the way");
}

async fn readers_behind_a_writer_go_in_together(harness: Arc<Harness>) {
    let (clients, n) = ([harness.client(), harness.client()], 64);
    let writer = ok(write(&clients[0]).acquire().await);
    let together = Arc::new(Barrier::new(n));
    let readers: Vec<_> = (0..n)
        .map(|i| {
            let (read, together) = (read(&clients[i % 2]), together.clone());
            tokio::spawn(async move {
                let held = ok(read.acquire().await);
                together.wait().await;
                assert!(held.is_held());
                ok(held.release().await);
            })
        })
        .collect();
    wait_for_waiters(&harness.observer(), n).await;
    ok(writer.release().await);
    for reader in readers {
        done("all readers are inside at once", reader).await;
    }
}

async fn a_writer_that_gives_up_lets_readers_pass(harness: Arc<Harness>) {
    let (clients, look) = ([harness.client(), harness.client()], harness.observer());
    let inside = ok(read(&clients[0]).acquire().await);
    for (writer, reader) in [(0, 0), (0, 1), (1, 0)] {
        let writer = write(&clients[writer]);
        let in_the_way = tokio::spawn(async move { ok(writer.acquire().await) });
        wait_for_waiters(&look, 1).await;
        let reader = read(&clients[reader]);
        let waiting = tokio::spawn(async move { ok(reader.acquire().await) });
        wait_for_waiters(&look, 2).await;
        in_the_way.abort();
        ok(done("the reader behind it gets in", waiting).await.release().await);
    }
    ok(inside.release().await);
}

async fn a_dead_readers_share_expires_alone(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer().rwlock("x"));
    let dead = ok(read(&a).lease(RENEWED).acquire().await).detach();
    let alive = ok(read(&b).acquire().await);
    let waiting = tokio::spawn(async move { ok(write(&a).acquire().await) });
    let ids = || async { ok(look.holders().await).iter().map(|h| h.id.clone()).collect::<Vec<_>>() };
    assert_eq!(ids().await, [dead.to_string(), alive.id().to_string()]);
    let left = [alive.id().to_string()];
    until("the dead one's share ends", || async { ids().await == left }).await;
    tokio::time::sleep(A_WHILE).await;
    assert!(alive.is_held());
    assert!(!waiting.is_finished(), "the writer is inside with a reader");
    ok(alive.release().await);
    ok(done("the writer gets in", waiting).await.release().await);
}

async fn each_reader_is_shown(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let look = harness.observer().rwlock("x");
    let me = Owner::new();
    let mut held = vec![ok(read(&a).owner(&me).acquire().await)];
    let again = ok(read(&a).owner(&me).acquire().await);
    assert_eq!((again.id(), again.reentry_count()), (held[0].id(), 2), "the same owner enters again");
    held.push(ok(read(&a).owner(&Owner::new()).acquire().await));
    held.push(ok(read(&b).acquire().await));
    for left in (1..=3).rev() {
        let mut seen = ok(look.holders().await);
        assert!(seen.iter().all(|h| h.mode == Mode::Shared));
        seen.sort_by(|a, b| a.id.cmp(&b.id));
        let mut ids: Vec<_> = held.iter().map(|g| g.id().to_string()).collect();
        ids.sort();
        assert_eq!(seen.into_iter().map(|h| h.id).collect::<Vec<_>>(), ids);
        assert_eq!(ids.len(), left);
        ok(held.pop().expect("as many").release().await);
    }
    // The inner guard keeps the hold of the first reader.
    assert_eq!(ok(look.holders().await).len(), 1);
    assert!(ok(write(&b).try_acquire().await).is_none());
    ok(again.release().await);
    let writer = ok(write(&b).try_acquire().await).expect("nobody is inside");
    assert_eq!(ok(look.holder().await).expect("the writer").mode, Mode::Exclusive);
    ok(writer.release().await);
}
