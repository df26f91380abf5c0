//! A quorum with a minority of its servers down.

use super::fixture::Fixture;
use super::mutual::hand_over;
use super::{Case, Direction, KIND};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "the_peer_holds_without_two_servers", Direction::FromPeer, |fixture| async move {
            let fixture = without_two(fixture).await;
            let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
            hand_over(&fixture, &peer, &rust).await;
        }),
        Case::new(KIND, "tenure_holds_without_two_servers", Direction::FromTenure, |fixture| async move {
            let fixture = without_two(fixture).await;
            let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
            hand_over(&fixture, &rust, &peer).await;
        }),
    ]
}

/// A fixture with its own servers, two of which are killed after the processes have connected.
async fn without_two(fixture: Fixture) -> Fixture {
    let fixture = fixture.with_own_servers().await;
    let (peer, rust) = (fixture.peer(0).await, fixture.tenure(0).await);
    hand_over(&fixture, &peer, &rust).await;
    // Not the first one, whose commands are observed.
    for server in &fixture.servers()[3..] {
        server.kill().expect("killed");
    }
    fixture
}
