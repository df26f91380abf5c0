//! A cluster: formed, a slot moved step by step, a master killed.

use std::time::Instant;

use testbed::{
    Cluster, PATIENCE, Redis, RedisOptions, Resp, Result, Value, key_in, slot_of, wait_until_true,
};

fn started() -> Cluster {
    let begin = Instant::now();
    let cluster = Cluster::start().unwrap();
    eprintln!("a cluster in {:?}", begin.elapsed());
    cluster
}

fn number_of(cluster: &Cluster, node: &Redis) -> usize {
    cluster.nodes().iter().position(|n| n.port() == node.port()).unwrap()
}

fn says(answer: Result<Value>, what: &str) {
    let error = answer.unwrap_err();
    assert!(error.reply().is_some_and(|text| text.starts_with(what)), "{error}, not {what}");
}

#[test]
fn node_of_returns_the_node_with_the_key() {
    let cluster = started();
    for n in 0..100 {
        let key = format!("lock:{{{n}}}:x");
        let node = cluster.node_of(&key).unwrap();
        assert_eq!(node.cmd(&["CLUSTER", "KEYSLOT", &key]).unwrap().int(), Some(slot_of(&key).into()));
        node.cmd(&["SET", &key, "1"]).unwrap();
    }
    // Each replica has what its master has.
    for n in 0..3 {
        let size = |n: usize| cluster.nodes()[n].cmd(&["DBSIZE"]).unwrap().int();
        assert!(size(n) > Some(0));
        wait_until_true("the replica follows", || size(n) == size(n + 3));
    }
}

#[test]
fn a_slot_moves_step_by_step() {
    let cluster = started();
    let slot = slot_of("lock");
    let keys: Vec<String> = ["{lock}:a", "{lock}:b"].map(String::from).into();
    let old = cluster.node_of("lock").unwrap();
    let to = (number_of(&cluster, old) + 1) % 3;
    let new = &cluster.nodes()[to];
    for key in &keys {
        old.cmd(&["SET", key, "1"]).unwrap();
    }
    let [at_old, at_new] = [old, new].map(|node| node.client().unwrap());
    let (mut at_old, mut at_new): (Resp, Resp) = (at_old, at_new);

    let moving = cluster.begin_move(slot, to).unwrap();
    assert_eq!(at_old.cmd(&["GET", &keys[0]]).unwrap().text(), "1");
    says(at_old.cmd(&["GET", "{lock}:none"]), &format!("ASK {slot} 127.0.0.1:{}", new.port()));
    says(at_new.cmd(&["GET", &keys[0]]), "MOVED");

    moving.migrate(&keys[..1]).unwrap();
    assert_eq!(moving.keys().unwrap(), keys[1..]);
    says(at_old.cmd(&["GET", &keys[0]]), "ASK");
    says(at_old.cmd(&["MGET", &keys[0], &keys[1]]), "TRYAGAIN");
    at_new.cmd(&["ASKING"]).unwrap();
    assert_eq!(at_new.cmd(&["GET", &keys[0]]).unwrap().text(), "1");

    moving.migrate_all().unwrap();
    moving.finish().unwrap();
    says(at_old.cmd(&["GET", &keys[0]]), &format!("MOVED {slot} 127.0.0.1:{}", new.port()));
    assert_eq!(at_new.cmd(&["MGET", &keys[0], &keys[1]]).unwrap().texts(), ["1", "1"]);
    assert_eq!(cluster.node_of("lock").unwrap().port(), new.port());

    // And back at once.
    let from = number_of(&cluster, old);
    cluster.move_slot(slot, from).unwrap();
    assert_eq!(at_old.cmd(&["GET", &keys[1]]).unwrap().text(), "1");
    let moving = cluster.begin_move(slot, to).unwrap();
    moving.cancel().unwrap();
    assert!(at_old.cmd(&["GET", "{lock}:none"]).unwrap().is_nil());
}

#[test]
fn a_killed_master_is_replaced_and_comes_back() {
    let cluster = Cluster::start_with(RedisOptions { password: Some("s".into()), ..RedisOptions::default() });
    let cluster = cluster.unwrap();
    let old = cluster.kill_master_of("lock").unwrap();
    let new = cluster.wait_for_fail_over("lock", old, PATIENCE).unwrap();
    assert_eq!(new, old + 3);
    cluster.nodes()[new].cmd(&["SET", "lock", "1"]).unwrap();
    cluster.nodes()[old].restart().unwrap();
    cluster.wait_until_whole(PATIENCE).unwrap();
    says(cluster.nodes()[old].cmd(&["SET", "lock", "1"]), "MOVED");
    // With a password, too, keys can be moved.
    cluster.move_slot(slot_of("lock"), (old + 1) % 3).unwrap();
}

#[test]
fn a_replica_takes_over_on_demand() {
    let cluster = started();
    let key = key_in(0, "lock");
    cluster.fail_over(3).unwrap();
    assert_eq!(cluster.wait_for_fail_over(&key, 0, PATIENCE).unwrap(), 3);
    cluster.wait_until_whole(PATIENCE).unwrap();
}
