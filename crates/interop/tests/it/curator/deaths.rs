//! Processes of either side killed while they hold and while they wait, and clients that are closed.

use std::time::Instant;

use crate::mutual::Words;
use crate::side::{Side, granted};
use crate::stage::{SOON, Stage, assert_soon};
use crate::world::{LONG, SHORT};
use crate::{Case, Way};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["lock", "read/write", "semaphore", "leader"] {
        let words = Words::of(kind);
        cases.push(Case::new(kind, "curator_dies_holding", Way::FromPeer, move |stage| async move {
            let (victim, heir) = (words.own_jvm(&stage, SHORT).await, words.rust(&stage, 0).await);
            dies_holding(&stage, words, &victim, &heir).await;
        }));
        cases.push(Case::new(kind, "tenure_dies_holding", Way::FromTenure, move |stage| async move {
            let (victim, heir) = (words.own_rust(&stage, SHORT).await, words.jvm(&stage, 0).await);
            dies_holding(&stage, words, &victim, &heir).await;
        }));
        cases.push(Case::new(kind, "curator_dies_waiting", Way::FromPeer, move |stage| async move {
            let (victim, other) = (words.own_jvm(&stage, SHORT).await, words.rust(&stage, 0).await);
            dies_waiting(&stage, words, &victim, &other).await;
        }));
        cases.push(Case::new(kind, "tenure_dies_waiting", Way::FromTenure, move |stage| async move {
            let (victim, other) = (words.own_rust(&stage, SHORT).await, words.jvm(&stage, 0).await);
            dies_waiting(&stage, words, &victim, &other).await;
        }));
        cases.push(Case::new(kind, "curator_closes", Way::FromPeer, move |stage| async move {
            let (leaver, heir) = (words.own_jvm(&stage, LONG).await, words.rust(&stage, 0).await);
            closes(&stage, words, &leaver, &heir).await;
        }));
        cases.push(Case::new(kind, "tenure_closes", Way::FromTenure, move |stage| async move {
            let (leaver, heir) = (words.own_rust(&stage, LONG).await, words.jvm(&stage, 0).await);
            closes(&stage, words, &leaver, &heir).await;
        }));
    }
    // Processes take their time to start, and the servers see no more of them than a session.
    cases.into_iter().map(|case| if case.kind == "lock" { case } else { case.one_server() }).collect()
}

/// The heir has it when the session of the dead one has ended.
async fn dies_holding(stage: &Stage, words: Words, victim: &Side, heir: &Side) {
    victim.enter("victim").await;
    words.waiting(stage, 0).await;
    let waiting = heir.wait("heir");
    words.waiting(stage, 1).await;
    victim.party.kill().await;
    let begin = Instant::now();
    granted(waiting).await;
    assert!(begin.elapsed() < SHORT + SOON, "only after {:?}", begin.elapsed());
    heir.leave("heir").await;
    words.nobody(stage).await;
}

/// The next one gets in although the first in line is dead, and both before it and behind it are of the other side.
async fn dies_waiting(stage: &Stage, words: Words, victim: &Side, other: &Side) {
    other.enter("holder").await;
    words.waiting(stage, 0).await;
    let first = victim.wait("victim");
    words.waiting(stage, 1).await;
    let second = other.wait("next");
    words.waiting(stage, 2).await;
    victim.party.kill().await;
    assert!(first.answer().await.is_err());
    let begin = Instant::now();
    other.leave("holder").await;
    granted(second).await;
    assert!(begin.elapsed() < SHORT + SOON, "only after {:?}", begin.elapsed());
    other.leave("next").await;
    words.nobody(stage).await;
}

/// A client that is closed takes its session with it, and all at once.
async fn closes(stage: &Stage, words: Words, leaver: &Side, heir: &Side) {
    leaver.enter("holder").await;
    words.waiting(stage, 0).await;
    let waiting = heir.wait("heir");
    words.waiting(stage, 1).await;
    let begin = Instant::now();
    leaver.party.call("closer", "close").await;
    granted(waiting).await;
    assert_soon(begin, "the hand-over");
    heir.leave("heir").await;
    words.nobody(stage).await;
}
