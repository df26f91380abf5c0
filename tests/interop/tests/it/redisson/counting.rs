//! The counting semaphore.

use interop::trials::TrialProcess;
use testbed::until_true;

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, QUIET};

const KIND: &str = "semaphore";
const CHANNEL: &str = "redisson_sc:{@}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "redisson_sets_tenure_takes", Direction::FromPeer, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            one_number(&jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_sets_redisson_takes", Direction::FromTenure, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            one_number(&rust, &jvm).await;
        }),
        Case::new(KIND, "tenure_releases_two_of_three_who_wait", Direction::FromTenure, two_of_three),
        Case::new(KIND, "many_permits_at_once", Direction::Both, many_at_once),
    ]
}

async fn one_number(first: &TrialProcess, second: &TrialProcess) {
    first.expect_answer("a", "sem.set @ 5", "true").await;
    second.expect_answer("b", "sem.set @ 7", "false").await;
    second.expect_answer("b", "sem.available @", "5").await;
    second.call("b", "sem.acquire @ 2").await;
    first.expect_answer("a", "sem.available @", "3").await;
    first.expect_answer("a", "sem.try @ 4", "false").await;
    first.expect_answer("a", "sem.try @ 3", "true").await;
    second.expect_answer("b", "sem.try @ 1", "false").await;
    // Permits have no owner.
    first.call("a", "sem.release @ 5").await;
    second.expect_answer("b", "sem.available @", "5").await;
}

async fn two_of_three(fixture: Fixture) {
    let (jvms, rust) = ([fixture.jvm(0).await, fixture.jvm(1).await], fixture.worker(0).await);
    rust.expect_answer("a", "sem.set @ 0", "true").await;
    let waiting = [
        jvms[0].spawn("w1", "sem.acquire @ 1"),
        jvms[1].spawn("w1", "sem.acquire @ 1"),
        rust.spawn("w1", "sem.acquire @ 1"),
    ];
    fixture.wait_for_subscribers(CHANNEL, 3).await;
    rust.call("a", "sem.release @ 2").await;
    until_true("two are in", || waiting.iter().filter(|w| !w.is_open()).count() == 2).await;
    assert_eq!(fixture.number("GET @"), 0);
    jvms[0].call("a", "sem.release @ 1").await;
    for one in waiting {
        one.answer().await.expect("granted");
    }
    assert_eq!(fixture.number("GET @"), 0);
}

async fn many_at_once(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let semaphore = client.counting_semaphore(fixture.name());
    assert!(semaphore.try_set(4).await.unwrap());
    jvm.call("a", "sem.acquire @ 3").await;
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire(3).await }
    });
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    jvm.call("a", "sem.release @ 2").await;
    waiting.await.unwrap().expect("granted");
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert!(!semaphore.try_acquire(1).await.unwrap());
    semaphore.add(5).await.unwrap();
    jvm.expect_answer("a", "sem.drain @", "5").await;
    assert_eq!(semaphore.available().await.unwrap(), 0);
    jvm.call("a", "sem.add @ 2").await;
    assert_eq!(semaphore.drain().await.unwrap(), 2);
}
