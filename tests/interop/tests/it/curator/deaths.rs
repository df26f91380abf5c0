//! Processes of either side killed while they hold and while they wait, and clients that are closed.

use std::time::Instant;

use interop::trials::Doomed;

use crate::curator::mutual::Words;
use crate::curator::side::{Side, granted};
use crate::curator::stage::Stage;
use crate::curator::world::{LONG, SHORT};
use crate::curator::{Case, Way};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["lock", "read/write", "semaphore", "leader"] {
        let words = Words::of(kind);
        cases.push(Case::new(kind, "curator_dies", Way::FromPeer, move |stage| async move {
            let doomed = Doomed::new(stage.own_jvm(SHORT).await);
            dies(&stage, words, &doomed, false).await;
        }));
        cases.push(Case::new(kind, "tenure_dies", Way::FromTenure, move |stage| async move {
            let doomed = Doomed::new(stage.own_worker(SHORT).await);
            dies(&stage, words, &doomed, true).await;
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

/// It holds one and waits for another, and all who are left are of the other side.
async fn dies(stage: &Stage, words: Words, doomed: &Doomed, ours: bool) {
    let (holding, waiting) = (stage.part("holding"), stage.part("waiting"));
    tokio::join!(dies_holding(&holding, words, doomed, ours), dies_waiting(&waiting, words, doomed, ours),);
}

/// The heir has it when the session of the dead one has ended.
async fn dies_holding(stage: &Stage, words: Words, doomed: &Doomed, ours: bool) {
    let [victim, heir] = words.victim_and_other(stage, doomed, ours).await;
    victim.enter("victim").await;
    words.waiting(stage, 0).await;
    let waiting = heir.wait("heir");
    words.waiting(stage, 1).await;
    doomed.kill().await;
    granted(waiting).await;
    heir.leave("heir").await;
    words.nobody(stage).await;
}

/// The next one gets in although the first in line is dead, and both before it and behind it are of the other side.
async fn dies_waiting(stage: &Stage, words: Words, doomed: &Doomed, ours: bool) {
    let [victim, other] = words.victim_and_other(stage, doomed, ours).await;
    other.enter("holder").await;
    words.waiting(stage, 0).await;
    let first = victim.wait("victim");
    words.waiting(stage, 1).await;
    let second = other.wait("next");
    words.waiting(stage, 2).await;
    doomed.kill().await;
    assert!(first.answer().await.is_err());
    other.leave("holder").await;
    granted(second).await;
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
    assert!(begin.elapsed() < LONG / 2, "only after {:?}: by the end of the session", begin.elapsed());
    heir.leave("heir").await;
    words.nobody(stage).await;
}
