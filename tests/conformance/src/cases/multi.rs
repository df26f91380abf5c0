//! Multi-locks: all or nothing, in any order, of any kinds, across stores.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure::{Client, Error, Family, Memory, MultiLock, multi};

use super::Case;
use crate::harness::{A_WHILE, Harness, PATIENCE, done, ok, poll_times, repeat_if_unanswered, until, within};

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases![
        "multi"; &[Family::Lock];
        a_busy_member_leaves_none_held,
        crossing_orders_do_not_deadlock,
        a_repeated_name_is_refused,
        a_name_repeated_through_two_clients_is_refused,
        an_empty_set_is_refused,
        an_invalid_member_leaves_none_held,
        works_across_two_stores,
        acquire_dropped_after_every_poll_leaves_nothing,
        a_timed_out_wait_leaves_nothing,
        a_lost_member_loses_all,
        drop_releases_all,
    ];
    // Where replies are lost, a release that finds nothing may be the repeat of one that succeeded.
    let lost = cases!["multi"; &[Family::Lock]; release_reports_a_lost_member_and_releases_the_rest];
    all.extend(lost.into_iter().map(Case::calm));
    all.extend(cases!["multi"; &[Family::Lock, Family::ReadWrite]; a_member_that_fails_leaves_none_held]);
    all.extend(cases!["multi"; &[Family::Lock, Family::ReadWrite, Family::Permit]; kinds_can_be_mixed]);
    all
}

fn of<const N: usize>(client: &Client, names: [&str; N]) -> MultiLock {
    multi(names.map(|name| client.lock(name)))
}

async fn is_free(look: &Client, name: &str) -> bool {
    let seen = ok(look.show(name).await);
    seen.is_none_or(|s| s.holders.is_empty() && s.waiters.is_empty())
}

async fn wait_until_free<const N: usize>(look: &Client, names: [&str; N]) {
    for name in names {
        until("it is free", || is_free(look, name)).await;
    }
}

