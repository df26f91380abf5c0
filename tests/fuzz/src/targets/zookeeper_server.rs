//! A ZooKeeper server that lies to a real client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_zookeeper::{Options, ZooKeeper};

use super::work::TIMEOUT;
use super::{jute, work};
use crate::Target;
use crate::conversation::Conversation;
use crate::liar::Stage;

pub(super) struct ZooKeeperServer(Stage);

impl ZooKeeperServer {
    pub(super) fn new() -> Self {
        Self(Stage::new())
    }
}

impl Target for ZooKeeperServer {
    fn name(&self) -> &'static str {
        "zookeeper-server"
    }

    fn tokens(&self) -> &'static [&'static str] {
        jute::TOKENS
    }

    /// Connections, threads and queues of one client, and the frames as for `jute`.
    fn most_memory(&self, length: usize) -> usize {
        (4 << 20) + 200 * length
    }

    fn read(&mut self, input: &[u8]) {
        self.read_all(&[input.to_vec()]);
    }

    fn at_once(&self) -> usize {
        work::AT_ONCE
    }

    fn read_all(&mut self, inputs: &[Vec<u8>]) {
        std::thread::scope(|scope| {
            for input in inputs {
                let Conversation { work, says } = Conversation::parse(input);
                let server = self.0.start(says);
                scope.spawn(move || to_zookeeper(&work, server.at, TIMEOUT));
            }
        });
    }
}

/// Does the work with the server at this address.
pub(crate) fn to_zookeeper(what: &str, at: SocketAddr, timeout: Duration) {
    let mut options = Options::new([at.to_string()]);
    (options.timeout, options.session, options.tick) =
        (timeout, Duration::from_secs(10), Duration::from_millis(500));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let Ok(store) = ZooKeeper::open(options).await else { return };
        match what {
            "client" => work::as_a_program(Arc::new(store)).await,
            _ => work::work(what, Arc::new(store)).await,
        }
    });
}
