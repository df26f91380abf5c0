//! A master found through sentinels, and failovers.

use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use testbed::{PATIENCE, until, within};

use super::count;
use super::server::{Server, command, patient};
use crate::transport::discovery::Discovery;
use crate::transport::{Event, Failure, To, Transport, Value};
use crate::{Address, Options, Sentinels, Topology};

fn options(addresses: Vec<Address>) -> Options {
    let sentinels = Sentinels { addresses, master: "it".into(), user: None, password: None };
    patient(Options::new(Topology::Sentinel(sentinels)))
}

fn local(port: u16) -> Address {
    Address::tcp("127.0.0.1", port)
}

/// Options for a master with two replicas, and three sentinels with shorter timeouts than the default.
fn behind(bed: &testbed::Sentinels) -> Options {
    let addresses = bed.sentinels().iter().map(|s| local(s.port())).collect();
    let sentinels = Sentinels { addresses, master: bed.name().to_owned(), user: None, password: None };
    patient(Options::new(Topology::Sentinel(sentinels)))
}

#[tokio::test]
async fn a_change_of_master_is_followed() {
    let bed = testbed::Sentinels::start().unwrap();
    let old = bed.master().unwrap().port();
    let transport = Transport::open(behind(&bed)).await.unwrap();
    assert_eq!(transport.nodes(), [local(old)]);
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    let mut heard = transport.subscribe(b"c", b"").await.unwrap();
    let suspicions = transport.suspicion.times();
    bed.fail_over().unwrap();
    let new = local(bed.wait_for_new_master(old, PATIENCE).unwrap().port());
    // Nobody calls meanwhile: the change is noticed through pub/sub.
    until("the new one is known", || async { transport.nodes() == [new.clone()] }).await;
    assert!(transport.suspicion.times() > suspicions);
    assert_eq!(within("told", heard.next()).await, Event::MaybeMissed);
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    assert_eq!(command(&transport, &["PUBLISH", "c", "x"]).await, Value::Int(1));
    assert_eq!(within("a message", heard.next()).await, Event::Message(b"x".to_vec()));
    // One sentinel of three is not needed.
    bed.sentinels()[0].kill().unwrap();
    let another = Transport::open(behind(&bed)).await.unwrap();
    assert_eq!(another.nodes(), [new]);
}

#[tokio::test]
async fn the_death_of_a_master_is_survived() {
    let bed = testbed::Sentinels::start().unwrap();
    let old = bed.master().unwrap();
    let transport = Transport::open(behind(&bed)).await.unwrap();
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    old.kill().unwrap();
    let calling = async {
        loop {
            match transport.call(count(&[b"k"], &[b"1"])).await {
                Ok(answer) => break answer,
                Err(Failure::Refused(reply)) => panic!("{reply:?}"),
                Err(_) => {}
            }
        }
    };
    let answer = within("another takes over", calling).await;
    assert!(matches!(answer, Value::Int(1 | 2)));
    let new = bed.wait_for_new_master(old.port(), PATIENCE).unwrap().port();
    assert_eq!(transport.nodes(), [local(new)]);
    assert!(transport.suspicion.times() > 0);
}

/// The sentinel we subscribe to does not announce the new master, and answers everything else.
#[tokio::test]
async fn a_change_is_noticed_though_nobody_tells() {
    let bed = testbed::Sentinels::start().unwrap();
    let proxy = testbed::Proxy::start(bed.sentinels()[0].port()).unwrap();
    proxy.set(testbed::Way::ToClient, testbed::Rule::DropPushes);
    let ports = [proxy.port(), bed.sentinels()[1].port(), bed.sentinels()[2].port()];
    let sentinels = Sentinels {
        addresses: ports.map(local).to_vec(),
        master: bed.name().to_owned(),
        user: None,
        password: None,
    };
    let transport = Transport::open(patient(Options::new(Topology::Sentinel(sentinels)))).await.unwrap();
    let old = bed.master().unwrap().port();
    assert_eq!(transport.nodes(), [local(old)]);
    // A subscription starts the watch for failovers.
    let _heard = transport.subscribe(b"c", b"").await.unwrap();
    let dropped = || proxy.counts().iter().any(|c| c.is_open && c.pushes_dropped > 0);
    let suspicions = transport.suspicion.times();
    bed.fail_over().unwrap();
    let new = bed.wait_for_new_master(old, PATIENCE).unwrap().port();
    until("it would have been told", || async { dropped() }).await;
    until("the new one is known", || async { transport.nodes() == [local(new)] }).await;
    assert!(transport.suspicion.times() > suspicions);
}

/// A runtime that starts the query for the master and then hangs does not block others.
#[test]
fn a_question_outlives_the_runtime_that_asked_it() {
    let master = Server::start();
    let sentinel = Server::sentinel(master.port);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (still, other) = (runtime(), runtime());
    let transport = other.block_on(Transport::open(options(vec![sentinel.address()]))).unwrap();
    transport.discovery.invalidate(&master.address());
    still.block_on(async {
        let mut call = pin!(transport.call(count(&[b"k"], &[b"1"])));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
    let answer = other.block_on(transport.call(count(&[b"k"], &[b"1"])));
    assert_eq!(answer.unwrap(), Value::Int(1));
}

#[tokio::test]
async fn a_way_to_the_former_master_is_not_opened_again() {
    let (old, new) = (Server::start(), Server::start());
    let sentinel = Server::sentinel(old.port);
    let transport = Transport::open(options(vec![sentinel.address()])).await.unwrap();
    let Discovery::Sentinel(known) = &transport.discovery else { unreachable!() };
    known.set_master(&transport, new.address());
    // Like a call that looked up the master just before that.
    let late = transport.command(To::Node(&old.address()), &[b"PING"]).await;
    assert!(matches!(late, Err(Failure::NotExecuted(_))), "{late:?}");
    assert!(transport.connections().unwrap().manager(&old.address()).ready().is_none());
    transport.command(To::Key(b""), &[b"PING"]).await.unwrap();
}

/// A sentinel that always gives this address as the master.
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
    let transport =
        Transport::open(options(vec![wrong.clone(), right.clone(), stub(&master.address())])).await.unwrap();
    assert_eq!(transport.nodes(), [master.address()]);
    for doubtful in [
        vec![right.clone(), wrong.clone()],
        vec![right.clone(), nobody.clone()],
        vec![right.clone(), nobody, wrong.clone()],
        vec![wrong.clone(), stub(&replica.address())],
    ] {
        let hasty = Options { timeout: Duration::from_secs(1), ..options(doubtful) };
        let opened = within("given up", Transport::open(hasty)).await;
        assert!(matches!(&opened, Err(tenure_core::Error::Unavailable { .. })), "{opened:?}");
    }
}
