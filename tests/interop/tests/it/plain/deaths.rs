//! Processes of either side killed while they hold.

use std::time::{Duration, Instant};

use super::side::{Side, granted};
use super::stage::{LEASE, Stage};
use super::{Case, KIND, Way};

/// What the dead leave behind lives this long.
const SHORT: Duration = Duration::from_secs(3);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_dies_holding", Way::FromPeer, |stage| async move {
            let (victim, heir) = (stage.own_peer().await, stage.rust(0).await);
            dies_holding(&stage, &victim, &heir).await;
        }),
        Case::new(KIND, "tenure_dies_holding", Way::FromTenure, |stage| async move {
            let (victim, heir) = (stage.own_rust("").await, stage.peer(0).await);
            dies_holding(&stage, &victim, &heir).await;
        }),
    ]
}

/// The heir has it when the lease of the dead one has ended, and not before.
async fn dies_holding(stage: &Stage, victim: &Side, heir: &Side) {
    let begin = Instant::now();
    victim.enter(SHORT).await;
    let mut askers = stage.watch();
    let waiting = heir.wait(LEASE);
    askers.asked(stage, 1).await;
    victim.kill().await;
    granted(waiting).await;
    assert!(begin.elapsed() >= SHORT, "{:?}: two are in", begin.elapsed());
    heir.leave().await;
}
