//! Readers and writers of both sides.

use std::time::Duration;

use interop::Options;
use interop::trials::Party;
use tenure::Owner;
use testbed::done;

use crate::redisson::case::{Case, Way};
use crate::redisson::stage::{LEASE, QUIET, Stage};

const KIND: &str = "read/write";
const CHANNEL: &str = "redisson_rwlock:{@}";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "redisson_reads_and_leaves_first", Way::FromPeer, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            two_readers(&stage, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_reads_and_leaves_first", Way::FromTenure, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            two_readers(&stage, &rust, &jvm).await;
        }),
        Case::new(KIND, "redisson_writes_and_all_readers_wait", Way::FromPeer, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            all_readers_at_once(&stage, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_writes_and_all_readers_wait", Way::FromTenure, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            all_readers_at_once(&stage, &rust, &jvm).await;
        }),
        Case::new(KIND, "redisson_keeps_reading_under_its_write", Way::FromPeer, redisson_downgrades),
        Case::new(KIND, "tenure_keeps_reading_under_its_write", Way::FromTenure, tenure_downgrades),
        Case::new(KIND, "a_read_outlives_the_watchdog_of_redisson", Way::Both, outlives_the_watchdog),
        Case::new(KIND, "a_dead_reader_holds_no_writer_up", Way::Both, dead_reader),
    ]
}

/// Two readers share; either leaving leaves the other in; writers of both sides wait for both.
async fn two_readers(stage: &Stage, first: &Party, second: &Party) {
    first.call("reader", "lock read @ 1800000").await;
    second.call("reader", "lock read @ 1800000").await;
    assert_eq!(stage.ask("HGET @ mode").text(), "read");
    assert_eq!(stage.number("HLEN @"), 3);
    let one = first.spawn("writer", "lock write @ 1800000");
    stage.listening(CHANNEL, 1).await;
    first.call("reader", "unlock read @").await;
    assert_eq!(stage.number("HLEN @"), 2, "the other reader was dropped");
    assert!(stage.number("PTTL @") > 10_000);
    for party in [first, second] {
        party.says("other", "try write @", "false").await;
    }
    assert!(one.is_open());
    second.call("reader", "unlock read @").await;
    one.answer().await.expect("granted");
    let two = second.spawn("writer", "lock write @ 1800000");
    stage.listening(CHANNEL, 1).await;
    second.parked("writer").await;
    first.call("writer", "unlock write @").await;
    two.answer().await.expect("granted");
    second.call("writer", "unlock write @").await;
    assert_eq!(stage.number("EXISTS @"), 0);
}

/// When a writer goes, all readers of both sides come in together: none waits for another to leave.
async fn all_readers_at_once(stage: &Stage, writer: &Party, other: &Party) {
    writer.call("writer", "lock write @ 1800000").await;
    let mut waiting = Vec::new();
    for party in [writer, other] {
        party.says("reader-0", "try read @", "false").await;
        waiting.extend((0..3).map(|n| party.spawn(&format!("reader-{n}"), "lock read @ 1800000")));
    }
    stage.listening(CHANNEL, 2).await;
    for party in [writer, other] {
        for n in 0..3 {
            party.parked(&format!("reader-{n}")).await;
        }
    }
    writer.call("writer", "unlock write @").await;
    for one in waiting {
        one.answer().await.expect("granted");
    }
    assert_eq!(stage.number("HLEN @"), 7);
    for party in [writer, other] {
        for n in 0..3 {
            party.call(&format!("reader-{n}"), "unlock read @").await;
        }
    }
    assert_eq!(stage.number("EXISTS @"), 0);
}

/// It tells nobody that readers may join it now; ours look now and then.
async fn redisson_downgrades(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client("poll=2s&lease=30m").await);
    jvm.call("owner", "lock write @ 1800000").await;
    jvm.call("owner", "lock read @ 1800000").await;
    let waiting = tokio::spawn({
        let lock = client.rwlock(stage.name()).read();
        async move { lock.acquire().await }
    });
    stage.listening(CHANNEL, 1).await;
    jvm.call("owner", "unlock write @").await;
    let guard = done("a look", waiting).await.expect("granted");
    assert!(client.rwlock(stage.name()).write().try_acquire().await.unwrap().is_none());
    jvm.call("owner", "unlock read @").await;
    assert!(guard.is_held());
    assert_eq!(stage.number(&format!("HGET @ {}", guard.id())), 1);
    guard.release().await.unwrap();
}

async fn tenure_downgrades(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client(QUIET).await);
    let me = Owner::new();
    let both = client.rwlock(stage.name());
    let write = both.write().owner(&me).lease(LEASE).acquire().await.unwrap();
    let read = both.read().owner(&me).lease(LEASE).acquire().await.unwrap();
    let waiting = jvm.spawn("reader", "lock read @ 1800000");
    stage.listening(CHANNEL, 1).await;
    jvm.parked("reader").await;
    write.release().await.unwrap();
    waiting.answer().await.expect("granted");
    jvm.says("other", "try write @", "false").await;
    jvm.call("reader", "unlock read @").await;
    assert!(read.is_held());
    jvm.says("other", "try write @", "false").await;
    read.release().await.unwrap();
    jvm.says("other", "try write @", "true").await;
    jvm.call("other", "unlock write @").await;
}

/// A Redisson reader's watchdog sets the life of the common hash down to its own term. When that process dies, the hash
/// must not take our reader with it.
async fn outlives_the_watchdog(stage: Stage) {
    let other = stage.jvm(0).await;
    let term = Duration::from_secs(9);
    let jvm = stage.own_jvm(Options::small().watchdog(term)).await;
    let client = stage.client("poll=30m&redisson_watchdog=9s").await;
    let guard = client.rwlock(stage.name()).read().lease(LEASE).acquire().await.unwrap();
    let field = format!("HEXISTS @ {}", guard.id());
    jvm.call("reader", "lock read @").await;
    // Its first pass comes after a third of its term.
    stage.until("it sets the hash down", || stage.number("PTTL @") < 20_000).await;
    jvm.kill().await;
    stage
        .stays("our reader is in the hash", term + Duration::from_secs(3), || stage.number(&field) == 1)
        .await;
    assert!(guard.is_held());
    other.says("other", "try write @", "false").await;
    guard.release().await.unwrap();
    other.says("other", "try write @", "true").await;
    other.call("other", "unlock write @").await;
}

/// A reader of Redisson that died stays in a hash that another reader keeps alive. Once its own time is over it does not
/// count any more.
async fn dead_reader(stage: Stage) {
    let jvm = stage.own_jvm(Options::small().watchdog(Duration::from_secs(3))).await;
    let client = stage.client(QUIET).await;
    let guard = client.rwlock(stage.name()).read().acquire().await.unwrap();
    jvm.call("reader", "lock read @").await;
    jvm.kill().await;
    let writer = tokio::spawn({
        let lock = client.rwlock(stage.name()).write();
        async move { lock.acquire().await }
    });
    stage.listening(CHANNEL, 1).await;
    guard.release().await.unwrap();
    let writer = done("the end of the dead one", writer).await.expect("granted");
    writer.release().await.unwrap();
}
