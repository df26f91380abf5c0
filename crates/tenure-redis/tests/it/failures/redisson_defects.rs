//! Defects of Redisson that ours must not have, as far as no JVM is needed to show them and `crates/interop` does not
//! show them already.

use testbed::within;

use crate::bench::{Bench, renewed};

/// 3. One bad entry stops the renewal of all that are renewed with it.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_of_a_wrong_type_does_not_stop_the_renewal_of_others() {
    let bench = Bench::start();
    let client = bench.client().await;
    let mut held = Vec::new();
    for n in 0..50 {
        held.push(client.lock(format!("x{n}")).acquire().await.unwrap());
    }
    bench.cmd(&["SET", "x7", "a word"]);
    let bad = held.remove(7);
    tokio::join!(within("lost", bad.lost()), renewed(&held));
    for guard in held {
        guard.release().await.unwrap();
    }
}

/// 12. A semaphore made smaller than what is in use publishes no negative number, which no JVM can bear.
#[tokio::test(flavor = "multi_thread")]
async fn no_negative_number_of_permits_is_published() {
    let bench = Bench::start();
    let client = bench.client().await;
    let mut messages = bench.redis.psubscribe(&["redisson_sc:*"]).unwrap();
    let semaphore = client.semaphore("x", 5);
    let held = semaphore.acquire_many(4).await.unwrap();
    semaphore.resize(1).await.unwrap();
    assert_eq!(bench.number(&["GET", "x"]), -3);
    held.release().await.unwrap();
    let all: Vec<_> = messages.drain().unwrap().iter().map(testbed::Message::text).collect();
    assert!(!all.is_empty() && all.iter().all(|text| text.parse::<i64>().is_ok_and(|n| n >= 0)), "{all:?}");
}
