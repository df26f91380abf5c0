//! Defects of Redisson that ours must not have, as far as no JVM is needed to show them and `tests/interop` does not
//! show them already.

use testbed::within;

use crate::harness::{Harness, renewed};

/// 3. One bad entry stops the renewal of all that are renewed with it.
#[tokio::test(flavor = "multi_thread")]
async fn one_key_of_a_wrong_type_does_not_stop_the_renewal_of_others() {
    let harness = Harness::start();
    let client = harness.client().await;
    let mut held = Vec::new();
    for n in 0..50 {
        held.push(client.lock(format!("x{n}")).acquire().await.unwrap());
    }
    harness.cmd(&["SET", "x7", "a word"]);
    let bad = held.remove(7);
    tokio::join!(within("lost", bad.lost()), renewed(&held));
    for guard in held {
        guard.release().await.unwrap();
    }
}

/// 12. A semaphore made smaller than what is in use publishes no negative number, which no JVM can bear.
#[tokio::test(flavor = "multi_thread")]
async fn no_negative_number_of_permits_is_published() {
    let harness = Harness::start();
    let client = harness.client().await;
    let mut messages = harness.redis.psubscribe(&["redisson_sc:*"]).unwrap();
    let semaphore = client.semaphore("x", 5);
    let held = semaphore.acquire_many(4).await.unwrap();
    semaphore.resize(1).await.unwrap();
    assert_eq!(harness.number(&["GET", "x"]), -3);
    held.release().await.unwrap();
    let all: Vec<_> = messages.drain().unwrap().iter().map(testbed::Message::text).collect();
    assert!(!all.is_empty() && all.iter().all(|text| text.parse::<i64>().is_ok_and(|n| n >= 0)), "{all:?}");
}

/// A thread of a JVM that has found a lock taken, and does not sleep yet, misses the message of a writer, which wakes only
/// those that sleep: it would wait for as long as the lease. The message of a reader is kept for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_goes_is_heard_by_those_who_do_not_sleep_yet() {
    let harness = Harness::start();
    let client = harness.client().await;
    let mut messages = harness.redis.psubscribe(&["redisson_rwlock:*"]).unwrap();
    let mut told = || -> Vec<_> { messages.drain().unwrap().iter().map(testbed::Message::text).collect() };
    let (lock, me) = (client.rwlock("x"), tenure_core::Owner::new());
    lock.write().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(told(), ["1", "0"]);
    lock.read().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(told(), ["0"]);
    let write = lock.write().owner(&me).acquire().await.unwrap();
    let read = lock.read().owner(&me).acquire().await.unwrap();
    write.release().await.unwrap();
    assert_eq!(told(), ["1", "0"], "readers may join");
    read.release().await.unwrap();
    assert_eq!(told(), ["0"]);
    let _held = lock.write().acquire().await.unwrap();
    assert!(lock.write().force_release().await.unwrap());
    assert_eq!(told(), ["1", "0"]);
}

/// What Redisson before 4 renews: with its own hold those of all other readers, which it sets down to its own lease.
const OLD_WATCHDOG: &str = "for _, key in ipairs(redis.call('HKEYS', KEYS[1])) do
    local holds = tonumber(redis.call('HGET', KEYS[1], key))
    for n = 1, holds or 0 do redis.call('PEXPIRE', ARGV[2] .. ':' .. key .. ':rwlock_timeout:' .. n, ARGV[1]) end
end redis.call('PEXPIRE', KEYS[1], ARGV[1])";

/// A reader of ours with a fixed lease beside a JVM of an older version: what that takes away is asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_with_a_fixed_lease_outlives_the_watchdog_of_an_older_redisson() {
    let harness = Harness::start();
    let mut options = harness.options();
    options.redisson_watchdog = std::time::Duration::from_secs(3);
    let client = tenure_core::Client::with(crate::harness::open(options).await, crate::harness::settings());
    let guard = client.rwlock("x").read().lease(crate::harness::LONG).acquire().await.unwrap();
    let own = format!("{{x}}:{}:rwlock_timeout:1", guard.id());
    harness.cmd(&["EVAL", OLD_WATCHDOG, "1", "x", "3000", "{x}"]);
    assert!(harness.left(&own) <= std::time::Duration::from_secs(3), "the test itself");
    testbed::until_true("asked for again", || harness.covers("x", &guard) && harness.covers(&own, &guard))
        .await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}
