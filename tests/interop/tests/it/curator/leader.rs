//! Elections, and the notes of leaders and candidates.

use testbed::{done, within};

use crate::curator::environment::SHORT;
use crate::curator::fixture::Fixture;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

const KIND: &str = "leader";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "curator_shows_the_note_of_tenure", Direction::FromTenure, curator_shows_tenure),
        Case::new(KIND, "tenure_shows_the_id_of_curator", Direction::FromPeer, tenure_shows_curator),
        Case::new(KIND, "tenure_follows_who_leads", Direction::Both, tenure_follows),
        Case::new(KIND, "curator_dies_and_tenure_leads", Direction::FromPeer, curator_dies).one_server(),
    ]
}

async fn curator_shows_tenure(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    jvm.expect_answer("other", "leader.who @", "").await;
    let guard = client.election(fixture.name()).note("10.0.0.7:8080").campaign().await.unwrap();
    jvm.expect_answer("other", "leader.who @", "10.0.0.7:8080").await;
    let waiting = jvm.spawn("jvm", "lock leader:jvm-1 @");
    fixture.wait_for_queue("@", 2).await;
    let election = client.election(fixture.name()).note("rust-2");
    let second = tokio::spawn(async move { election.campaign().await });
    fixture.wait_for_queue("@", 3).await;
    jvm.expect_answer("other", "leader.all @", "10.0.0.7:8080,jvm-1,rust-2").await;
    guard.release().await.unwrap();
    wait_for_grant(waiting).await;
    jvm.expect_answer("other", "leader.all @", "jvm-1,rust-2").await;
    jvm.call("jvm", "unlock leader:jvm-1 @").await;
    let guard = second.await.unwrap().expect("granted");
    jvm.expect_answer("other", "leader.who @", "rust-2").await;
    guard.release().await.unwrap();
    jvm.expect_answer("other", "leader.all @", "").await;
}

async fn tenure_shows_curator(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let election = client.election(fixture.name());
    assert_eq!(election.leader().await.unwrap(), None);
    jvm.call("jvm", "lock leader:jvm-1 @").await;
    let leader = election.leader().await.unwrap().expect("there is one");
    assert_eq!(leader.note.as_deref(), Some("jvm-1"));
    assert!(election.try_campaign().await.unwrap().is_none(), "two lead");
    jvm.expect_answer("jvm", "is-held leader:jvm-1 @", "true").await;
    jvm.call("jvm", "unlock leader:jvm-1 @").await;
    let guard = within("elected", election.campaign()).await.unwrap();
    assert!(guard.fence().expect("a term") > leader.term);
    guard.release().await.unwrap();
}

async fn tenure_follows(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let election = client.election(fixture.name());
    let mut observer = election.observe().unwrap();
    let mut next = async || within("news", observer.next()).await.unwrap();
    assert_eq!(next().await, None);
    jvm.call("jvm", "lock leader:jvm-1 @").await;
    let theirs = next().await.expect("there is one");
    assert_eq!(theirs.note.as_deref(), Some("jvm-1"));
    let election = election.note("rust-1");
    let waiting = tokio::spawn(async move { election.campaign().await });
    fixture.wait_for_queue("@", 2).await;
    jvm.call("jvm", "unlock leader:jvm-1 @").await;
    let guard = waiting.await.unwrap().expect("granted");
    let mut leader = next().await;
    if leader.is_none() {
        leader = next().await;
    }
    let ours = leader.expect("there is one");
    assert_eq!(ours.note.as_deref(), Some("rust-1"));
    assert!(ours.term > theirs.term);
    guard.release().await.unwrap();
    assert_eq!(next().await, None);
}

async fn curator_dies(fixture: Fixture) {
    let (jvm, other) = (fixture.own_jvm(SHORT).await, fixture.jvm(0).await);
    let client = fixture.client().await;
    jvm.call("jvm", "lock leader:victim @").await;
    let election = client.election(fixture.name()).note("next");
    let waiting = tokio::spawn(async move { election.campaign().await });
    fixture.wait_for_queue("@", 2).await;
    other.expect_answer("other", "leader.all @", "victim,next").await;
    jvm.kill().await;
    let guard = done("elected", waiting).await.unwrap();
    other.expect_answer("other", "leader.who @", "next").await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}
