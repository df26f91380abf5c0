//! The count-down latch: it never opens early, and waiters are released once it opened, whatever comes after.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use tenure::backend::Backend;
use tenure::{Client, Error, Family, Latch};
use tokio::task::JoinHandle;

use super::Case;
use super::interceptors::{ReadCounter, client_with_outage_switch};
use crate::harness::{A_WHILE, Harness, PATIENCE, done, ok, poll_times, repeat_if_unanswered, until, within};

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases![
        "latch"; &[Family::Latch];
        an_absent_latch_is_open,
        count_down_to_zero_wakes_all_waiters,
        a_wait_times_out,
        count_down_below_zero_is_harmless,
        the_count_is_set_only_when_open,
        a_count_of_zero_is_refused,
        deleting_wakes_the_waiters,
        setting_the_count_again_at_once_keeps_no_waiter,
        each_count_down_is_applied_once,
        a_dropped_count_down_is_applied_once,
        a_dropped_wait_leaves_nothing,
    ];
    let own = cases!["latch"; &[Family::Latch]; a_count_down_dropped_during_an_outage_is_applied_once];
    all.extend(own.into_iter().map(Case::calm));
    all
}

/// A client whose waits can be detected.
struct Waiting {
    store: Arc<ReadCounter>,
    client: Client,
}

impl Waiting {
    fn on(harness: &Harness) -> Self {
        let store = ReadCounter::new(harness.backend());
        Self { client: Client::with(store.clone(), harness.settings()), store }
    }

    /// Spawns tasks that wait, and returns once each has read the count.
    async fn start(&self, n: usize) -> Vec<JoinHandle<()>> {
        let before = self.store.reads();
        let each = (0..n).map(|_| {
            let latch = of(&self.client);
            tokio::spawn(async move { ok(latch.wait().await) })
        });
        let each = each.collect();
        self.store.wait_for_reads_above(before + n as u64 - 1).await;
        each
    }
}

fn of(client: &Client) -> Latch {
    client.latch("x")
}

async fn assert_count(latch: &Latch, n: u64) {
    assert_eq!(ok(latch.count().await), n);
}

async fn an_absent_latch_is_open(harness: Arc<Harness>) {
    let latch = of(&harness.client());
    assert_count(&latch, 0).await;
    ok(within("it is open", latch.wait()).await);
    assert!(repeat_if_unanswered(|| latch.try_wait_for(Duration::from_secs(5))).await);
}

async fn count_down_to_zero_wakes_all_waiters(harness: Arc<Harness>) {
    let (a, b, c) = (Waiting::on(&harness), Waiting::on(&harness), of(&harness.client()));
    assert!(ok(c.try_set_count(3).await));
    let mut waiting = a.start(10).await;
    waiting.extend(b.start(10).await);
    for left in [2, 1] {
        ok(c.count_down().await);
        assert_count(&of(&a.client), left).await;
    }
    tokio::time::sleep(A_WHILE).await;
    assert!(waiting.iter().all(|w| !w.is_finished()), "it opened early");
    ok(of(&a.client).count_down().await);
    for task in waiting {
        done("it opens for each", task).await;
    }
    assert_count(&c, 0).await;
}

async fn a_wait_times_out(harness: Arc<Harness>) {
    let latch = of(&harness.client());
    assert!(ok(latch.try_set_count(1).await));
    let start = Instant::now();
    assert!(!repeat_if_unanswered(|| async { latch.try_wait_for(A_WHILE).await }).await);
    assert!(start.elapsed() >= A_WHILE, "it waited for {:?} only", start.elapsed());
    assert_count(&latch, 1).await;
    ok(latch.count_down().await);
    assert!(ok(latch.try_wait_for(PATIENCE).await));
}

async fn count_down_below_zero_is_harmless(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client()), of(&harness.client()));
    ok(a.count_down().await);
    assert!(ok(a.try_set_count(1).await), "what was counted down before does not count");
    for _ in 0..5 {
        ok(b.count_down().await);
    }
    assert_count(&a, 0).await;
    assert!(ok(a.try_set_count(2).await));
    assert_count(&b, 2).await;
}

async fn the_count_is_set_only_when_open(harness: Arc<Harness>) {
    let (a, b) = (of(&harness.client()), of(&harness.client()));
    assert!(ok(a.try_set_count(2).await));
    assert!(!ok(b.try_set_count(9).await));
    ok(b.count_down().await);
    assert!(!ok(a.try_set_count(9).await));
    assert_count(&a, 1).await;
    ok(b.count_down().await);
    assert!(ok(b.try_set_count(9).await));
    assert_count(&a, 9).await;
}

