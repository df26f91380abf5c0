//! The peer's driver by itself: Curator with Curator.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use interop::{Curator, CuratorOptions, Error, PATIENCE};
use testbed::{ZooKeeper, ZooKeeperOptions};

struct World {
    server: ZooKeeper,
    numbers: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let server = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
        Self { server, numbers: tempfile::tempdir().unwrap() }
    }

    async fn jvm(&self) -> Curator {
        self.jvm_with(Duration::from_secs(30)).await
    }

    async fn jvm_with(&self, session: Duration) -> Curator {
        let numbers = Some(self.numbers.path().to_owned());
        let options = CuratorOptions { session: Some(session), numbers, ..CuratorOptions::default() };
        Curator::start(&self.server.address(), &options).await.unwrap()
    }
}

/// Asks one after the other; each line is a request and its answer.
async fn converse(jvm: &Curator, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, expected) = line.split_once(" →").expect("an arrow");
        let answer = match jvm.call("t1", request).await {
            Ok(value) => value,
            Err(e) => e.class().unwrap_or_else(|| panic!("{e}")).to_owned(),
        };
        assert_eq!(answer, expected.trim(), "{request}");
    }
}

/// Waits until a node has so many children, and says which.
async fn children(jvm: &Curator, name: &str, n: usize) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let all = jvm.call("looks", &format!("node.children {name}")).await.unwrap();
        let all: Vec<_> = all.split(',').filter(|child| !child.is_empty()).map(str::to_owned).collect();
        if all.len() == n {
            return all;
        }
        assert!(begin.elapsed() < PATIENCE, "{name} has not {n} children: {all:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn two_processes_exclude_each_other() {
    let world = World::start();
    let (a, b) = tokio::join!(world.jvm(), world.jvm());
    for kind in ["plain", "fair", "write", "semaphore-mutex", "permit", "leader:b", "selector:b", "multi"] {
        let name = if kind == "multi" { "m1,m2" } else { kind };
        let on = format!("{kind} {name}");
        a.call("t1", &format!("lock {on}")).await.unwrap();
        assert_eq!(a.call("t1", &format!("is-held {on}")).await.unwrap(), "true");
        assert_eq!(b.call("t1", &format!("try {on} 100")).await.unwrap(), "false", "{kind}");
        let waiting = b.spawn("t1", &format!("lock {on}"));
        let queue = match kind {
            "permit" | "semaphore-mutex" => format!("{kind}/leases"),
            "multi" => "m1".to_owned(),
            _ => kind.to_owned(),
        };
        children(&a, &queue, 2).await;
        assert!(waiting.is_open(), "{kind}");
        a.call("t1", &format!("unlock {on}")).await.unwrap();
        waiting.answer().await.unwrap();
        assert_eq!(a.call("t1", &format!("is-held {on}")).await.unwrap(), "false");
        b.call("t1", &format!("unlock {on}")).await.unwrap();
        children(&a, &queue, 0).await;
    }
}

#[tokio::test]
async fn a_thread_enters_again_what_it_has() {
    let world = World::start();
    let jvm = world.jvm().await;
    converse(
        &jvm,
        "
        lock plain a/b →
        lock plain a/b →
        unlock plain a/b →
        is-held plain a/b → true
        unlock plain a/b →
        unlock plain a/b → IllegalMonitorStateException
        unlock permit a → IllegalMonitorStateException
        lock nothing a → IllegalArgumentException
        sing plain a → IllegalArgumentException
        participants permit a → IllegalArgumentException",
    )
    .await;
    assert!(children(&jvm, "a/b", 0).await.is_empty());
}

#[tokio::test]
async fn a_read_under_ones_own_write_keeps_the_place() {
    let world = World::start();
    let jvm = world.jvm().await;
    converse(&jvm, "lock write a →").await;
    let writer = jvm.spawn("t2", "lock write a");
    children(&jvm, "a", 2).await;
    converse(&jvm, "lock read a →").await;
    let queue = children(&jvm, "a", 3).await;
    let digits: Vec<_> = queue.iter().map(|child| &child[child.len() - 10..]).collect();
    assert_eq!(digits, ["0000000000", "0000000000", "0000000001"]);
    converse(&jvm, "unlock write a →").await;
    assert_eq!(jvm.call("t3", "try read a").await.unwrap(), "false");
    assert!(writer.is_open());
    converse(&jvm, "unlock read a →").await;
    writer.answer().await.unwrap();
}

#[tokio::test]
async fn permits_are_as_many_as_are_said() {
    let world = World::start();
    let jvm = world.jvm().await;
    converse(
        &jvm,
        "
        lock permit:4:3 s →
        try permit:4:2 s → false
        try permit:4 s → true
        try permit:4 s 50 → false
        unlock permit:4:3 s →
        unlock permit:4 s →
        shared.set size 2 →
        shared.get size → 2
        lock permit:=size t →
        try permit:=size:2 t → false
        try permit:=size t → true
        try permit:=size t → false",
    )
    .await;
    let waiting = jvm.spawn("t2", "lock permit:=size t");
    children(&jvm, "t/leases", 3).await;
    converse(&jvm, "shared.set size 3 →").await;
    waiting.answer().await.unwrap();
}

