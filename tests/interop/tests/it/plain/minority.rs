//! Servers that are gone: the rest of them is a majority.

use super::mutual::hand_over;
use super::stage::Stage;
use super::{Case, KIND, Way};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_holds_without_two_servers", Way::FromPeer, |stage| async move {
            let stage = without_two(stage).await;
            let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
            hand_over(&stage, &peer, &rust).await;
        }),
        Case::new(KIND, "tenure_holds_without_two_servers", Way::FromTenure, |stage| async move {
            let stage = without_two(stage).await;
            let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
            hand_over(&stage, &rust, &peer).await;
        }),
    ]
}

/// With servers of its own, whose processes had connected when two were killed.
async fn without_two(stage: Stage) -> Stage {
    let stage = stage.alone().await;
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    hand_over(&stage, &peer, &rust).await;
    // Not the first one, which is looked at.
    for server in &stage.servers()[3..] {
        server.kill().expect("killed");
    }
    stage
}
