//! A master that sentinels know, and that changes.

use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use super::count;
use super::server::{Server, command, eventually};
use crate::transport::map::Map;
use crate::transport::{Failure, Heard, To, Transport, Value};
use crate::{Address, Options, Sentinels, Topology};

fn options(addresses: Vec<Address>, timeout: u64) -> Options {
    let sentinels = Sentinels { addresses, master: "it".into(), user: None, password: None };
    Options { timeout: Duration::from_secs(timeout), ..Options::new(Topology::Sentinel(sentinels)) }
}

struct Bed {
    master: Server,
    replica: Server,
    sentinels: Vec<Server>,
}

impl Bed {
    async fn new() -> Self {
        let master = Server::start();
        let replica = Server::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
        let follower = replica.open().await;
        // Sentinels ask a master only now and then who its replicas are.
        eventually("the replica follows", async || {
            command(&follower, &["INFO", "replication"])
                .await
                .text()
                .unwrap()
                .contains("master_link_status:up")
        })
        .await;
        let sentinels: Vec<_> = (0..3).map(|_| Server::sentinel(master.port)).collect();
        let bed = Self { master, replica, sentinels };
        for sentinel in &bed.sentinels {
            let asked = Transport::open(sentinel.options()).await.unwrap();
            eventually("they know each other and the replica", async || {
                let known = command(&asked, &["SENTINEL", "MASTER", "it"]).await;
                let words: Vec<_> = known.array().unwrap().iter().filter_map(Value::text).collect();
                let of = |name| words.iter().position(|w| *w == name).map(|i| words[i + 1]);
                of("num-other-sentinels") == Some("2")
                    && of("num-slaves") == Some("1")
                    && of("flags") == Some("master")
            })
            .await;
        }
        bed
    }

    fn addresses(&self) -> Vec<Address> {
        self.sentinels.iter().map(Server::address).collect()
    }
}

#[tokio::test]
async fn a_change_of_master_is_followed() {
    let mut bed = Bed::new().await;
    let transport = Transport::open(options(bed.addresses(), 3)).await.unwrap();
    assert_eq!(transport.nodes(), [bed.master.address()]);
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    let mut heard = transport.subscribe(b"c", b"").await.unwrap();
    let doubt = transport.doubt();
    let asked = Transport::open(bed.sentinels[0].options()).await.unwrap();
    eventually("it may fail over", async || {
        asked.command(To::Key(b""), &[b"SENTINEL", b"FAILOVER", b"it"]).await.is_ok()
    })
    .await;
    // Nobody calls meanwhile: it is heard of.
    eventually("the new one is known", async || transport.nodes() == [bed.replica.address()]).await;
    assert!(doubt.has_changed().unwrap());
    assert_eq!(heard.next().await, Heard::Again);
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    assert_eq!(command(&transport, &["PUBLISH", "c", "x"]).await, Value::Int(1));
    assert_eq!(heard.next().await, Heard::Message(b"x".to_vec()));
    // One sentinel of three is not needed.
    bed.sentinels[0].kill();
    let another = Transport::open(options(bed.addresses(), 3)).await.unwrap();
    assert_eq!(another.nodes(), [bed.replica.address()]);
}

#[tokio::test]
async fn the_death_of_a_master_is_survived() {
    let mut bed = Bed::new().await;
    let transport = Transport::open(options(bed.addresses(), 1)).await.unwrap();
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    bed.master.kill();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let placed = loop {
        match transport.call(count(&[b"k"], &[b"1"])).await {
            Ok(placed) => break placed,
            Err(Failure::Refused(reply)) => panic!("{reply:?}"),
            Err(_) => assert!(std::time::Instant::now() < deadline),
        }
    };
    assert!(matches!(placed.value, Value::Int(1 | 2)));
    assert_eq!(transport.nodes(), [bed.replica.address()]);
    assert!(*transport.doubt().borrow() > 0);
}

