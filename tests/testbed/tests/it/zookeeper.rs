//! ZooKeeper servers: one alone, and three that agree.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use testbed::{
    Ensemble, PATIENCE, ZkAcl, ZkClient, ZkMode, ZooKeeper, ZooKeeperOptions, wait_until, wait_until_true,
};

fn zookeeper() -> ZooKeeper {
    ZooKeeper::start(ZooKeeperOptions::default()).unwrap()
}

#[test]
fn serves_on_localhost_only() {
    let zookeeper = zookeeper();
    assert_eq!(zookeeper.mode().unwrap(), "standalone");
    assert_eq!(zookeeper.url(), format!("zookeeper://127.0.0.1:{}", zookeeper.port()));
    let config = zookeeper.word("conf").unwrap();
    assert!(config.contains("minSessionTimeout=1000\nmaxSessionTimeout=60000\n"), "{config}");
    // Only what is written to its port at 127.0.0.1.
    assert!(std::net::TcpStream::connect(("127.0.0.2", zookeeper.port())).is_err());
}

#[test]
fn waits_for_its_port_and_is_not_mistaken_for_another() {
    let zookeeper = zookeeper();
    let program = std::fs::read_to_string(format!("/proc/{}/comm", zookeeper.pid())).unwrap();
    assert_eq!(program.trim_end(), "java");
    zookeeper.kill().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", zookeeper.port())).unwrap();
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| zookeeper.restart());
        let said = || zookeeper.log().contains("Address already in use").then_some(());
        wait_until("it misses its port", said);
        drop(taken);
        restart.join().unwrap().unwrap();
    });
    assert!(zookeeper.is_running());
    assert_eq!(zookeeper.mode().unwrap(), "standalone");
}

#[test]
fn a_restart_keeps_data_and_an_empty_restart_does_not() {
    let zookeeper = zookeeper();
    let mut client = zookeeper.client().unwrap();
    for n in 0..100 {
        client.create(&format!("/n{n}"), b"kept", ZkMode::Persistent).unwrap();
    }
    client.create("/mine", b"", ZkMode::Ephemeral).unwrap();
    let session = client.session();
    zookeeper.kill().unwrap();
    assert!(client.get("/n0").is_err());
    zookeeper.restart().unwrap();
    let mut client = ZkClient::attach(zookeeper.port(), session, PATIENCE).unwrap();
    assert_eq!(client.get("/n99").unwrap().0, b"kept");
    assert_eq!(client.exists("/mine").unwrap().unwrap().ephemeral_owner, session);
    zookeeper.restart_empty().unwrap();
    assert_eq!(zookeeper.client().unwrap().children("/").unwrap(), ["zookeeper"]);
    let gone = ZkClient::attach(zookeeper.port(), session, PATIENCE).unwrap_err();
    assert_eq!(gone.reply(), Some("SessionExpired"));
}

#[test]
fn nodes_of_all_kinds() {
    let options =
        ZooKeeperOptions { container_check: Some(Duration::from_millis(50)), ..ZooKeeperOptions::default() };
    let zookeeper = ZooKeeper::start(options).unwrap();
    let mut client = zookeeper.client().unwrap();
    client.create("/box", b"", ZkMode::Container).unwrap();
    let first = client.create("/box/n-", b"1", ZkMode::EphemeralSequential).unwrap();
    assert_eq!(first, "/box/n-0000000000");
    assert_eq!(client.create("/box/n-", b"2", ZkMode::PersistentSequential).unwrap(), "/box/n-0000000001");
    assert_eq!(client.children("/box").unwrap(), ["n-0000000000", "n-0000000001"]);
    let stat = client.exists("/box").unwrap().unwrap();
    assert_eq!((stat.children, stat.cversion), (2, 2));
    let (data, stat) = client.get(&first).unwrap();
    assert_eq!((&data[..], stat.version, stat.ephemeral_owner), (&b"1"[..], 0, client.session()));
    assert!(stat.czxid > 0 && stat.czxid == stat.mzxid);
    assert_eq!(client.set(&first, b"new", Some(0)).unwrap().version, 1);
    assert_eq!(client.set(&first, b"", Some(0)).unwrap_err().reply(), Some("BadVersion"));
    assert_eq!(client.create(&first, b"", ZkMode::Persistent).unwrap_err().reply(), Some("NodeExists"));
    assert_eq!(client.delete("/box", None).unwrap_err().reply(), Some("NotEmpty"));
    for name in client.children("/box").unwrap() {
        client.delete(&format!("/box/{name}"), None).unwrap();
    }
    let gone = || client.exists("/box").unwrap().is_none().then_some(());
    wait_until("the empty container goes", gone);
}

#[test]
fn watches_are_counted_and_fire_once() {
    let zookeeper = zookeeper();
    let (mut one, mut two) = (zookeeper.client().unwrap(), zookeeper.client().unwrap());
    assert_eq!(zookeeper.watches().unwrap(), 0);
    assert!(one.watch("/a").unwrap().is_none());
    assert_eq!(zookeeper.watches().unwrap(), 1);
    assert_eq!(one.event_within(Duration::from_millis(20)).unwrap(), None);
    two.create("/a", b"", ZkMode::Persistent).unwrap();
    assert_eq!(one.event_within(PATIENCE).unwrap(), Some((1, "/a".into())));
    assert_eq!(zookeeper.watches().unwrap(), 0);
    // Kept while something else is waited for.
    one.watch("/a").unwrap();
    two.delete("/a", None).unwrap();
    one.ping().unwrap();
    assert_eq!(one.event_within(PATIENCE).unwrap(), Some((2, "/a".into())));
}

