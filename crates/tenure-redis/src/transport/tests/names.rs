//! A host name that resolves to several servers, or to another one than before.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use testbed::{FAR, wait_until_true, within};

use super::count;
use super::fake::Fake;
use super::replicas::signal;
use super::server::{Server, command, free_port, patient};
use crate::transport::{Event, Failure, Resolver, Transport, Value, join_all};
use crate::{Address, Options, Sentinels, Topology};

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Resolves every name to the current content of `all`.
fn named(all: &Arc<Mutex<Vec<SocketAddr>>>) -> Resolver {
    let all = all.clone();
    Resolver(Some(Arc::new(move |_: &str, _: u16| Ok(all.lock().unwrap().clone()))))
}

/// A server that accepts connections and never answers.
fn frozen() -> Server {
    let server = Server::start();
    signal(server.pid(), "STOP");
    server
}

/// Opens so often that the silent server was tried first many times, with a timeout that is never reached.
async fn opens(options: Options) {
    let options = Options { timeout: FAR, ..options };
    let all = (0..8).map(|_| async {
        let transport = Transport::open(options.clone()).await.unwrap();
        transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
        transport.subscribe(b"k", b"k").await.unwrap();
    });
    within("the other one answers", join_all(all.collect())).await;
}

#[tokio::test]
async fn a_server_that_is_silent_or_gone_is_passed_over() {
    let (silent, live) = (frozen(), Server::start());
    for first in [silent.port, free_port()] {
        let all = Arc::new(Mutex::new(vec![local(first), local(live.port)]));
        let topology = Topology::Standalone(Address::tcp("store", 1));
        opens(Options { resolver: named(&all), ..patient(Options::new(topology)) }).await;
    }
}

#[tokio::test]
async fn a_sentinel_that_is_silent_is_passed_over() {
    let (silent, master) = (frozen(), Server::start());
    let sentinel = Server::sentinel(master.port);
    let all = Arc::new(Mutex::new(vec![local(silent.port), local(sentinel.port)]));
    let addresses = vec![Address::tcp("sentinels", 1)];
    let sentinels = Sentinels { addresses, master: "it".into(), user: None, password: None };
    opens(Options { resolver: named(&all), ..patient(Options::new(Topology::Sentinel(sentinels))) }).await;
}

#[tokio::test]
async fn a_seed_that_is_silent_is_passed_over() {
    let bus = free_port().to_string();
    let (silent, live) = (frozen(), Server::with(&["--cluster-enabled", "yes", "--cluster-port", &bus]));
    let direct = live.open().await;
    command(&direct, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    testbed::until("it serves", || async { direct.call(count(&[b"k"], &[b"0"])).await.is_ok() }).await;
    let all = Arc::new(Mutex::new(vec![local(silent.port), local(live.port)]));
    let topology = Topology::Cluster(vec![Address::tcp("seeds", 1)]);
    opens(Options { resolver: named(&all), ..patient(Options::new(topology)) }).await;
}

/// Failover of a managed service: the name moves, and the old server stays as a replica.
#[tokio::test]
async fn a_server_that_became_a_replica_is_left_for_the_one_its_name_stands_for() {
    let (old, new) = (Server::start(), Server::start());
    let all = Arc::new(Mutex::new(vec![local(old.port)]));
    let topology = Topology::Standalone(Address::tcp("store", 1));
    let options = Options { resolver: named(&all), ..patient(Options::new(topology)) };
    let transport = Transport::open(options).await.unwrap();
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    let mut heard = transport.subscribe(b"c", b"k").await.unwrap();
    let suspicions = transport.suspicion.times();
    *all.lock().unwrap() = vec![local(new.port)];
    command(&old.open().await, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let mut refused = 0;
    let answer = loop {
        match transport.call(count(&[b"k"], &[b"1"])).await {
            Ok(answer) => break answer,
            Err(Failure::NotExecuted(why)) if why.text.contains("READONLY") => refused += 1,
            other => panic!("{other:?}"),
        }
        assert!(refused < 10, "READONLY for ever");
    };
    assert_eq!((refused, answer), (1, Value::Int(1)));
    assert!(transport.suspicion.times() > suspicions, "another server may have forgotten");
    assert_eq!(within("it listens anew", heard.next()).await, Event::MaybeMissed);
    assert_eq!(command(&new.open().await, &["PUBLISH", "c", "x"]).await, Value::Int(1));
    assert_eq!(within("a message", heard.next()).await, Event::Message(b"x".to_vec()));
}

/// Each gets the error that nothing was executed: none is cut off from its answer. The server answers the first call
/// when all are in flight, and the others when the client has acted on that answer.
#[tokio::test]
async fn calls_in_flight_at_a_replica_have_their_answers() {
    let (in_flight, acted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let fake = Fake::start({
        let (answers, in_flight, acted) = (AtomicUsize::new(0), in_flight.clone(), acted.clone());
        move |words, _| match words {
            "PING" => "+PONG".into(),
            _ => {
                let awaited = if answers.fetch_add(1, SeqCst) == 0 { &in_flight } else { &acted };
                wait_until_true("the client goes on", || awaited.load(SeqCst));
                "-READONLY You can't write against a read only replica.".into()
            }
        }
    });
    let options = patient(Options::new(Topology::Standalone(fake.address)));
    let transport = Transport::open(options).await.unwrap();
    let calls = (0..64).map(|_| async {
        let outcome = transport.call(count(&[b"k"], &[b"1"])).await;
        acted.store(true, SeqCst);
        outcome
    });
    // Polled after each of the calls.
    let all_in_flight = async { in_flight.store(true, SeqCst) };
    let (outcomes, ()) =
        within("answered", async { tokio::join!(join_all(calls.collect()), all_in_flight) }).await;
    for outcome in outcomes {
        assert!(
            matches!(&outcome, Err(Failure::NotExecuted(why)) if why.text.contains("READONLY")),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_replica_is_called_on_less_and_less() {
    let server = Server::start();
    let transport = server.open().await;
    command(&transport, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let began = Instant::now();
    for _ in 0..9 {
        transport.call(count(&[b"k"], &[b"1"])).await.unwrap_err();
    }
    // Backoffs start at 10 ms and double, each shortened to at least half by jitter.
    assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
}