/// The sentinel that is listened to says nothing of the new master, and answers all else.
#[tokio::test]
async fn a_change_is_noticed_though_nobody_tells() {
    let bed = testbed::Sentinels::start().unwrap();
    let proxy = testbed::Proxy::start(bed.sentinels()[0].port()).unwrap();
    proxy.set(testbed::Way::ToClient, testbed::Rule::DropPushes);
    let local = |port| Address::tcp("127.0.0.1", port);
    let ports = [proxy.port(), bed.sentinels()[1].port(), bed.sentinels()[2].port()];
    let sentinels = Sentinels {
        addresses: ports.map(local).to_vec(),
        master: bed.name().to_owned(),
        user: None,
        password: None,
    };
    let transport = Transport::open(Options::new(Topology::Sentinel(sentinels))).await.unwrap();
    let old = bed.master().unwrap().port();
    assert_eq!(transport.nodes(), [local(old)]);
    // Something is waited for: from now on one is listened to.
    let _heard = transport.subscribe(b"c", b"").await.unwrap();
    let dropped = || proxy.counts().iter().any(|c| c.is_open && c.pushes_dropped > 0);
    let doubt = transport.doubt();
    bed.fail_over().unwrap();
    let new = bed.wait_for_new_master(old, Duration::from_secs(30)).unwrap().port();
    eventually("it would have been told", async || dropped()).await;
    eventually("the new one is known", async || transport.nodes() == [local(new)]).await;
    assert!(doubt.has_changed().unwrap());
}

/// A runtime that has begun to ask where the master is and then stands still takes nobody along.
#[test]
fn a_question_outlives_the_runtime_that_asked_it() {
    let master = Server::start();
    let sentinel = Server::sentinel(master.port);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (still, other) = (runtime(), runtime());
    let transport = other.block_on(Transport::open(options(vec![sentinel.address()], 2))).unwrap();
    transport.hub.doubt_node(&master.address());
    still.block_on(async {
        let mut call = pin!(transport.call(count(&[b"k"], &[b"1"])));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    let placed = other.block_on(transport.call(count(&[b"k"], &[b"1"])));
    assert_eq!(placed.unwrap().value, Value::Int(1));
}

#[tokio::test]
async fn a_way_to_the_former_master_is_not_opened_again() {
    let (old, new) = (Server::start(), Server::start());
    let sentinel = Server::sentinel(old.port);
    let transport = Transport::open(options(vec![sentinel.address()], 2)).await.unwrap();
    let Map::Sentinel(known) = &transport.hub.map else { unreachable!() };
    known.learn(&transport.hub, new.address());
    // As one does who asked where to go just before that.
    let late = transport.command(To::Node(&old.address()), &[b"PING"]).await;
    assert!(matches!(late, Err(Failure::NotExecuted(_))), "{late:?}");
    assert!(transport.hub.home().unwrap().lane(&old.address()).ready().is_none());
    transport.command(To::Key(b""), &[b"PING"]).await.unwrap();
}

/// Says that the master is there, whatever it is asked.
fn stub(says: &Address) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let Address::Tcp { host, port } = says else { unreachable!() };
    let answer = format!("*2\r\n${}\r\n{host}\r\n${}\r\n{port}\r\n", host.len(), port.to_string().len());
    let address = Address::tcp("127.0.0.1", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let (mut seen, mut buffer) = (Vec::new(), [0; 1024]);
                while let Ok(n @ 1..) = client.read(&mut buffer) {
                    seen.extend_from_slice(&buffer[..n]);
                    let text = String::from_utf8_lossy(&seen).into_owned();
                    if text.contains("INFO") && text.ends_with("server\r\n") {
                        client.write_all(b"+OK\r\n$0\r\n\r\n").unwrap();
                        seen.clear();
                    } else if text.ends_with("it\r\n") {
                        client.write_all(answer.as_bytes()).unwrap();
                        seen.clear();
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn only_a_majority_of_all_is_believed_and_only_a_master() {
    let master = Server::start();
    let replica = Server::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let (right, wrong) = (stub(&master.address()), stub(&replica.address()));
    let nobody = Address::tcp("127.0.0.1", super::server::free_port());
    let transport = Transport::open(options(vec![wrong.clone(), right.clone(), stub(&master.address())], 3))
        .await
        .unwrap();
    assert_eq!(transport.nodes(), [master.address()]);
    for doubtful in [
        vec![right.clone(), wrong.clone()],
        vec![right.clone(), nobody.clone()],
        vec![right.clone(), nobody, wrong.clone()],
        vec![wrong.clone(), stub(&replica.address())],
    ] {
        let opened = Transport::open(options(doubtful, 1)).await;
        assert!(matches!(&opened, Err(tenure_core::Error::Unavailable { .. })), "{opened:?}");
    }
}