async fn a_count_of_zero_is_refused(harness: Arc<Harness>) {
    let latch = of(&harness.client());
    let refused = latch.try_set_count(0).await;
    assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    assert_count(&latch, 0).await;
    assert!(ok(latch.try_set_count(1).await), "nothing was set");
}

async fn deleting_wakes_the_waiters(harness: Arc<Harness>) {
    let (a, b, c) = (Waiting::on(&harness), Waiting::on(&harness), of(&harness.client()));
    assert!(!ok(c.delete().await));
    assert!(ok(c.try_set_count(3).await));
    let mut waiting = a.start(5).await;
    waiting.extend(b.start(5).await);
    assert!(ok(c.delete().await));
    for task in waiting {
        done("it opens for each", task).await;
    }
    assert!(!ok(c.delete().await));
}

async fn setting_the_count_again_at_once_keeps_no_waiter(harness: Arc<Harness>) {
    let (a, b, c) = (Waiting::on(&harness), Waiting::on(&harness), of(&harness.client()));
    for round in 0..if harness.is_chaotic() { 10 } else { 50 } {
        assert!(ok(c.try_set_count(1).await));
        let mut waiting = a.start(1).await;
        waiting.extend(b.start(1).await);
        if round % 2 == 0 {
            ok(c.count_down().await);
        } else {
            assert!(ok(c.delete().await));
        }
        assert!(ok(c.try_set_count(2).await));
        for task in waiting {
            done("the one that was waited for has opened", task).await;
        }
        assert_count(&c, 2).await;
        assert!(ok(c.delete().await));
    }
}

async fn each_count_down_is_applied_once(harness: Arc<Harness>) {
    let n = 50;
    let clients = [harness.client(), harness.client()];
    let look = of(&harness.observer());
    assert!(ok(of(&clients[0]).try_set_count(n).await));
    let tasks: Vec<_> = (1..n)
        .map(|i| {
            let latch = of(&clients[i as usize % 2]);
            tokio::spawn(async move { ok(latch.count_down().await) })
        })
        .collect();
    for task in tasks {
        done("it is counted", task).await;
    }
    assert_count(&look, 1).await;
    // Repeated calls still in flight change nothing.
    assert!(!repeat_if_unanswered(|| async { look.try_wait_for(A_WHILE).await }).await, "it opened early");
    assert_count(&look, 1).await;
    ok(of(&clients[1]).count_down().await);
    assert!(ok(look.try_wait_for(PATIENCE).await));
    assert_count(&look, 0).await;
}

async fn a_dropped_count_down_is_applied_once(harness: Arc<Harness>) {
    let (a, look) = (of(&harness.client()), of(&harness.observer()));
    assert!(ok(a.try_set_count(20).await));
    for k in 0..10 {
        let _ = poll_times(a.count_down(), k).await;
        let left = 20 - k as u64;
        until("it happens", || async { ok(look.count().await) == left }).await;
    }
    tokio::time::sleep(A_WHILE).await;
    assert_count(&look, 11).await;
}

async fn a_count_down_dropped_during_an_outage_is_applied_once(harness: Arc<Harness>) {
    let (client, away) = client_with_outage_switch(&harness);
    let (a, look) = (of(&client), of(&harness.observer()));
    assert!(ok(a.try_set_count(2).await));
    away.store(true, SeqCst);
    assert!(poll_times(a.count_down(), 2).await.is_none());
    assert_count(&look, 2).await;
    away.store(false, SeqCst);
    until("it happens", || async { ok(look.count().await) == 1 }).await;
    assert!(!repeat_if_unanswered(|| async { look.try_wait_for(A_WHILE).await }).await, "it happened twice");
    ok(a.count_down().await);
    assert_count(&look, 0).await;
}

async fn a_dropped_wait_leaves_nothing(harness: Arc<Harness>) {
    let c = of(&harness.client());
    assert!(ok(c.try_set_count(1).await));
    let waiting = Waiting::on(&harness);
    for k in 0..10 {
        assert!(poll_times(of(&waiting.client).wait(), k % 4).await.is_none(), "it is closed");
    }
    for task in waiting.start(3).await {
        task.abort();
    }
    // Any wait that is left would keep a reference to the store.
    let Waiting { store, client } = waiting;
    drop(client);
    let store = Arc::downgrade(&(store as Arc<dyn Backend>));
    until("nobody uses the store any more", || async { store.strong_count() == 0 }).await;
    assert_count(&c, 1).await;
}
