//! A name that stands for several servers, or for another one than before.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use testbed::{FAR, within};

use super::count;
use super::replicas::signal;
use super::server::{Server, command, free_port, patient};
use crate::transport::{Resolver, Transport, join};
use crate::{Address, Options, Sentinels, Topology};

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Every name stands for what is in there at the moment.
fn named(all: &Arc<Mutex<Vec<SocketAddr>>>) -> Resolver {
    let all = all.clone();
    Resolver(Some(Arc::new(move |_: &str, _: u16| Ok(all.lock().unwrap().clone()))))
}

/// One that takes connections and says nothing.
fn frozen() -> Server {
    let server = Server::start();
    signal(server.pid(), "STOP");
    server
}

/// Nobody waits here for as long as a call may take; so often that the silent one was first many times.
async fn opens(options: Options) {
    let options = Options { timeout: FAR, ..options };
    let all = (0..8).map(|_| async {
        let transport = Transport::open(options.clone()).await.unwrap();
        transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
        transport.subscribe(b"k", b"k").await.unwrap();
    });
    within("the other one answers", join(all.collect())).await;
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
