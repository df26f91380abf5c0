//! Masters and replicas, with and without sentinels.

use std::time::Instant;

use testbed::{PATIENCE, Redis, RedisOptions, Replicated, Sentinels, wait_until};

fn role(node: &Redis) -> String {
    node.info("replication").unwrap().remove("role").unwrap()
}

fn with_password() -> RedisOptions {
    RedisOptions { password: Some("secret".into()), ..RedisOptions::default() }
}

#[test]
fn replicas_follow_and_one_is_promoted() {
    for options in [RedisOptions::default(), with_password()] {
        let all = Replicated::start_with(2, options).unwrap();
        all.master().cmd(&["SET", "a", "1"]).unwrap();
        for replica in 0..2 {
            all.wait_until_synced(replica).unwrap();
            assert_eq!(all.replicas()[replica].cmd(&["GET", "a"]).unwrap().text(), "1");
        }
        let refused = all.replicas()[0].cmd(&["SET", "a", "2"]).unwrap_err();
        assert!(refused.reply().unwrap().starts_with("READONLY"), "{refused}");
        let new = all.promote(0).unwrap();
        new.cmd(&["SET", "a", "2"]).unwrap();
        assert_eq!([role(all.master()), role(new), role(&all.replicas()[1])], ["master", "master", "slave"]);
    }
}

#[test]
fn sentinels_promote_when_the_master_is_killed() {
    let all = Sentinels::start().unwrap();
    assert_eq!(all.sentinel_urls().len(), 3);
    let old = all.master().unwrap();
    assert_eq!(old.port(), all.servers()[0].port());
    let port = old.port();
    old.kill().unwrap();
    let new = all.wait_for_new_master(port, PATIENCE).unwrap();
    assert_ne!(new.port(), port);
    assert_eq!(all.master().unwrap().port(), new.port());
    new.cmd(&["SET", "a", "1"]).unwrap();
    // The old master comes back as a replica.
    old.restart().unwrap();
    all.wait_until_settled(PATIENCE).unwrap();
    assert_eq!(role(old), "slave");
}

#[test]
fn sentinels_promote_on_demand() {
    let all = Sentinels::start_with(with_password()).unwrap();
    for _ in 0..2 {
        let begin = Instant::now();
        let old = all.master().unwrap();
        all.fail_over().unwrap();
        let new = all.wait_for_new_master(old.port(), PATIENCE).unwrap();
        assert_ne!(new.port(), old.port());
        all.wait_until_settled(PATIENCE).unwrap();
        eprintln!("failed over and settled in {:?}", begin.elapsed());
    }
}

#[test]
fn a_sentinel_comes_back() {
    let all = Sentinels::start().unwrap();
    let sentinel = &all.sentinels()[1];
    sentinel.kill().unwrap();
    sentinel.restart().unwrap();
    all.wait_until_settled(PATIENCE).unwrap();
    // It asks less often than before, but it still learns.
    let old = all.master().unwrap().port();
    all.fail_over().unwrap();
    all.wait_for_new_master(old, PATIENCE).unwrap();
    wait_until("all are settled", || all.master().ok());
}
