//! Sessions that expire while their process is stopped.

use testbed::until;

use crate::curator::environment::SHORT;
use crate::curator::fixture::Fixture;
use crate::curator::mutual::KindCommands;
use crate::curator::side::Side;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    let commands = KindCommands::of("lock");
    vec![
        Case::new("lock", "curator_stands_still", Direction::FromPeer, move |fixture| async move {
            let (sleeper, other) =
                (commands.own_jvm(&fixture, SHORT).await, commands.tenure(&fixture, 0).await);
            stands_still(&fixture, commands, &sleeper, &other).await;
            comes_back(&fixture, commands, &sleeper, &other).await;
        }),
        Case::new("lock", "tenure_stands_still", Direction::FromTenure, move |fixture| async move {
            let (sleeper, other) =
                (commands.own_tenure(&fixture, SHORT).await, commands.jvm(&fixture, 0).await);
            stands_still(&fixture, commands, &sleeper, &other).await;
            // The former holder notices the loss by its own clock.
            assert!(!sleeper.is_held("sleeper").await);
            let late = sleeper
                .process
                .try_call("sleeper", "unlock plain @")
                .await
                .expect_err("it was not in any more");
            assert_eq!(late.class(), Some("Lost"), "{late}");
            comes_back(&fixture, commands, &sleeper, &other).await;
        }),
    ]
}

/// The waiter of the other side is granted the lock once the session has expired.
async fn stands_still(fixture: &Fixture, commands: KindCommands, sleeper: &Side, other: &Side) {
    sleeper.acquire("sleeper").await;
    let waiting = other.spawn_acquire("other");
    commands.wait_for_waiters(fixture, 1).await;
    sleeper.process.signal("STOP");
    wait_for_grant(waiting).await;
    sleeper.process.signal("CONT");
}

/// The resumed process continues with a new session, and queues like any other.
async fn comes_back(fixture: &Fixture, commands: KindCommands, sleeper: &Side, other: &Side) {
    // On a busy machine, connecting may take more than one attempt.
    let connected = || async { sleeper.process.try_call("probe", "try plain @.probe").await.is_ok() };
    until("it is connected again", connected).await;
    let again = sleeper.spawn_acquire("again");
    commands.wait_for_waiters(fixture, 1).await;
    assert!(other.is_held("other").await && again.is_open(), "two are in");
    other.release("other").await;
    wait_for_grant(again).await;
    sleeper.release("again").await;
    commands.wait_until_empty(fixture).await;
}
