//! Readers and writers of both sides.

use std::time::Duration;

use interop::Options;
use interop::trials::TrialProcess;
use tenure::Owner;
use testbed::{done, until_true};

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, LEASE, QUIET};

const KIND: &str = "read/write";
const CHANNEL: &str = "redisson_rwlock:{@}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "redisson_reads_and_leaves_first", Direction::FromPeer, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            two_readers(&fixture, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_reads_and_leaves_first", Direction::FromTenure, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            two_readers(&fixture, &rust, &jvm).await;
        }),
        Case::new(KIND, "redisson_writes_and_all_readers_wait", Direction::FromPeer, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            all_readers_at_once(&fixture, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_writes_and_all_readers_wait", Direction::FromTenure, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            all_readers_at_once(&fixture, &rust, &jvm).await;
        }),
        Case::new(KIND, "redisson_keeps_reading_under_its_write", Direction::FromPeer, redisson_downgrades),
        Case::new(KIND, "tenure_keeps_reading_under_its_write", Direction::FromTenure, tenure_downgrades),
        Case::new(KIND, "a_read_outlives_the_watchdog_of_redisson", Direction::Both, outlives_the_watchdog),
        Case::new(KIND, "a_dead_reader_holds_no_writer_up", Direction::Both, dead_reader),
    ]
}

/// Two readers share the lock; it stays held when one releases; writers of both sides wait for both.
async fn two_readers(fixture: &Fixture, first: &TrialProcess, second: &TrialProcess) {
    first.call("reader", "lock read @ 1800000").await;
    second.call("reader", "lock read @ 1800000").await;
    assert_eq!(fixture.command("HGET @ mode").text(), "read");
    assert_eq!(fixture.number("HLEN @"), 3);
    let one = first.spawn("writer", "lock write @ 1800000");
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    first.call("reader", "unlock read @").await;
    assert_eq!(fixture.number("HLEN @"), 2, "the other reader was dropped");
    assert!(fixture.number("PTTL @") > 10_000);
    for process in [first, second] {
        process.expect_answer("other", "try write @", "false").await;
    }
    assert!(one.is_open());
    second.call("reader", "unlock read @").await;
    one.answer().await.expect("granted");
    let two = second.spawn("writer", "lock write @ 1800000");
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    second.wait_until_parked("writer").await;
    first.call("writer", "unlock write @").await;
    two.answer().await.expect("granted");
    second.call("writer", "unlock write @").await;
    assert_eq!(fixture.number("EXISTS @"), 0);
}

/// When a writer releases, waiting readers of both sides are admitted together.
async fn all_readers_at_once(fixture: &Fixture, writer: &TrialProcess, other: &TrialProcess) {
    writer.call("writer", "lock write @ 1800000").await;
    let mut waiting = Vec::new();
    for process in [writer, other] {
        process.expect_answer("reader-0", "try read @", "false").await;
        waiting.extend((0..3).map(|n| process.spawn(&format!("reader-{n}"), "lock read @ 1800000")));
    }
    fixture.wait_for_subscribers(CHANNEL, 2).await;
    for process in [writer, other] {
        for n in 0..3 {
            process.wait_until_parked(&format!("reader-{n}")).await;
        }
    }
    writer.call("writer", "unlock write @").await;
    for one in waiting {
        one.answer().await.expect("granted");
    }
    assert_eq!(fixture.number("HLEN @"), 7);
    for process in [writer, other] {
        for n in 0..3 {
            process.call(&format!("reader-{n}"), "unlock read @").await;
        }
    }
    assert_eq!(fixture.number("EXISTS @"), 0);
}

/// Redisson does not notify waiting readers of the downgrade; Tenure's waiters poll.
async fn redisson_downgrades(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client("poll=2s&lease=30m").await);
    jvm.call("owner", "lock write @ 1800000").await;
    jvm.call("owner", "lock read @ 1800000").await;
    let waiting = tokio::spawn({
        let lock = client.rwlock(fixture.name()).read();
        async move { lock.acquire().await }
    });
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    jvm.call("owner", "unlock write @").await;
    let guard = done("a look", waiting).await.expect("granted");
    assert!(client.rwlock(fixture.name()).write().try_acquire().await.unwrap().is_none());
    jvm.call("owner", "unlock read @").await;
    assert!(guard.is_held());
    assert_eq!(fixture.number(&format!("HGET @ {}", guard.id())), 1);
    guard.release().await.unwrap();
}

async fn tenure_downgrades(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client(QUIET).await);
    let me = Owner::new();
    let both = client.rwlock(fixture.name());
    let write = both.write().owner(&me).lease(LEASE).acquire().await.unwrap();
    let read = both.read().owner(&me).lease(LEASE).acquire().await.unwrap();
    let waiting = jvm.spawn("reader", "lock read @ 1800000");
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    jvm.wait_until_parked("reader").await;
    write.release().await.unwrap();
    waiting.answer().await.expect("granted");
    jvm.expect_answer("other", "try write @", "false").await;
    jvm.call("reader", "unlock read @").await;
    assert!(read.is_held());
    jvm.expect_answer("other", "try write @", "false").await;
    read.release().await.unwrap();
    jvm.expect_answer("other", "try write @", "true").await;
    jvm.call("other", "unlock write @").await;
}

/// The watchdog of a Redisson reader shortens the TTL of the shared hash to its own lease. When that process dies, the
/// hash must not expire while Tenure's reader holds.
async fn outlives_the_watchdog(fixture: Fixture) {
    let other = fixture.jvm(0).await;
    let term = Duration::from_secs(9);
    let jvm = fixture.own_jvm(Options::small().watchdog(term)).await;
    let client = fixture.client("poll=30m&redisson_watchdog=9s").await;
    let guard = client.rwlock(fixture.name()).read().lease(LEASE).acquire().await.unwrap();
    let field = format!("HEXISTS @ {}", guard.id());
    jvm.call("reader", "lock read @").await;
    // The watchdog first renews after a third of its lease.
    until_true("it sets the hash down", || fixture.number("PTTL @") < 20_000).await;
    jvm.kill().await;
    fixture
        .assert_stays("our reader is in the hash", term + Duration::from_secs(3), || {
            fixture.number(&field) == 1
        })
        .await;
    assert!(guard.is_held());
    other.expect_answer("other", "try write @", "false").await;
    guard.release().await.unwrap();
    other.expect_answer("other", "try write @", "true").await;
    other.call("other", "unlock write @").await;
}

/// A dead reader of Redisson stays in a hash that another reader renews. It does not count once its own lease has
/// ended.
async fn dead_reader(fixture: Fixture) {
    let jvm = fixture.own_jvm(Options::small().watchdog(Duration::from_secs(3))).await;
    let client = fixture.client(QUIET).await;
    let guard = client.rwlock(fixture.name()).read().acquire().await.unwrap();
    jvm.call("reader", "lock read @").await;
    jvm.kill().await;
    let writer = tokio::spawn({
        let lock = client.rwlock(fixture.name()).write();
        async move { lock.acquire().await }
    });
    fixture.wait_for_subscribers(CHANNEL, 1).await;
    guard.release().await.unwrap();
    let writer = done("the end of the dead one", writer).await.expect("granted");
    writer.release().await.unwrap();
}
