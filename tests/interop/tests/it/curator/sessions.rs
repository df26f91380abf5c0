//! Sessions that end while their clients live on: a process that stood still for too long.

use testbed::until;

use crate::curator::mutual::Words;
use crate::curator::side::{Side, granted};
use crate::curator::stage::Stage;
use crate::curator::world::SHORT;
use crate::curator::{Case, Way};

pub(crate) fn cases() -> Vec<Case> {
    let words = Words::of("lock");
    vec![
        Case::new("lock", "curator_stands_still", Way::FromPeer, move |stage| async move {
            let (sleeper, other) = (words.own_jvm(&stage, SHORT).await, words.rust(&stage, 0).await);
            stands_still(&stage, words, &sleeper, &other).await;
            comes_back(&stage, words, &sleeper, &other).await;
        }),
        Case::new("lock", "tenure_stands_still", Way::FromTenure, move |stage| async move {
            let (sleeper, other) = (words.own_rust(&stage, SHORT).await, words.jvm(&stage, 0).await);
            stands_still(&stage, words, &sleeper, &other).await;
            // Whoever held it knows by its own clock.
            assert!(!sleeper.is_in("sleeper").await);
            let late = sleeper
                .party
                .try_call("sleeper", "unlock plain @")
                .await
                .expect_err("it was not in any more");
            assert_eq!(late.class(), Some("Lost"), "{late}");
            comes_back(&stage, words, &sleeper, &other).await;
        }),
    ]
}

/// The other one gets in when the session has ended.
async fn stands_still(stage: &Stage, words: Words, sleeper: &Side, other: &Side) {
    sleeper.enter("sleeper").await;
    let waiting = other.wait("other");
    words.waiting(stage, 1).await;
    sleeper.party.signal("STOP");
    granted(waiting).await;
    sleeper.party.signal("CONT");
}

/// It goes on with another session, and queues like everybody.
async fn comes_back(stage: &Stage, words: Words, sleeper: &Side, other: &Side) {
    // On a machine under load it may take more than one try to connect.
    let connected = || async { sleeper.party.try_call("probe", "try plain @.probe").await.is_ok() };
    until("it is connected again", connected).await;
    let again = sleeper.wait("again");
    words.waiting(stage, 1).await;
    assert!(other.is_in("other").await && again.is_open(), "two are in");
    other.leave("other").await;
    granted(again).await;
    sleeper.leave("again").await;
    words.nobody(stage).await;
}
