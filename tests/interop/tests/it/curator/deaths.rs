//! Processes of either side killed while they hold and while they wait, and clients that are closed.

use std::time::Instant;

use interop::trials::SharedVictim;

use crate::curator::environment::{LONG, SHORT};
use crate::curator::fixture::Fixture;
use crate::curator::mutual::KindCommands;
use crate::curator::side::Side;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["lock", "read/write", "semaphore", "leader"] {
        let commands = KindCommands::of(kind);
        cases.push(Case::new(kind, "curator_dies", Direction::FromPeer, move |fixture| async move {
            let shared_victim = SharedVictim::new(fixture.own_jvm(SHORT).await);
            dies(&fixture, commands, &shared_victim, false).await;
        }));
        cases.push(Case::new(kind, "tenure_dies", Direction::FromTenure, move |fixture| async move {
            let shared_victim = SharedVictim::new(fixture.own_worker(SHORT).await);
            dies(&fixture, commands, &shared_victim, true).await;
        }));
        cases.push(Case::new(kind, "curator_closes", Direction::FromPeer, move |fixture| async move {
            let (leaver, next) = (commands.own_jvm(&fixture, LONG).await, commands.tenure(&fixture, 0).await);
            closes(&fixture, commands, &leaver, &next).await;
        }));
        cases.push(Case::new(kind, "tenure_closes", Direction::FromTenure, move |fixture| async move {
            let (leaver, next) = (commands.own_tenure(&fixture, LONG).await, commands.jvm(&fixture, 0).await);
            closes(&fixture, commands, &leaver, &next).await;
        }));
    }
    // Processes are slow to start, and a server sees only their sessions: one deployment is enough.
    cases.into_iter().map(|case| if case.kind == "lock" { case } else { case.one_server() }).collect()
}

/// The victim holds one lock and waits for another; all other clients are of the other side.
async fn dies(fixture: &Fixture, commands: KindCommands, shared_victim: &SharedVictim, ours: bool) {
    let (holding, waiting) = (fixture.part("holding"), fixture.part("waiting"));
    tokio::join!(
        dies_holding(&holding, commands, shared_victim, ours),
        dies_waiting(&waiting, commands, shared_victim, ours),
    );
}

/// The next one is granted the lock once the session of the dead holder has expired.
async fn dies_holding(fixture: &Fixture, commands: KindCommands, shared_victim: &SharedVictim, ours: bool) {
    let [victim, next] = commands.victim_and_other(fixture, shared_victim, ours).await;
    victim.acquire("victim").await;
    commands.wait_for_waiters(fixture, 0).await;
    let waiting = next.spawn_acquire("next");
    commands.wait_for_waiters(fixture, 1).await;
    shared_victim.kill().await;
    wait_for_grant(waiting).await;
    next.release("next").await;
    commands.wait_until_empty(fixture).await;
}

/// The next waiter is granted the lock although the first in the queue is dead. Holder and next are of the other side.
async fn dies_waiting(fixture: &Fixture, commands: KindCommands, shared_victim: &SharedVictim, ours: bool) {
    let [victim, other] = commands.victim_and_other(fixture, shared_victim, ours).await;
    other.acquire("holder").await;
    commands.wait_for_waiters(fixture, 0).await;
    let first = victim.spawn_acquire("victim");
    commands.wait_for_waiters(fixture, 1).await;
    let second = other.spawn_acquire("next");
    commands.wait_for_waiters(fixture, 2).await;
    shared_victim.kill().await;
    assert!(first.answer().await.is_err());
    other.release("holder").await;
    wait_for_grant(second).await;
    other.release("next").await;
    commands.wait_until_empty(fixture).await;
}

/// Closing a client ends its session, and frees all its locks at once.
async fn closes(fixture: &Fixture, commands: KindCommands, leaver: &Side, next: &Side) {
    leaver.acquire("holder").await;
    commands.wait_for_waiters(fixture, 0).await;
    let waiting = next.spawn_acquire("next");
    commands.wait_for_waiters(fixture, 1).await;
    let begin = Instant::now();
    leaver.process.call("closer", "close").await;
    wait_for_grant(waiting).await;
    assert!(begin.elapsed() < LONG / 2, "only after {:?}: by the end of the session", begin.elapsed());
    next.release("next").await;
    commands.wait_until_empty(fixture).await;
}
