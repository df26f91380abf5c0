//! Servers that come back with less than their clients have seen.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tenure_core::{Client, Settings};
use testbed::{FAR, ZooKeeper, within};

use super::bench::{Bench, SESSION, end_of, now, open, options};

/// What nobody answers is asked again soon, for as long as a test goes on.
async fn patient(bench: &Bench) -> Client {
    let mut options = options(bench.zk.port(), SESSION);
    options.timeout = Duration::from_secs(3);
    let mut settings = Settings::default();
    (settings.call_timeout, settings.outage) = (FAR, FAR);
    Client::with(open(options).await, settings)
}

/// Changes that the servers will not know of.
async fn changes(client: &Client) {
    for _ in 0..50 {
        client.lock("changes").acquire().await.unwrap().release().await.unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// What is held is lost by its own clock; then the same client works in a session of its own.
async fn goes_on(client: &Client, forget: impl FnOnce()) {
    let guard = client.lock("x").acquire().await.unwrap();
    changes(client).await;
    forget();
    let end = end_of(client, &guard).await;
    let next = within("the same client", client.lock("x").acquire()).await.unwrap();
    assert!(now(client) > end && !guard.is_held(), "two holders");
    next.release().await.unwrap();
    changes(client).await;
}

/// E10. All that the servers had is gone. They refuse whoever has seen more than they know, without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_wiped_is_worked_with_again() {
    let bench = Bench::start();
    let client = patient(&bench).await;
    goes_on(&client, || bench.zk.restart_empty().unwrap()).await;
    bench.is_empty("x").await;
}

/// E10. The same with a backup, in which our session is, and what it held then.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_restored_is_worked_with_again() {
    let bench = Bench::start();
    let client = patient(&bench).await;
    let held = client.lock("y").acquire().await.unwrap();
    let (zk, backup): (&ZooKeeper, _) = (&bench.zk, tempfile::tempdir().unwrap());
    let (data, backup) = (zk.place().data(), backup.path().join("data"));
    zk.kill().unwrap();
    copy(&data, &backup);
    zk.restart().unwrap();
    goes_on(&client, || {
        zk.kill().unwrap();
        copy(&backup, &data);
        zk.restart().unwrap();
    })
    .await;
    assert!(!held.is_held());
    // Its node was in the backup, and goes with the session that was.
    within("what was held then", client.lock("y").acquire()).await.unwrap().release().await.unwrap();
    bench.is_empty("x").await;
    bench.is_empty("y").await;
}