#[test]
fn only_the_superuser_passes_an_acl() {
    let zookeeper = zookeeper();
    let mut alice = ZkClient::connect(zookeeper.port(), PATIENCE).unwrap();
    let refused = alice.create_with("/a", b"", ZkMode::Persistent, &ZkAcl::creator()).unwrap_err();
    assert_eq!(refused.reply(), Some("InvalidACL"));
    alice.add_auth("digest", "alice:secret").unwrap();
    alice.create_with("/a", b"1", ZkMode::Persistent, &ZkAcl::creator()).unwrap();
    let acl = alice.acl("/a").unwrap();
    assert!(acl.len() == 1 && acl[0].rights == 31 && acl[0].id.starts_with("alice:"), "{acl:?}");
    let mut bob = ZkClient::connect(zookeeper.port(), PATIENCE).unwrap();
    assert_eq!(bob.get("/a").unwrap_err().reply(), Some("NoAuth"));
    assert_eq!(zookeeper.client().unwrap().get("/a").unwrap().0, b"1");
}

#[test]
fn a_session_expires_on_purpose_and_by_silence() {
    let zookeeper = zookeeper();
    let mut watcher = zookeeper.client().unwrap();
    let mut client = ZkClient::connect(zookeeper.port(), PATIENCE).unwrap();
    client.create("/mine", b"", ZkMode::Ephemeral).unwrap();
    let owner = watcher.watch("/mine").unwrap().unwrap().ephemeral_owner;
    assert!(zookeeper.sessions().unwrap().contains(&owner));
    // Nothing is known of it but the number.
    zookeeper.expire(owner).unwrap();
    assert_eq!(watcher.event_within(PATIENCE).unwrap(), Some((2, "/mine".into())));
    assert!(matches!(client.ping(), Err(testbed::Error::Io(_))));
    let over = ZkClient::attach(zookeeper.port(), owner, PATIENCE).unwrap_err();
    assert_eq!(over.reply(), Some("SessionExpired"));

    // On a busy machine it may be over before it has done anything.
    let mut alive = || {
        let mut client = ZkClient::connect(zookeeper.port(), Duration::ZERO).unwrap();
        assert_eq!(client.timeout(), Duration::from_secs(1));
        let begin = Instant::now();
        client.create("/mine", b"", ZkMode::Ephemeral).ok()?;
        watcher.watch("/mine").unwrap()?;
        Some((client, begin))
    };
    let (_client, begin) = wait_until("it has a node", &mut alive);
    assert_eq!(watcher.event_within(PATIENCE).unwrap(), Some((2, "/mine".into())));
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[test]
fn an_ensemble_loses_a_member_and_its_leader() {
    let ensemble = Ensemble::start().unwrap();
    assert_eq!(ensemble.url(), format!("zookeeper://{}", ensemble.addresses().join(",")));
    let old = ensemble.leader().unwrap();
    let follower = ensemble.followers()[0];
    let session = {
        let mut client = follower.client().unwrap();
        client.create("/a", b"1", ZkMode::Ephemeral).unwrap();
        client.session()
    };
    // Two are enough, and the session goes on at another one.
    follower.kill().unwrap();
    assert_eq!(ensemble.wait_for_leader(PATIENCE).unwrap().port(), old.port());
    let mut client = ZkClient::attach(old.port(), session, PATIENCE).unwrap();
    client.set("/a", b"1", None).unwrap();
    follower.restart().unwrap();
    ensemble.wait_until_whole(PATIENCE).unwrap();

    old.kill().unwrap();
    let new = ensemble.wait_for_leader(PATIENCE).unwrap();
    assert_ne!(old.port(), new.port());
    let mut client = ZkClient::attach(new.port(), session, PATIENCE).unwrap();
    client.set("/a", b"2", None).unwrap();
    // With nothing left, it learns all from the others.
    old.restart_empty().unwrap();
    ensemble.wait_until_whole(PATIENCE).unwrap();
    let mut client = ZkClient::attach(old.port(), session, PATIENCE).unwrap();
    assert_eq!(client.get("/a").unwrap().0, b"2");

    ensemble.restart_all().unwrap();
    ensemble.servers()[0].expire(session).unwrap();
    // Another server than the one that was told may be a little behind.
    let mut client = ensemble.servers()[1].client().unwrap();
    wait_until_true("its node goes", || client.exists("/a").unwrap().is_none());
}

#[test]
fn a_stopped_leader_is_replaced_and_comes_back() {
    let ensemble = Ensemble::start().unwrap();
    let old = ensemble.leader().unwrap();
    old.stop().unwrap();
    let new = ensemble.wait_for_leader(PATIENCE).unwrap();
    assert_ne!(old.port(), new.port());
    old.resume().unwrap();
    ensemble.wait_until_whole(PATIENCE).unwrap();
    assert_eq!(old.mode().unwrap(), "follower");
}
