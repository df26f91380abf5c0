//! A cluster with migrating slots and failing nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use super::count;
use testbed::{done as ended, until, within};

use super::server::{Server, command, free_port, patient};
use crate::transport::cluster::slot;
use crate::transport::{Call, Event, Failure, Order, Script, To, Transport, Value};
use crate::{Address, Options, Topology};

struct Bed {
    servers: Vec<Server>,
    direct: Vec<Arc<Transport>>,
    ids: Vec<String>,
}

impl Bed {
    async fn new(masters: usize, replicas: usize) -> Self {
        let servers: Vec<_> = (0..masters + replicas)
            .map(|_| {
                let bus = free_port().to_string();
                Server::with(&[
                    "--cluster-enabled",
                    "yes",
                    "--cluster-port",
                    &bus,
                    "--cluster-node-timeout",
                    "2000",
                    "--cluster-replica-validity-factor",
                    "0",
                    "--cluster-require-full-coverage",
                    "no",
                ])
            })
            .collect();
        let (mut direct, mut ids, mut buses) = (Vec::new(), Vec::new(), Vec::new());
        for server in &servers {
            let transport = server.open().await;
            ids.push(command(&transport, &["CLUSTER", "MYID"]).await.text().unwrap().to_owned());
            let config = command(&transport, &["CONFIG", "GET", "cluster-port"]).await;
            buses.push(config.array().unwrap()[1].text().unwrap().to_owned());
            direct.push(transport);
        }
        for (i, node) in direct.iter().enumerate() {
            command(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(i + 1).to_string()]).await;
            if i < masters {
                let (first, last) = (16384 * i / masters, 16384 * (i + 1) / masters - 1);
                command(node, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            }
            command(node, &["CLUSTER", "MEET", "127.0.0.1", &servers[0].port.to_string(), &buses[0]]).await;
        }
        let bed = Self { servers, direct, ids };
        for node in &bed.direct {
            until("they have met", || async {
                let info = command(node, &["CLUSTER", "INFO"]).await;
                let all = format!("cluster_known_nodes:{}", bed.servers.len());
                info.text().unwrap().contains("cluster_state:ok") && info.text().unwrap().contains(&all)
            })
            .await;
        }
        for i in 0..replicas {
            let of = bed.ids[i].as_bytes();
            until("it follows", || async {
                let words: [&[u8]; 3] = [b"CLUSTER", b"REPLICATE", of];
                bed.direct[masters + i].command(To::Key(b""), &words).await.is_ok()
            })
            .await;
            until("it has followed", || async {
                let info = command(&bed.direct[masters + i], &["INFO", "replication"]).await;
                info.text().unwrap().contains("master_link_status:up")
            })
            .await;
        }
        bed
    }

    fn options(&self) -> Options {
        // One seed is enough.
        patient(Options::new(Topology::Cluster(vec![self.servers[0].address()])))
    }

    async fn set_slot(&self, node: usize, slot: u16, words: &[&str]) {
        let slot = slot.to_string();
        let words = [&["CLUSTER", "SETSLOT", &slot][..], words].concat();
        command(&self.direct[node], &words).await;
    }

    /// Migrates a slot with its keys, as `redis-cli` does.
    async fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.set_slot(to, slot, &["IMPORTING", &self.ids[from]]).await;
        self.set_slot(from, slot, &["MIGRATING", &self.ids[to]]).await;
        loop {
            let keys =
                command(&self.direct[from], &["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"]).await;
            let keys: Vec<_> =
                keys.array().unwrap().iter().filter_map(Value::text).map(str::to_owned).collect();
            if keys.is_empty() {
                break;
            }
            let port = self.servers[to].port.to_string();
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "60000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            command(&self.direct[from], &words).await;
        }
        self.set_slot(to, slot, &["NODE", &self.ids[to]]).await;
        self.set_slot(from, slot, &["NODE", &self.ids[to]]).await;
        // A node that does not know the other's epoch yet would take the next migration for an old one, and undo it.
        until("they agree", || async {
            let mut views = Vec::new();
            for node in &self.direct {
                views.push(view(command(node, &["CLUSTER", "NODES"]).await.text().unwrap()));
            }
            views.iter().all(|view| *view == views[0])
        })
        .await;
    }

    fn owner(&self, transport: &Arc<Transport>, key: &[u8]) -> usize {
        let Address::Tcp { port, .. } = transport.discovery.owner(key).expect("known") else {
            unreachable!()
        };
        self.servers.iter().position(|s| s.port == port).unwrap()
    }
}

