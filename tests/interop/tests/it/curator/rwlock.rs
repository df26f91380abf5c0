//! Readers and writers of both sides.

use interop::trials::TrialProcess;
use tenure::Owner;

use crate::curator::fixture::Fixture;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

const KIND: &str = "read/write";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(KIND, "curator_reads_and_leaves_first", Direction::FromPeer, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            two_readers(&fixture, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_reads_and_leaves_first", Direction::FromTenure, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            two_readers(&fixture, &rust, &jvm).await;
        }),
        Case::new(KIND, "curator_writes_and_all_readers_wait", Direction::FromPeer, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            all_readers_at_once(&fixture, &jvm, &rust).await;
        }),
        Case::new(KIND, "tenure_writes_and_all_readers_wait", Direction::FromTenure, |fixture| async move {
            let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
            all_readers_at_once(&fixture, &rust, &jvm).await;
        }),
        Case::new(
            KIND,
            "nobody_reads_past_a_waiting_writer_of_curator",
            Direction::FromPeer,
            |fixture| async move {
                let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
                behind_a_writer(&fixture, &jvm, &rust).await;
            },
        ),
        Case::new(
            KIND,
            "nobody_reads_past_a_waiting_writer_of_tenure",
            Direction::FromTenure,
            |fixture| async move {
                let (jvm, rust) = (fixture.jvm(0).await, fixture.worker(0).await);
                behind_a_writer(&fixture, &rust, &jvm).await;
            },
        ),
        Case::new(KIND, "curator_keeps_reading_under_its_write", Direction::FromPeer, curator_downgrades),
        Case::new(KIND, "tenure_keeps_reading_under_its_write", Direction::FromTenure, tenure_downgrades),
    ]
}

/// Two readers share the lock; it stays held when one releases; writers of both sides wait for both.
async fn two_readers(fixture: &Fixture, first: &TrialProcess, second: &TrialProcess) {
    first.call("reader", "lock read @").await;
    second.call("reader", "lock read @").await;
    for process in [first, second] {
        process.expect_answer("other", "try write @", "false").await;
    }
    let one = first.spawn("writer", "lock write @");
    fixture.wait_for_children("@", 3).await;
    first.call("reader", "unlock read @").await;
    for process in [first, second] {
        process.expect_answer("other", "try write @", "false").await;
    }
    assert!(one.is_open());
    let two = second.spawn("writer", "lock write @");
    fixture.wait_for_children("@", 3).await;
    second.call("reader", "unlock read @").await;
    wait_for_grant(one).await;
    assert!(two.is_open());
    first.call("writer", "unlock write @").await;
    wait_for_grant(two).await;
    second.call("writer", "unlock write @").await;
    fixture.wait_for_children("@", 0).await;
}

/// When a writer releases, waiting readers of both sides are admitted together.
async fn all_readers_at_once(fixture: &Fixture, writer: &TrialProcess, other: &TrialProcess) {
    writer.call("writer", "lock write @").await;
    let mut waiting = Vec::new();
    for process in [writer, other] {
        process.expect_answer("reader-0", "try read @", "false").await;
        waiting.extend((0..3).map(|n| process.spawn(&format!("reader-{n}"), "lock read @")));
    }
    fixture.wait_for_children("@", 7).await;
    assert!(waiting.iter().all(|one| one.is_open()), "a reader is in beside a writer");
    writer.call("writer", "unlock write @").await;
    for one in waiting {
        wait_for_grant(one).await;
    }
    for process in [writer, other] {
        for n in 0..3 {
            process.call(&format!("reader-{n}"), "unlock read @").await;
        }
    }
    fixture.wait_for_children("@", 0).await;
}

/// In order of arrival: the readers before the writer together, then the writer, then the rest.
async fn behind_a_writer(fixture: &Fixture, writer: &TrialProcess, other: &TrialProcess) {
    other.call("early", "lock read @").await;
    let writing = writer.spawn("writer", "lock write @");
    fixture.wait_for_children("@", 2).await;
    for process in [writer, other] {
        process.expect_answer("other", "try read @", "false").await;
    }
    let late = [writer.spawn("late", "lock read @"), other.spawn("late", "lock read @")];
    fixture.wait_for_children("@", 4).await;
    other.call("early", "unlock read @").await;
    wait_for_grant(writing).await;
    assert!(late.iter().all(|one| one.is_open()), "a reader is in beside a writer");
    writer.call("writer", "unlock write @").await;
    for one in late {
        wait_for_grant(one).await;
    }
    for process in [writer, other] {
        process.call("late", "unlock read @").await;
    }
    fixture.wait_for_children("@", 0).await;
}

/// The digits at the end of each child.
fn sequence_numbers(children: &[String]) -> Vec<&str> {
    children.iter().map(|child| &child[child.len() - 10..]).collect()
}

/// A read under the owner's own write takes the writer's position: ahead of all that arrived meanwhile.
async fn curator_downgrades(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    jvm.call("owner", "lock write @").await;
    let both = client.rwlock(fixture.name());
    let wait = |lock: tenure::Lock| tokio::spawn(async move { lock.acquire().await });
    let reader = wait(both.read());
    fixture.wait_for_children("@", 2).await;
    let writer = wait(both.write());
    fixture.wait_for_children("@", 3).await;
    jvm.call("owner", "lock read @").await;
    let queue = fixture.wait_for_children("@", 4).await;
    let digits = sequence_numbers(&queue);
    assert_eq!(digits[0], digits[1], "{queue:?}");
    assert!(!reader.is_finished() && !writer.is_finished(), "two are in");
    jvm.call("owner", "unlock write @").await;
    let reader = reader.await.unwrap().expect("granted");
    reader.release().await.unwrap();
    assert!(both.write().try_acquire().await.unwrap().is_none());
    assert!(!writer.is_finished(), "a writer is in beside a reader");
    jvm.call("owner", "unlock read @").await;
    writer.await.unwrap().expect("granted").release().await.unwrap();
    fixture.wait_for_children("@", 0).await;
}

async fn tenure_downgrades(fixture: Fixture) {
    let (jvm, client) = (fixture.jvm(0).await, fixture.client().await);
    let me = Owner::new();
    let both = client.rwlock(fixture.name());
    let write = both.write().owner(&me).acquire().await.unwrap();
    let reader = jvm.spawn("reader", "lock read @");
    fixture.wait_for_children("@", 2).await;
    let writer = jvm.spawn("writer", "lock write @");
    fixture.wait_for_children("@", 3).await;
    let read = both.read().owner(&me).acquire().await.unwrap();
    let queue = fixture.wait_for_children("@", 4).await;
    let digits = sequence_numbers(&queue);
    assert_eq!(digits[0], digits[1], "{queue:?}");
    assert!(reader.is_open() && writer.is_open(), "two are in");
    write.release().await.unwrap();
    wait_for_grant(reader).await;
    jvm.call("reader", "unlock read @").await;
    assert!(read.is_held());
    jvm.expect_answer("other", "try write @", "false").await;
    assert!(writer.is_open(), "a writer is in beside a reader");
    read.release().await.unwrap();
    wait_for_grant(writer).await;
    jvm.call("writer", "unlock write @").await;
    fixture.wait_for_children("@", 0).await;
}
