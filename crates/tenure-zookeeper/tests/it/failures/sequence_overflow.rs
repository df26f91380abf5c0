//! A folder whose sequence counter is at its end. No client can set it, so it is changed in the server's files.

use std::path::Path;
use std::time::Duration;

use tenure_core::{Client, Error, Settings};
use testbed::{ZkMode, done, within};

use super::harness::{Harness, LONG, open, options, wait_for, waiting};

/// Starts a server with a folder `/x` that has had so many children.
fn with_counter(count: i32) -> Harness {
    let harness = Harness::with(testbed::ZooKeeperOptions {
        // The server does not notice what is changed in its files.
        jvm: vec!["-Dzookeeper.digest.enabled=false".into()],
        ..testbed::ZooKeeperOptions::default()
    });
    harness.raw().create("/x", b"", ZkMode::Persistent).unwrap();
    // At its start it writes a snapshot.
    for edit in [false, true] {
        harness.zk.kill().unwrap();
        if edit {
            let folder = harness.zk.instance().data().join("version-2");
            let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
            let edited =
                files.filter(|path| is_snapshot(path)).filter(|path| set_counter(path, count)).count();
            assert!(edited > 0, "no snapshot has /x");
        }
        harness.zk.restart().unwrap();
    }
    harness
}

fn is_snapshot(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("snapshot.")
}

/// Sets the counter of `/x` in a snapshot, if it is there, and updates the checksum.
fn set_counter(path: &Path, count: i32) -> bool {
    const NAME: &[u8] = b"\0\0\0\x02/x";
    let old = std::fs::read(path).unwrap();
    let Some(at) = old.windows(NAME.len()).position(|bytes| bytes == NAME) else { return false };
    // The length of its data, which is empty; its ACL; four numbers and a version; then the counter.
    let at = at + NAME.len() + 4 + 8 + 4 * 8 + 4;
    let mut new = old.clone();
    new[at..at + 4].copy_from_slice(&count.to_be_bytes());
    // The last thirteen bytes are the checksum of all bytes before, and a slash.
    let seal = old.len() - 13;
    assert_eq!(old[seal..seal + 8], adler(&old[..seal]).to_be_bytes());
    let sum = adler(&new[..seal]);
    new[seal..seal + 8].copy_from_slice(&sum.to_be_bytes());
    std::fs::write(path, new).unwrap();
    true
}

fn adler(bytes: &[u8]) -> u64 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u64::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

/// E8. After the last sequence number a server assigns it again and again, so that it does not define an order: it is
/// not used. Claims with earlier numbers keep their order; all others fail and leave no node, until the folder has been
/// created again.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_numbers_lets_nobody_in() {
    let harness = with_counter(i32::MAX - 9);
    let mut raw = harness.raw();
    let (mine, other) = (harness.client().await, harness.client().await);
    let held = mine.lock("x").acquire().await.unwrap();
    let next = wait_for(other.lock("x"));
    waiting(&mine, "x", 1).await;
    let mut use_up = || raw.create("/x/other-", b"", ZkMode::EphemeralSequential).unwrap();
    while !use_up().ends_with("-2147483647") {}
    // A client without a node there: the others find it busy without a request.
    let mut settings = Settings::default();
    settings.call_timeout = Duration::from_secs(1);
    let third = Client::with(open(options(harness.zk.port(), LONG)).await, settings);
    for lock in [third.lock("x"), third.lock("x").fair()] {
        let error = within("an answer", lock.try_acquire()).await.unwrap_err();
        let why = "/x has used up its sequence numbers";
        assert!(matches!(&error, Error::Unavailable { reason, .. } if reason.contains(why)), "{error}");
    }
    assert!(held.is_held() && !next.is_finished(), "two holders");
    held.release().await.unwrap();
    done("the one with a number", next).await.unwrap().release().await.unwrap();
    raw.close().unwrap();
    harness.is_empty("x").await;
    harness.raw().delete("/x", None).unwrap();
    mine.lock("x").acquire().await.unwrap().release().await.unwrap();
}