/// The epochs and slots of all nodes, as seen by one node.
fn view(nodes: &str) -> Vec<Vec<String>> {
    let of = |line: &str| {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        [&words[..1], &words[6..7], &words[8..]].concat()
    };
    let mut view: Vec<_> = nodes.lines().map(of).collect();
    view.sort();
    view
}

static PUBLISH: Script = Script::new("return redis.call('spublish', KEYS[1], ARGV[1])");

#[tokio::test]
async fn calls_find_their_nodes_and_follow_slots() {
    let bed = Bed::new(3, 0).await;
    let transport = Transport::open(bed.options()).await.unwrap();
    assert!(transport.is_cluster());
    assert_eq!(transport.publish_command(), "SPUBLISH");
    assert_eq!(transport.nodes().len(), 3);
    let keys: Vec<_> = (0..100).map(|i| format!("key{i}")).collect();
    for key in &keys {
        transport.call(count(&[key.as_bytes()], &[b"1"])).await.unwrap();
    }
    let batch = keys.iter().map(|k| count(&[k.as_bytes()], &[b"1"])).collect();
    assert!(transport.call_all(batch).await.into_iter().all(|o| o.unwrap() == Value::Int(2)));
    // While a slot migrates, keys that are gone from the source are looked up on the target.
    let (key, absent) = (&b"{key0}"[..], &b"absent{key0}"[..]);
    let (slot, from) = (slot(key), bed.owner(&transport, key));
    let to = (from + 1) % 3;
    bed.set_slot(to, slot, &["IMPORTING", &bed.ids[from]]).await;
    bed.set_slot(from, slot, &["MIGRATING", &bed.ids[to]]).await;
    let keys = [absent];
    let proof = |n| Call { order: Order::Renewal, ..count(&keys, n) };
    assert_eq!(transport.call(proof(&[b"5"])).await.unwrap(), Value::Int(5));
    let batch = vec![proof(&[b"1"]), count(&[b"key0"], &[b"1"])];
    let values: Vec<_> = transport.call_all(batch).await.into_iter().map(|o| o.unwrap()).collect();
    assert_eq!(values, [Value::Int(6), Value::Int(3)]);
    let got = transport.command(To::Key(absent), &[b"GET", absent]).await.unwrap();
    assert_eq!(got.text(), Some("6"));
    // But not by a script, which may publish, or read keys that are not declared.
    let mut refused = transport.call_all(vec![count(&[absent], &[b"1"])]).await;
    refused.push(transport.call(count(&[absent], &[b"1"])).await);
    for refused in refused {
        assert!(
            matches!(&refused, Err(Failure::NotExecuted(why)) if why.text.contains("ASK")),
            "{refused:?}"
        );
    }
    assert_eq!(bed.owner(&transport, key), from, "that was for once");
    let suspicions = transport.suspicion.times();
    bed.move_slot(slot, from, to).await;
    assert_eq!(transport.call(count(&[b"key0"], &[b"1"])).await.unwrap(), Value::Int(4));
    assert_eq!(bed.owner(&transport, key), to, "that is for good");
    let (answer, _) =
        transport.call_and_wait(count(&[b"key0"], &[b"1"]), 0, Duration::from_millis(1)).await.unwrap();
    assert_eq!(answer, Value::Int(5));
    assert!(transport.suspicion.times() == suspicions, "slots that move take their keys along");
    let across = transport.command(To::Key(b"key0"), &[b"MGET", b"key0", b"key1"]).await;
    assert!(matches!(across, Err(Failure::Refused(reply)) if reply.code == "CROSSSLOT"));
}

