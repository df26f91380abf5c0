//! What a child process gets of a client: nothing.

use std::collections::BTreeSet;
use std::process::Command;

use tenure::connect;
use testbed::{Redis, RedisOptions, ZooKeeper, ZooKeeperOptions, done, until};

const STORE: &str = "INHERITED_TEST_STORE";

/// What a child has open, as the system names it.
fn open_in_a_child() -> BTreeSet<String> {
    let list = "for f in /proc/$$/fd/*; do readlink $f; done";
    let done = Command::new("sh").args(["-c", list]).output().unwrap();
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// In a process of its own, since tests beside this one open and close descriptors, too.
#[tokio::test(flavor = "multi_thread")]
async fn the_process_that_has_children() {
    let Ok(store) = std::env::var(STORE) else { return };
    // The pipe of the answer has another number each time.
    let known = |open: BTreeSet<String>| -> BTreeSet<String> {
        open.into_iter().filter(|link| !link.starts_with("pipe:")).collect()
    };
    let before = known(open_in_a_child());
    let (one, other) = (connect(&store).await.unwrap(), connect(&store).await.unwrap());
    let held = one.lock("x").acquire().await.unwrap();
    let waits = {
        let lock = other.lock("x");
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    };
    until("it waits", || async { one.show("x").await.unwrap().is_some_and(|x| !x.waiters.is_empty()) }).await;
    let own = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(own > before.len() + 4, "a client has descriptors: {own}");
    let after = known(open_in_a_child());
    let more: Vec<_> = after.difference(&before).collect();
    assert!(more.is_empty(), "a child has {more:?}");
    held.release().await.unwrap();
    done("the waiter", waits).await.unwrap();
}

fn has_children(store: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "inherited::the_process_that_has_children"]).env(STORE, store);
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{store}: {said}");
}

/// H3. Neither the file and its FIFOs nor the connections to a server reach a child, which would keep them open.
#[test]
fn a_child_has_none_of_our_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    has_children(&format!("sqlite:{}", folder.path().join("locks.db").display()));
    let redis = Redis::start(RedisOptions::default()).unwrap();
    has_children(&redis.url());
    let zookeeper = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
    has_children(&zookeeper.url());
}
