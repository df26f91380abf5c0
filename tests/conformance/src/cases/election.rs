//! Elections: one leader at a time, growing terms, and observers that see them come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

use tenure::{Client, Election, Error, Family, Leader, Observer};

use super::Case;
use crate::harness::{A_WHILE, Harness, PATIENCE, SHORT, done, ok, repeat_if_unanswered, until, within};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "election"; &[Family::Leader];
        one_leads_at_a_time_and_terms_grow,
        the_leader_is_shown_with_its_note,
        an_observer_sees_each_change,
        an_observer_sees_a_dead_leader_go,
        a_deposed_leader_is_notified,
        a_campaign_times_out,
        a_dropped_candidate_never_leads,
        max_hold_ends_a_term,
    ]
}

fn of(client: &Client) -> Election {
    client.election("x")
}

async fn next(observer: &mut Observer) -> Option<Leader> {
    ok(within("a change", observer.next()).await)
}

async fn wait_for_waiter(look: &Client) {
    until("it waits", || async { !ok(look.lock("x").waiters().await).is_empty() }).await;
}

/// Waits until the candidate has withdrawn by itself, long before its queue position would expire.
async fn wait_until_withdrawn(look: &Client) {
    until("it withdraws", || async { ok(look.lock("x").waiters().await).is_empty() }).await;
}

async fn one_leads_at_a_time_and_terms_grow(harness: Arc<Harness>) {
    let clients = [harness.client(), harness.client(), harness.client()];
    let (inside, last, look) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), harness.observer());
    let candidates: Vec<_> = (0..10)
        .map(|i| {
            let (election, look) = (of(&clients[i % 3]), of(&look));
            let (inside, last) = (inside.clone(), last.clone());
            tokio::spawn(async move {
                let leadership = ok(election.campaign().await);
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two lead");
                let term = leadership.fence().expect("a term");
                let before = last.swap(term.0, SeqCst);
                assert!(term.0 > before, "term {term} after {before}");
                let leader = ok(look.leader().await).expect("there is one");
                assert_eq!((leader.id, leader.term), (leadership.id().to_string(), term));
                assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two lead");
                ok(leadership.release().await);
            })
        })
        .collect();
    for candidate in candidates {
        done("each leads once", candidate).await;
    }
    assert!(ok(of(&look).leader().await).is_none());
}

async fn the_leader_is_shown_with_its_note(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    assert!(ok(of(&b).leader().await).is_none());
    let leadership = ok(of(&a).note("10.0.0.7:8080").campaign().await);
    let leader = ok(of(&b).leader().await).expect("there is one");
    assert_eq!(leader.note.as_deref(), Some("10.0.0.7:8080"));
    assert_eq!(Some(leader.term), leadership.fence());
    assert_eq!(leader.id, leadership.id().to_string());
    assert_eq!(leader.pid, Some(std::process::id()));
    ok(leadership.release().await);
    assert!(ok(of(&b).leader().await).is_none());
    let silent = ok(of(&b).campaign().await);
    assert_eq!(ok(of(&a).leader().await).expect("there is one").note, None, "the note was the other's");
    ok(silent.release().await);
}

async fn an_observer_sees_each_change(harness: Arc<Harness>) {
    let clients = [harness.client(), harness.client(), harness.client()];
    let mut observers = [ok(of(&clients[0]).observe()), ok(of(&clients[1]).observe())];
    for observer in &mut observers {
        assert_eq!(next(observer).await, None, "nobody leads yet");
    }
    let mut last = None;
    for i in 0..6 {
        let leadership = ok(of(&clients[i % 3]).note(format!("leader {i}")).campaign().await);
        for observer in &mut observers {
            let leader = next(observer).await.expect("somebody leads");
            assert_eq!(leader.note, Some(format!("leader {i}")));
            assert_eq!(Some(leader.term), leadership.fence());
            assert!(Some(leader.term) > last, "term {} after {last:?}", leader.term);
        }
        last = leadership.fence();
        ok(leadership.release().await);
        for observer in &mut observers {
            assert_eq!(next(observer).await, None, "nobody leads");
        }
    }
    // No change, no notification.
    let [mut observer, _] = observers;
    assert!(tokio::time::timeout(A_WHILE, observer.next()).await.is_err());
    // Of several changes between two calls, the observer gets only the latest.
    for client in &clients {
        ok(ok(of(client).campaign().await).release().await);
    }
    let leadership = ok(of(&clients[0]).campaign().await);
    let leader = next(&mut observer).await.expect("somebody leads");
    assert_eq!(Some(leader.term), leadership.fence());
    ok(leadership.release().await);
}

async fn an_observer_sees_a_dead_leader_go(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    repeat_if_unanswered(|| async { of(&a).lease(SHORT).campaign().await }).await.detach();
    let mut observer = ok(of(&b).observe());
    if next(&mut observer).await.is_some() {
        assert_eq!(next(&mut observer).await, None, "it is seen to go");
    }
    let leadership = ok(of(&b).campaign().await);
    assert_eq!(next(&mut observer).await.map(|l| l.term), leadership.fence());
    ok(leadership.release().await);
}

async fn a_deposed_leader_is_notified(harness: Arc<Harness>) {
    let (a, b, look) =
        (harness.client_with(harness.renewing_settings()), harness.client(), harness.observer());
    let leadership = ok(of(&a).campaign().await);
    let term = leadership.fence();
    let waiting = tokio::spawn(async move { ok(of(&b).campaign().await) });
    wait_for_waiter(&look).await;
    assert!(ok(look.lock("x").force_release().await));
    let successor = done("the next one leads", waiting).await;
    assert!(successor.fence() > term);
    // Noticed at the next renewal, after a third of the lease.
    let stopped = within("the old one is told", leadership.while_held(std::future::pending::<()>())).await;
    assert!(matches!(stopped, Err(Error::Lost(_))), "{stopped:?}");
    assert!(leadership.release().await.expect_err("it was deposed").is_lost());
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(ok(of(&look).leader().await).map(|l| l.term), successor.fence(), "the successor leads on");
    ok(successor.release().await);
}

async fn a_campaign_times_out(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    let leadership = ok(of(&a).campaign().await);
    let start = Instant::now();
    assert!(repeat_if_unanswered(|| async { of(&b).try_campaign_for(A_WHILE * 2).await }).await.is_none());
    let waited = start.elapsed();
    assert!(waited >= A_WHILE * 2, "it waited for {waited:?} only");
    wait_until_withdrawn(&look).await;
    ok(leadership.release().await);
    tokio::time::sleep(A_WHILE).await;
    assert!(ok(of(&look).leader().await).is_none(), "who gave up leads");
    let leadership = ok(of(&b).try_campaign_for(PATIENCE).await).expect("nobody leads");
    ok(leadership.release().await);
}

async fn a_dropped_candidate_never_leads(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    for _ in 0..3 {
        let leadership = ok(of(&a).campaign().await);
        let candidate = of(&b);
        let waiting = tokio::spawn(async move { ok(candidate.campaign().await) });
        wait_for_waiter(&look).await;
        waiting.abort();
        wait_until_withdrawn(&look).await;
        ok(leadership.release().await);
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(ok(of(&look).leader().await), None);
    }
}

async fn max_hold_ends_a_term(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let leadership = ok(of(&a).max_hold(SHORT).campaign().await);
    let successor = within("the next one leads", of(&b).campaign()).await;
    assert!(!leadership.is_held());
    ok(ok(successor).release().await);
}