#[tokio::test]
async fn channels_move_with_their_slots() {
    let bed = Bed::new(2, 0).await;
    let transport = Transport::open(bed.options()).await.unwrap();
    let channel = b"news:{a}";
    let mut heard = transport.subscribe(channel, b"{a}").await.unwrap();
    let publish = async |text: &[u8]| {
        let (keys, args): ([&[u8]; 1], [&[u8]; 1]) = ([channel], [text]);
        let call = Call::new(&PUBLISH, &keys, &args, Order::Unordered);
        transport.call(call).await.unwrap()
    };
    assert_eq!(publish(b"one").await, Value::Int(1));
    assert_eq!(heard.next().await, Event::Message(b"one".to_vec()));
    for round in 0..4 {
        let from = bed.owner(&transport, channel);
        bed.move_slot(slot(channel), from, 1 - from).await;
        assert_eq!(within("told", heard.next()).await, Event::MaybeMissed, "{round}");
        assert_eq!(publish(b"more").await, Value::Int(1), "subscribed where it is now");
        assert_eq!(within("a message", heard.next()).await, Event::Message(b"more".to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_doubled_while_slots_move() {
    let bed = Bed::new(2, 0).await;
    let transport = Transport::open(bed.options()).await.unwrap();
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (transport, over, done) = (transport.clone(), over.clone(), done.clone());
            tokio::spawn(async move {
                while !over.load(SeqCst) {
                    match transport.call(count(&[b"k"], &[b"1"])).await {
                        Ok(_) => drop(done.fetch_add(1, SeqCst)),
                        Err(Failure::NotExecuted(_)) => {}
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    let mut at = bed.owner(&transport, b"k");
    for _ in 0..10 {
        bed.move_slot(slot(b"k"), at, 1 - at).await;
        at = 1 - at;
    }
    over.store(true, SeqCst);
    for task in tasks {
        ended("it comes to an end", task).await;
    }
    let value = transport.call(count(&[b"k"], &[b"0"])).await.unwrap();
    assert_eq!(value, Value::Int(done.load(SeqCst)));
    assert!(done.load(SeqCst) > 100);
}

#[tokio::test]
async fn the_loss_of_a_node_is_survived() {
    let mut bed = Bed::new(3, 1).await;
    let transport = Transport::open(bed.options()).await.unwrap();
    // Stops the seed itself: the first master, which has the replica.
    let key = (0..).map(|i| format!("k{i}")).find(|k| bed.owner(&transport, k.as_bytes()) == 0).unwrap();
    let other = (0..).map(|i| format!("k{i}")).find(|k| bed.owner(&transport, k.as_bytes()) == 1).unwrap();
    transport.call(count(&[key.as_bytes()], &[b"1"])).await.unwrap();
    let channel = format!("c{{{key}}}");
    let mut heard = transport.subscribe(channel.as_bytes(), key.as_bytes()).await.unwrap();
    let suspicions = transport.suspicion.times();
    // No failover yet.
    command(&bed.direct[3], &["CONFIG", "SET", "cluster-replica-no-failover", "yes"]).await;
    bed.servers[0].kill();
    until("one that fails fails only its own", || async {
        let batch = [&key, &other].map(|k| count(&[k.as_bytes()], &[b"1"]));
        let outcomes = transport.call_all(batch.to_vec()).await;
        assert!(outcomes[0].is_err(), "{outcomes:?}");
        outcomes[1].is_ok()
    })
    .await;
    command(&bed.direct[3], &["CONFIG", "SET", "cluster-replica-no-failover", "no"]).await;
    until("another takes over", || async {
        let called = transport.call(count(&[key.as_bytes()], &[b"1"])).await;
        assert!(!matches!(called, Err(Failure::Refused(_))), "{called:?}");
        called.is_ok()
    })
    .await;
    assert_eq!(bed.owner(&transport, key.as_bytes()), 3);
    assert!(transport.suspicion.times() > suspicions);
    assert_eq!(within("told", heard.next()).await, Event::MaybeMissed);
}

#[tokio::test]
async fn a_slot_half_way_or_without_a_node_is_not_executed() {
    static BOTH: Script = Script::new("return redis.call('incr', KEYS[1]) + redis.call('incr', KEYS[2])");
    let bed = Bed::new(2, 0).await;
    let transport = Transport::open(bed.options()).await.unwrap();
    transport.call(count(&[b"{k}1"], &[b"1"])).await.unwrap();
    let (slot, from) = (slot(b"k"), bed.owner(&transport, b"k"));
    bed.set_slot(1 - from, slot, &["IMPORTING", &bed.ids[from]]).await;
    bed.set_slot(from, slot, &["MIGRATING", &bed.ids[1 - from]]).await;
    let keys: [&[u8]; 2] = [b"{k}1", b"{k}2"];
    let call = Call::new(&BOTH, &keys, &[""; 0], Order::Unordered);
    let failed = transport.call(call).await;
    assert!(matches!(&failed, Err(Failure::NotExecuted(why)) if why.text.contains("TRYAGAIN")), "{failed:?}");
    for node in 0..2 {
        bed.set_slot(node, slot, &["STABLE"]).await;
    }
    command(&bed.direct[from], &["CLUSTER", "DELSLOTS", &slot.to_string()]).await;
    let failed = transport.call(count(&[b"{k}1"], &[b"1"])).await;
    assert!(
        matches!(&failed, Err(Failure::NotExecuted(why)) if why.text.contains("CLUSTERDOWN")),
        "{failed:?}"
    );
}
