//! A master that sentinels know, and that changes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use super::count;
use super::server::{Server, command, eventually};
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
