//! ZooKeeper servers: one alone, and three that agree.

use std::net::TcpListener;
use std::time::Instant;

use testbed::{Ensemble, PATIENCE, ZooKeeper, ZooKeeperOptions, eventually};

fn zookeeper() -> ZooKeeper {
    ZooKeeper::start(ZooKeeperOptions::default()).unwrap()
}

#[test]
fn it_serves_here_only() {
    let begin = Instant::now();
    let zookeeper = zookeeper();
    eprintln!("served after {:?}", begin.elapsed());
    assert_eq!(zookeeper.mode().unwrap(), "standalone");
    assert_eq!(zookeeper.url(), format!("zookeeper://127.0.0.1:{}", zookeeper.port()));
    let config = zookeeper.word("conf").unwrap();
    assert!(config.contains("minSessionTimeout=1000\nmaxSessionTimeout=60000\n"), "{config}");
    assert_eq!(zookeeper.watches().unwrap(), 0);
}

#[test]
fn it_waits_for_its_port_and_is_not_mistaken_for_another() {
    let zookeeper = zookeeper();
    let program = std::fs::read_to_string(format!("/proc/{}/comm", zookeeper.pid())).unwrap();
    assert_eq!(program.trim_end(), "java");
    zookeeper.kill().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", zookeeper.port())).unwrap();
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| zookeeper.restart());
        let said = || zookeeper.log().contains("Address already in use").then_some(());
        eventually("it misses its port", PATIENCE, said).unwrap();
        drop(taken);
        restart.join().unwrap().unwrap();
    });
    assert!(zookeeper.is_running());
    assert_eq!(zookeeper.mode().unwrap(), "standalone");
}

#[test]
fn an_ensemble_replaces_its_leader() {
    let begin = Instant::now();
    let ensemble = Ensemble::start().unwrap();
    eprintln!("all served after {:?}", begin.elapsed());
    let old = ensemble.leader().unwrap();
    assert_eq!(ensemble.followers().len(), 2);
    old.kill().unwrap();
    let begin = Instant::now();
    let new = ensemble.wait_for_leader(PATIENCE).unwrap();
    eprintln!("another leader after {:?}", begin.elapsed());
    assert_ne!(old.port(), new.port());
    let begin = Instant::now();
    old.restart().unwrap();
    ensemble.wait_until_whole(PATIENCE).unwrap();
    eprintln!("back after {:?}", begin.elapsed());
    let begin = Instant::now();
    ensemble.restart_all().unwrap();
    eprintln!("all back after {:?}", begin.elapsed());
}
