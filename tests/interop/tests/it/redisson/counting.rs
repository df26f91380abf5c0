//! The counting semaphore.

use interop::trials::Party;

use crate::redisson::case::{Case, Way};
use crate::redisson::stage::{QUIET, Stage};

const KIND: &str = "semaphore";
const CHANNEL: &str = "redisson_sc:{@}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "redisson_sets_tenure_takes", Way::FromPeer, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            one_number(&jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_sets_redisson_takes", Way::FromTenure, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            one_number(&rust, &jvm).await;
        }),
        Case::new(KIND, "tenure_releases_two_of_three_who_wait", Way::FromTenure, two_of_three),
        Case::new(KIND, "many_permits_at_once", Way::Both, many_at_once),
    ]
}

async fn one_number(first: &Party, second: &Party) {
    first.says("a", "sem.set @ 5", "true").await;
    second.says("b", "sem.set @ 7", "false").await;
    second.says("b", "sem.available @", "5").await;
    second.call("b", "sem.acquire @ 2").await;
    first.says("a", "sem.available @", "3").await;
    first.says("a", "sem.try @ 4", "false").await;
    first.says("a", "sem.try @ 3", "true").await;
    second.says("b", "sem.try @ 1", "false").await;
    // Nobody owns them.
    first.call("a", "sem.release @ 5").await;
    second.says("b", "sem.available @", "5").await;
}

async fn two_of_three(stage: Stage) {
    let (jvms, rust) = ([stage.jvm(0).await, stage.jvm(1).await], stage.worker(0).await);
    rust.says("a", "sem.set @ 0", "true").await;
    let waiting = [
        jvms[0].spawn("w1", "sem.acquire @ 1"),
        jvms[1].spawn("w1", "sem.acquire @ 1"),
        rust.spawn("w1", "sem.acquire @ 1"),
    ];
    stage.listening(CHANNEL, 3).await;
    rust.call("a", "sem.release @ 2").await;
    stage.until("two are in", || waiting.iter().filter(|w| !w.is_open()).count() == 2).await;
    assert_eq!(stage.number("GET @"), 0);
    jvms[0].call("a", "sem.release @ 1").await;
    for one in waiting {
        one.answer().await.expect("granted");
    }
    assert_eq!(stage.number("GET @"), 0);
}

async fn many_at_once(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let semaphore = client.counting_semaphore(stage.name());
    assert!(semaphore.try_set(4).await.unwrap());
    jvm.call("a", "sem.acquire @ 3").await;
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire(3).await }
    });
    stage.listening(CHANNEL, 1).await;
    jvm.call("a", "sem.release @ 2").await;
    waiting.await.unwrap().expect("granted");
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert!(!semaphore.try_acquire(1).await.unwrap());
    semaphore.add(5).await.unwrap();
    jvm.says("a", "sem.drain @", "5").await;
    assert_eq!(semaphore.available().await.unwrap(), 0);
    jvm.call("a", "sem.add @ 2").await;
    assert_eq!(semaphore.drain().await.unwrap(), 2);
}