#[tokio::test]
async fn leaders_say_who_they_are() {
    let world = World::start();
    let jvm = world.jvm().await;
    converse(&jvm, "leader.who l →\n leader.all l →\n lock leader:one l →").await;
    let waiting = jvm.spawn("t2", "lock leader:two l");
    let queue = children(&jvm, "l", 2).await;
    converse(&jvm, &format!("node.data l/{} → one", queue[0])).await;
    converse(&jvm, "leader.who l → one\n leader.all l → one,two\n unlock leader:one l →").await;
    waiting.answer().await.unwrap();
    converse(&jvm, "leader.who l → two").await;
}

#[tokio::test]
async fn whoever_is_revocable_is_asked() {
    let world = World::start();
    let jvm = world.jvm().await;
    converse(&jvm, "revocable plain a →\n lock plain a →").await;
    let paths = jvm.call("t1", "participants plain a").await.unwrap();
    let path = paths.strip_prefix('/').unwrap();
    converse(
        &jvm,
        &format!(
            "
            node.data {path} →
            revoked plain a → false
            revoke plain a 0 →
            revoked plain a 20000 → true
            node.data {path} → __REVOKE__
            node.write {path} __REVOKE__ →
            revoked plain a 20000 → true
            is-held plain a → true
            node.delete {path} →
            node.owner {path} → gone"
        ),
    )
    .await;
}

#[tokio::test]
async fn who_is_interrupted_leaves_nothing_behind() {
    let world = World::start();
    let jvm = world.jvm().await;
    for (kind, queue, before) in [
        ("plain", "plain", 2),
        ("read", "read", 2),
        ("semaphore-mutex", "semaphore-mutex/locks", 1),
        ("permit", "permit/locks", 1),
        ("leader:a", "leader:a", 2),
        ("selector:a", "selector:a", 2),
    ] {
        let held = kind.replace("read", "write");
        jvm.call("t1", &format!("lock {held} {kind}")).await.unwrap();
        let waiting = jvm.spawn("t2", &format!("lock {kind} {kind}"));
        children(&jvm, queue, before).await;
        jvm.call("t2", "interrupt").await.unwrap();
        assert_eq!(waiting.answer().await.unwrap_err().class(), Some("InterruptedException"), "{kind}");
        children(&jvm, queue, before - 1).await;
        jvm.call("t1", &format!("unlock {held} {kind}")).await.unwrap();
        jvm.call("t2", &format!("lock {kind} {kind}")).await.unwrap();
        jvm.call("t2", &format!("unlock {kind} {kind}")).await.unwrap();
    }
}

#[tokio::test]
async fn a_number_kept_by_two_processes_loses_nothing() {
    let world = World::start();
    let (a, b) = tokio::join!(world.jvm(), world.jvm());
    for (kind, name) in [
        ("plain", "plain"),
        ("write", "write"),
        ("semaphore-mutex", "sm"),
        ("permit", "permit"),
        ("leader:me", "leader"),
        ("selector:me", "selector"),
        ("multi", "m1,m2"),
    ] {
        let number = format!("{kind}.number");
        let request = format!("count {number} 20 {kind} {name}");
        let loops = [a.spawn("t1", &request), a.spawn("t2", &request), b.spawn("t1", &request)];
        for one in loops {
            assert_eq!(one.within(Duration::from_secs(90)).await.unwrap(), "20");
        }
        assert_eq!(fs::read_to_string(world.numbers.path().join(number)).unwrap(), "60", "{kind}");
    }
}

#[tokio::test]
async fn a_closed_loop_says_what_it_did() {
    let world = World::start();
    let jvm = world.jvm().await;
    for place in ["own", "shared"] {
        let said = jvm.call("t1", &format!("bench plain {place} 1 3 {place}")).await.unwrap();
        let numbers: Vec<u64> = said.split(' ').map(|word| word.parse().unwrap()).collect();
        let [pairs, longest, middle] = numbers[..] else { panic!("{said}") };
        // Each of the three at least once.
        assert!(pairs >= 3 && longest > 0 && middle <= longest, "{said}");
    }
    children(&jvm, "shared", 0).await;
}

#[tokio::test]
async fn what_a_killed_process_had_ends_with_its_session() {
    let world = World::start();
    let session = Duration::from_secs(2);
    let (a, b) = tokio::join!(world.jvm(), world.jvm_with(session));
    b.call("t1", "lock plain a").await.unwrap();
    let own = b.call("t1", "session").await.unwrap();
    let child = children(&a, "a", 1).await.remove(0);
    assert_eq!(a.call("t1", &format!("node.owner a/{child}")).await.unwrap(), own);
    let waiting = a.spawn("t1", "lock plain a");
    children(&a, "a", 2).await;
    let pid = b.pid();
    b.kill().await;
    assert!(!Path::new("/proc").join(pid.to_string()).exists());
    assert!(matches!(b.call("t1", "session").await, Err(Error::Ended { .. })));
    let begin = Instant::now();
    waiting.answer().await.unwrap();
    assert!(begin.elapsed() < session + Duration::from_secs(5), "only after {:?}", begin.elapsed());
}

#[tokio::test]
async fn what_a_closed_client_had_is_free_at_once() {
    let world = World::start();
    let (a, b) = tokio::join!(world.jvm(), world.jvm());
    b.call("t1", "lock plain a").await.unwrap();
    let waiting = a.spawn("t1", "lock plain a");
    children(&a, "a", 2).await;
    b.call("t2", "close").await.unwrap();
    waiting.answer().await.unwrap();
    children(&a, "a", 1).await;
}

#[tokio::test]
async fn nobody_to_connect_to_is_an_error() {
    let error = Curator::start("127.0.0.1:1", &CuratorOptions::default()).await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalStateException"), "{error}");
}
