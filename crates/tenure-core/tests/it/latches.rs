//! What waiting for a latch costs the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::Clock;
use testbed::{done, until};

use crate::puppet::{Act, Call, Puppet};

#[tokio::test]
async fn those_who_wait_look_once_and_not_at_each_step() {
    const WAITERS: usize = 20;
    const STEPS: usize = 50;
    let store = Puppet::new(&Clock::manual());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    store.tell(move |call| {
        counted.fetch_add(usize::from(matches!(call, Call::Count(_))), SeqCst);
        Act::Pass
    });
    let client = store.client(|settings| settings.poll = Some(Duration::from_secs(3600)));
    let latch = client.latch("gate");
    assert!(latch.try_set_count(STEPS as u64).await.unwrap());
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let latch = latch.clone();
            tokio::spawn(async move { latch.wait().await })
        })
        .collect();
    until("all have looked", || async { calls.load(SeqCst) == 1 + WAITERS }).await;
    for _ in 1..STEPS {
        latch.count_down().await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(calls.load(SeqCst), 1 + WAITERS + STEPS - 1);
    latch.count_down().await.unwrap();
    for task in waiting {
        done("it is open", task).await.unwrap();
    }
    assert_eq!(calls.load(SeqCst), 1 + WAITERS + STEPS);
}
