//! Readers and writers of both sides.

use interop::trials::Party;
use tenure::Owner;

use crate::curator::side::granted;
use crate::curator::stage::Stage;
use crate::curator::{Case, Way};

const KIND: &str = "read/write";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "curator_reads_and_leaves_first", Way::FromPeer, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            two_readers(&stage, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_reads_and_leaves_first", Way::FromTenure, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            two_readers(&stage, &rust, &jvm).await;
        }),
        Case::new(KIND, "curator_writes_and_all_readers_wait", Way::FromPeer, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            all_readers_at_once(&stage, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_writes_and_all_readers_wait", Way::FromTenure, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            all_readers_at_once(&stage, &rust, &jvm).await;
        }),
        Case::new(KIND, "nobody_reads_past_a_waiting_writer_of_curator", Way::FromPeer, |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
            behind_a_writer(&stage, &jvm, &rust).await;
        }),
        Case::new(
            KIND,
            "nobody_reads_past_a_waiting_writer_of_tenure",
            Way::FromTenure,
            |stage| async move {
                let (jvm, rust) = (stage.jvm(0).await, stage.worker(0).await);
                behind_a_writer(&stage, &rust, &jvm).await;
            },
        ),
        Case::new(KIND, "curator_keeps_reading_under_its_write", Way::FromPeer, curator_downgrades),
        Case::new(KIND, "tenure_keeps_reading_under_its_write", Way::FromTenure, tenure_downgrades),
    ]
}

/// Two readers share; either leaving leaves the other in; writers of both sides wait for both.
async fn two_readers(stage: &Stage, first: &Party, second: &Party) {
    first.call("reader", "lock read @").await;
    second.call("reader", "lock read @").await;
    for party in [first, second] {
        party.says("other", "try write @", "false").await;
    }
    let one = first.spawn("writer", "lock write @");
    stage.queued("@", 3).await;
    first.call("reader", "unlock read @").await;
    for party in [first, second] {
        party.says("other", "try write @", "false").await;
    }
    assert!(one.is_open());
    let two = second.spawn("writer", "lock write @");
    stage.queued("@", 3).await;
    second.call("reader", "unlock read @").await;
    granted(one).await;
    assert!(two.is_open());
    first.call("writer", "unlock write @").await;
    granted(two).await;
    second.call("writer", "unlock write @").await;
    stage.queued("@", 0).await;
}

/// When a writer goes, all readers of both sides come in together: none waits for another to leave.
async fn all_readers_at_once(stage: &Stage, writer: &Party, other: &Party) {
    writer.call("writer", "lock write @").await;
    let mut waiting = Vec::new();
    for party in [writer, other] {
        party.says("reader-0", "try read @", "false").await;
        waiting.extend((0..3).map(|n| party.spawn(&format!("reader-{n}"), "lock read @")));
    }
    stage.queued("@", 7).await;
    assert!(waiting.iter().all(|one| one.is_open()), "a reader is in beside a writer");
    writer.call("writer", "unlock write @").await;
    for one in waiting {
        granted(one).await;
    }
    for party in [writer, other] {
        for n in 0..3 {
            party.call(&format!("reader-{n}"), "unlock read @").await;
        }
    }
    stage.queued("@", 0).await;
}

/// Served in the order of coming: the readers before the writer together, then the writer, then the rest.
async fn behind_a_writer(stage: &Stage, writer: &Party, other: &Party) {
    other.call("early", "lock read @").await;
    let writing = writer.spawn("writer", "lock write @");
    stage.queued("@", 2).await;
    for party in [writer, other] {
        party.says("other", "try read @", "false").await;
    }
    let late = [writer.spawn("late", "lock read @"), other.spawn("late", "lock read @")];
    stage.queued("@", 4).await;
    other.call("early", "unlock read @").await;
    granted(writing).await;
    assert!(late.iter().all(|one| one.is_open()), "a reader is in beside a writer");
    writer.call("writer", "unlock write @").await;
    for one in late {
        granted(one).await;
    }
    for party in [writer, other] {
        party.call("late", "unlock read @").await;
    }
    stage.queued("@", 0).await;
}

/// The digits at the end of each child.
fn places(children: &[String]) -> Vec<&str> {
    children.iter().map(|child| &child[child.len() - 10..]).collect()
}

/// A read under one's own write stands where the writer stands: before all who came meanwhile.
async fn curator_downgrades(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    jvm.call("owner", "lock write @").await;
    let both = client.rwlock(stage.name());
    let wait = |lock: tenure::Lock| tokio::spawn(async move { lock.acquire().await });
    let reader = wait(both.read());
    stage.queued("@", 2).await;
    let writer = wait(both.write());
    stage.queued("@", 3).await;
    jvm.call("owner", "lock read @").await;
    let queue = stage.queued("@", 4).await;
    let digits = places(&queue);
    assert_eq!(digits[0], digits[1], "{queue:?}");
    assert!(!reader.is_finished() && !writer.is_finished(), "two are in");
    jvm.call("owner", "unlock write @").await;
    let reader = reader.await.unwrap().expect("granted");
    reader.release().await.unwrap();
    assert!(both.write().try_acquire().await.unwrap().is_none());
    assert!(!writer.is_finished(), "a writer is in beside a reader");
    jvm.call("owner", "unlock read @").await;
    writer.await.unwrap().expect("granted").release().await.unwrap();
    stage.queued("@", 0).await;
}

async fn tenure_downgrades(stage: Stage) {
    let (jvm, client) = (stage.jvm(0).await, stage.client().await);
    let me = Owner::new();
    let both = client.rwlock(stage.name());
    let write = both.write().owner(&me).acquire().await.unwrap();
    let reader = jvm.spawn("reader", "lock read @");
    stage.queued("@", 2).await;
    let writer = jvm.spawn("writer", "lock write @");
    stage.queued("@", 3).await;
    let read = both.read().owner(&me).acquire().await.unwrap();
    let queue = stage.queued("@", 4).await;
    let digits = places(&queue);
    assert_eq!(digits[0], digits[1], "{queue:?}");
    assert!(reader.is_open() && writer.is_open(), "two are in");
    write.release().await.unwrap();
    granted(reader).await;
    jvm.call("reader", "unlock read @").await;
    assert!(read.is_held());
    jvm.says("other", "try write @", "false").await;
    assert!(writer.is_open(), "a writer is in beside a reader");
    read.release().await.unwrap();
    granted(writer).await;
    jvm.call("writer", "unlock write @").await;
    stage.queued("@", 0).await;
}
