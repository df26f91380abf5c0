//! Servers that come back with older data than their clients have seen.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tenure_core::{Client, Settings};
use testbed::{Ensemble, FAR, ZooKeeper, ZooKeeperOptions, within};

use super::harness::{Harness, SESSION, end_of, heirs, now, open, options, templates};

/// A client that soon repeats requests without an answer, for as long as a test lasts.
async fn patient(harness: &Harness) -> Client {
    let mut options = options(harness.zk.port(), SESSION);
    options.timeout = Duration::from_secs(3);
    let mut settings = Settings::default();
    (settings.call_timeout, settings.outage) = (FAR, FAR);
    Client::with(open(options).await, settings)
}

/// Makes changes that the servers will lose.
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

/// Checks that the hold is lost by its own clock, and that the client then works in a new session.
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

/// E10. The servers were wiped. They close the connections of clients that have seen newer data, without an answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_wiped_is_worked_with_again() {
    let harness = Harness::start();
    let client = patient(&harness).await;
    goes_on(&client, || harness.zk.restart_empty().unwrap()).await;
    harness.is_empty("x").await;
}

/// E10. The servers were restored from a backup that contains our session, and what it held then.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_restored_is_worked_with_again() {
    let harness = Harness::start();
    let client = patient(&harness).await;
    let held = client.lock("y").acquire().await.unwrap();
    let (zk, backup): (&ZooKeeper, _) = (&harness.zk, tempfile::tempdir().unwrap());
    let (data, backup) = (zk.instance().data(), backup.path().join("data"));
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
    // Its node was in the backup, and ends with the old session.
    within("what was held then", client.lock("y").acquire()).await.unwrap().release().await.unwrap();
    harness.is_empty("x").await;
    harness.is_empty("y").await;
}

/// E10. If a leader is elected after that, the old session is resumed, and nodes that were released since the backup
/// come back. They are not holds, and they do not block others.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_released_since_the_backup_block_nobody() {
    let lines = vec![format!("maxSessionTimeout={}", 2 * FAR.as_millis())];
    let ensemble = Ensemble::start_with(ZooKeeperOptions { lines, ..ZooKeeperOptions::default() }).unwrap();
    let mut options = options(0, FAR);
    options.servers = ensemble.addresses();
    let mut settings = Settings::default();
    (settings.call_timeout, settings.outage) = (FAR, FAR);
    let client = Client::with(open(options).await, settings);
    let mut held = Vec::new();
    for (_, lock) in templates(&client, "since") {
        held.push(lock.acquire().await.unwrap());
    }
    let backup = tempfile::tempdir().unwrap();
    let folders: Vec<_> = ensemble.servers().iter().map(|server| server.instance().data()).collect();
    let kept: Vec<_> = (0..folders.len()).map(|n| backup.path().join(n.to_string())).collect();
    folders.iter().zip(&kept).for_each(|(data, kept)| copy(data, kept));
    for guard in held {
        guard.release().await.unwrap();
    }
    ensemble.servers().iter().for_each(|server| server.kill().unwrap());
    folders.iter().zip(&kept).for_each(|(data, kept)| copy(kept, data));
    ensemble.restart_all().unwrap();
    let stands = |name: &str| {
        let mut raw = ensemble.servers()[0].client().unwrap();
        let path = if name.starts_with("permits") { format!("/{name}/leases") } else { format!("/{name}") };
        let n = raw.children(&path).unwrap().len();
        raw.close().unwrap();
        n
    };
    for (name, lock) in heirs(&client, "since") {
        assert!(stands(&name) > 0, "{name} was in the backup");
        within(&name, lock.acquire()).await.unwrap().release().await.unwrap();
        assert_eq!(stands(&name), 0, "{name}");
    }
}
