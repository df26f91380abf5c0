//! Methods of the fenced lock that do not do what their names say.

use std::time::Duration;
use testbed::until_true;

use super::ours;
use crate::redisson::case::Case;
use crate::redisson::fixture::Fixture;

const FENCED: &str = "poll=30m&lease=30m&fence=redisson";

pub(super) fn cases() -> Vec<Case> {
    vec![
        ours("fenced", "a_lease_is_dropped", dropped_lease),
        ours("fenced", "a_try_waits", waiting_try),
        ours("fenced", "the_token_of_another_is_given", token_of_another),
    ]
}

/// A given lease ends, with or without a fence.
async fn dropped_lease(fixture: Fixture) {
    let client = fixture.client(FENCED).await;
    let guard = client.lock(fixture.name()).lease(Duration::from_secs(2)).acquire().await.unwrap();
    assert!(guard.fence().is_some());
    assert!(fixture.number("PTTL @") <= 2000);
    until_true("its lease has ended", || fixture.number("EXISTS @") == 0).await;
    assert!(!guard.is_held());
}

async fn waiting_try(fixture: Fixture) {
    let [client, other] = [fixture.client(FENCED).await, fixture.client(FENCED).await];
    let guard = client.lock(fixture.name()).acquire().await.unwrap();
    assert!(other.lock(fixture.name()).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// A holder that lost the lock keeps its old fence, and does not get that of the next holder.
async fn token_of_another(fixture: Fixture) {
    let [client, other] = [fixture.client(FENCED).await, fixture.client(FENCED).await];
    let old = client.lock(fixture.name()).lease(Duration::from_secs(2)).acquire().await.unwrap();
    let fence = old.fence().expect("a fence");
    let new = other.lock(fixture.name()).acquire().await.unwrap();
    assert!(new.fence().expect("a fence") > fence);
    assert_eq!(old.fence(), Some(fence));
    new.release().await.unwrap();
}