async fn a_busy_member_leaves_none_held(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    let all = of(&a, ["a", "b", "c"]);
    for busy in ["a", "b", "c"] {
        let held = ok(b.lock(busy).acquire().await);
        assert!(ok(all.try_acquire().await).is_none());
        for other in ["a", "b", "c"].into_iter().filter(|n| *n != busy) {
            assert!(is_free(&look, other).await, "{other} is held while {busy} is busy");
        }
        let waiting = tokio::spawn({
            let all = all.clone();
            async move { ok(all.acquire().await) }
        });
        until("it waits", || async { !ok(look.lock(busy).waiters().await).is_empty() }).await;
        until("it waits for the busy one and holds none", || async {
            let mut free = true;
            for other in ["a", "b", "c"].into_iter().filter(|n| *n != busy) {
                free &= is_free(&look, other).await;
            }
            free
        })
        .await;
        ok(held.release().await);
        let guards = done("all are free", waiting).await;
        assert!(guards.is_held());
        assert_eq!(guards.guards().iter().map(|g| g.name().as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        ok(guards.release().await);
        // One of several nodes may lag behind, and still show the waiter.
        wait_until_free(&look, ["a", "b", "c"]).await;
    }
}

async fn crossing_orders_do_not_deadlock(harness: Arc<Harness>) {
    const ORDERS: [&[&str]; 6] =
        [&["a", "b"], &["b", "a"], &["a", "b", "c"], &["c", "b", "a"], &["b", "c"], &["c", "a"]];
    let times = if harness.is_chaotic() { 2 } else { 8 };
    let clients = [harness.client(), harness.client()];
    let inside: Arc<HashMap<&str, AtomicU64>> =
        Arc::new(["a", "b", "c"].map(|n| (n, AtomicU64::new(0))).into());
    let tasks: Vec<_> = ORDERS
        .into_iter()
        .enumerate()
        .map(|(i, names)| {
            let all = multi(names.iter().map(|name| clients[i % 2].lock(name)));
            let inside = inside.clone();
            tokio::spawn(async move {
                for _ in 0..times {
                    let guards = ok(all.acquire().await);
                    for name in names {
                        assert_eq!(inside[name].fetch_add(1, SeqCst), 0, "two are inside {name}");
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    assert!(guards.is_held());
                    for name in names {
                        inside[name].fetch_sub(1, SeqCst);
                    }
                    ok(guards.release().await);
                }
            })
        })
        .collect();
    for task in tasks {
        done("nobody waits for ever", task).await;
    }
}

async fn a_repeated_name_is_refused(harness: Arc<Harness>) {
    let (client, look) = (harness.client(), harness.observer());
    let twice = of(&client, ["a", "b", "a"]);
    for refused in
        [twice.acquire().await.map(Some), twice.try_acquire().await, twice.try_acquire_for(PATIENCE).await]
    {
        let Err(Error::Config(reason)) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("a twice"), "{reason}");
    }
    assert!(is_free(&look, "a").await && is_free(&look, "b").await);
}

async fn a_name_repeated_through_two_clients_is_refused(harness: Arc<Harness>) {
    let locks = multi([harness.client().lock("x"), harness.client().lock("x")]);
    let refused = within("it does not wait for itself", locks.acquire()).await;
    assert!(matches!(&refused, Err(Error::Config(why)) if why.contains("twice")), "{refused:?}");
    wait_until_free(&harness.observer(), ["x"]).await;
}

async fn an_empty_set_is_refused(_: Arc<Harness>) {
    let none = multi([]);
    for refused in
        [none.acquire().await.map(Some), none.try_acquire().await, none.try_acquire_for(PATIENCE).await]
    {
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    }
}

async fn an_invalid_member_leaves_none_held(harness: Arc<Harness>) {
    let (client, look) = (harness.client(), harness.observer());
    let bad = of(&client, ["a", "", "c"]);
    for refused in
        [bad.acquire().await.map(Some), bad.try_acquire().await, bad.try_acquire_for(PATIENCE).await]
    {
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    }
    assert!(is_free(&look, "a").await && is_free(&look, "c").await);
}

async fn a_member_that_fails_leaves_none_held(harness: Arc<Harness>) {
    let (client, other, look) = (harness.client(), harness.client(), harness.observer());
    let held = ok(other.rwlock("b").write().acquire().await);
    let bad = of(&client, ["a", "b", "c"]);
    for refused in
        [bad.acquire().await.map(Some), bad.try_acquire().await, bad.try_acquire_for(PATIENCE).await]
    {
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
        wait_until_free(&look, ["a", "c"]).await;
    }
    assert!(held.is_held());
    ok(held.release().await);
    ok(ok(bad.acquire().await).release().await);
}

async fn kinds_can_be_mixed(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    let some = |client: &Client| {
        multi([client.lock("l"), client.rwlock("r").read(), client.semaphore("s", 3).permits(2)])
    };
    let guards = ok(some(&a).acquire().await);
    let reader = ok(b.rwlock("r").read().try_acquire().await).expect("readers share");
    let one = ok(b.semaphore("s", 3).try_acquire().await).expect("one is left");
    assert!(ok(b.rwlock("r").write().try_acquire().await).is_none());
    assert!(ok(b.lock("l").try_acquire().await).is_none());
    assert!(ok(some(&b).try_acquire().await).is_none());
    assert_eq!(guards.fences().len(), 3);
    ok(guards.release().await);
    wait_until_free(&look, ["l"]).await;
    // Two of three permits are free, and the other reader does not block.
    let guards = ok(some(&b).try_acquire().await).expect("all are free");
    assert_eq!(ok(look.semaphore("s", 3).available().await), 0);
    ok(guards.release().await);
    ok(reader.release().await);
    ok(one.release().await);
}

async fn works_across_two_stores(harness: Arc<Harness>) {
    let here = harness.client();
    let memory = Arc::new(Memory::new());
    let there = || Client::with(memory.clone(), harness.settings());
    let (mine, other) = (there(), there());
    // One name in two stores is two locks.
    let both = multi([here.lock("x"), mine.lock("x")]);
    let guards = ok(both.acquire().await);
    assert_ne!(guards.guards()[0].id(), guards.guards()[1].id());
    ok(guards.release().await);
    let held = ok(other.lock("x").acquire().await);
    assert!(ok(both.try_acquire().await).is_none());
    assert!(is_free(&harness.observer(), "x").await);
    let waiting = tokio::spawn(async move { ok(both.acquire().await) });
    until("it waits", || async { !ok(other.lock("x").waiters().await).is_empty() }).await;
    // In the opposite order, at the same time.
    let crossing = multi([other.lock("x"), harness.client().lock("x")]);
    let crossing = tokio::spawn(async move { ok(ok(crossing.acquire().await).release().await) });
    ok(held.release().await);
    let guards = done("it gets both", waiting).await;
    assert!(guards.is_held());
    ok(guards.release().await);
    done("so does the other", crossing).await;
}

async fn release_reports_a_lost_member_and_releases_the_rest(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    let guards = ok(of(&a, ["a", "b", "c"]).acquire().await);
    assert!(ok(look.lock("b").force_release().await));
    let next = ok(b.lock("b").acquire().await);
    let Err(Error::Lost(lost)) = guards.release().await else { panic!("one was lost") };
    assert_eq!(lost.name.as_str(), "b");
    assert!(is_free(&look, "a").await && is_free(&look, "c").await, "the others are released");
    tokio::time::sleep(A_WHILE).await;
    let holder = ok(look.lock("b").holder().await).expect("the next one");
    assert_eq!(holder.id, next.id().to_string(), "what another holds now is not touched");
    ok(next.release().await);
}

async fn acquire_dropped_after_every_poll_leaves_nothing(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    for busy in [None, Some("a"), Some("c")] {
        for k in 0..6 {
            let held = match busy {
                Some(name) => Some(ok(b.lock(name).acquire().await)),
                None => None,
            };
            let done = poll_times(of(&a, ["a", "b", "c"]).acquire(), k).await.is_some();
            if let Some(held) = held {
                assert!(!done, "two are inside");
                ok(held.release().await);
            }
            for name in ["a", "b", "c"] {
                wait_until_free(&look, [name]).await;
            }
            if done {
                break;
            }
        }
    }
}

async fn a_timed_out_wait_leaves_nothing(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    let all = of(&a, ["a", "b", "c"]);
    for busy in ["a", "c"] {
        let held = ok(b.lock(busy).acquire().await);
        let start = Instant::now();
        assert!(repeat_if_unanswered(|| async { all.try_acquire_for(A_WHILE * 2).await }).await.is_none());
        let waited = start.elapsed();
        assert!(waited >= A_WHILE * 2, "it waited for {waited:?} only");
        for other in ["a", "b", "c"].into_iter().filter(|n| *n != busy) {
            wait_until_free(&look, [other]).await;
        }
        ok(held.release().await);
        wait_until_free(&look, ["a", "b", "c"]).await;
    }
    let guards = ok(all.try_acquire_for(PATIENCE).await).expect("all are free");
    ok(guards.release().await);
}

async fn a_lost_member_loses_all(harness: Arc<Harness>) {
    let (a, look) = (harness.client_with(harness.renewing_settings()), harness.observer());
    let guards = ok(of(&a, ["a", "b", "c"]).acquire().await);
    let working = guards.while_held(std::future::pending::<()>());
    assert!(ok(look.lock("c").force_release().await));
    // Noticed at the next renewal, after a third of the lease.
    let stopped = within("the work is stopped", working).await;
    let Err(Error::Lost(lost)) = stopped else { panic!("{stopped:?}") };
    assert_eq!(lost.name.as_str(), "c");
    assert_eq!(within("the loss is told", guards.lost()).await, lost);
    assert!(!guards.is_held());
    assert!(guards.guards()[0].is_held() && guards.guards()[1].is_held());
    assert!(guards.remaining().is_zero());
    drop(guards);
    wait_until_free(&look, ["a", "b", "c"]).await;
}

async fn drop_releases_all(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    for _ in 0..5 {
        drop(ok(of(&a, ["a", "b"]).try_acquire().await).expect("the one before was dropped"));
    }
    let guards = ok(of(&a, ["a", "b"]).acquire().await);
    let waiting = tokio::spawn(async move { ok(of(&b, ["b", "a"]).acquire().await) });
    until("it waits", || async { !ok(a.lock("b").waiters().await).is_empty() }).await;
    drop(guards);
    ok(done("it gets both", waiting).await.release().await);
}
