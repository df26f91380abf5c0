//! Elections, and who says what of itself.

use testbed::{done, within};

use crate::curator::side::granted;
use crate::curator::stage::Stage;
use crate::curator::world::SHORT;
use crate::curator::{Case, Way};

const KIND: &str = "leader";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "curator_shows_the_note_of_tenure", Way::FromTenure, curator_shows_tenure),
        Case::new(KIND, "tenure_shows_the_id_of_curator", Way::FromPeer, tenure_shows_curator),
        Case::new(KIND, "tenure_follows_who_leads", Way::Both, tenure_follows),
        Case::new(KIND, "curator_dies_and_tenure_leads", Way::FromPeer, curator_dies).one_server(),
    ]
}

async fn curator_shows_tenure(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    jvm.says("other", "leader.who @", "").await;
    let guard = client.election(stage.name()).note("10.0.0.7:8080").campaign().await.unwrap();
    jvm.says("other", "leader.who @", "10.0.0.7:8080").await;
    let waiting = jvm.spawn("jvm", "lock leader:jvm-1 @");
    stage.lined_up("@", 2).await;
    let election = client.election(stage.name()).note("rust-2");
    let second = tokio::spawn(async move { election.campaign().await });
    stage.lined_up("@", 3).await;
    jvm.says("other", "leader.all @", "10.0.0.7:8080,jvm-1,rust-2").await;
    guard.release().await.unwrap();
    granted(waiting).await;
    jvm.says("other", "leader.all @", "jvm-1,rust-2").await;
    jvm.call("jvm", "unlock leader:jvm-1 @").await;
    let guard = second.await.unwrap().expect("granted");
    jvm.says("other", "leader.who @", "rust-2").await;
    guard.release().await.unwrap();
    jvm.says("other", "leader.all @", "").await;
}

async fn tenure_shows_curator(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let election = client.election(stage.name());
    assert_eq!(election.leader().await.unwrap(), None);
    jvm.call("jvm", "lock leader:jvm-1 @").await;
    let leader = election.leader().await.unwrap().expect("there is one");
    assert_eq!(leader.note.as_deref(), Some("jvm-1"));
    assert!(election.try_campaign().await.unwrap().is_none(), "two lead");
    jvm.says("jvm", "is-held leader:jvm-1 @", "true").await;
    jvm.call("jvm", "unlock leader:jvm-1 @").await;
    let guard = within("elected", election.campaign()).await.unwrap();
    assert!(guard.fence().expect("a term") > leader.term);
    guard.release().await.unwrap();
}

async fn tenure_follows(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let election = client.election(stage.name());
    let mut observer = election.observe().unwrap();
    let mut next = async || within("news", observer.next()).await.unwrap();
    assert_eq!(next().await, None);
    jvm.call("jvm", "lock leader:jvm-1 @").await;
    let theirs = next().await.expect("there is one");
    assert_eq!(theirs.note.as_deref(), Some("jvm-1"));
    let election = election.note("rust-1");
    let waiting = tokio::spawn(async move { election.campaign().await });
    stage.lined_up("@", 2).await;
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

async fn curator_dies(stage: Stage) {
    let (jvm, other) = (stage.own_jvm(SHORT).await, stage.jvm(0).await);
    let client = stage.client().await;
    jvm.call("jvm", "lock leader:victim @").await;
    let election = client.election(stage.name()).note("heir");
    let waiting = tokio::spawn(async move { election.campaign().await });
    stage.lined_up("@", 2).await;
    other.says("other", "leader.all @", "victim,heir").await;
    jvm.kill().await;
    let guard = done("elected", waiting).await.unwrap();
    other.says("other", "leader.who @", "heir").await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}
