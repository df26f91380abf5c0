//! A Redis server that lies to a real client. Only a single server: a cluster or a sentinel would name others, and the
//! client would go there; their replies are part of the target `resp`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_redis::{Address, Layout, Options, Redis, Topology};

use super::work::TIMEOUT;
use super::{resp, work};
use crate::Target;
use crate::conversation::Conversation;
use crate::liar::Stage;

pub(super) struct RedisServer(Stage);

impl RedisServer {
    pub(super) fn new() -> Self {
        Self(Stage::new())
    }
}

impl Target for RedisServer {
    fn name(&self) -> &'static str {
        "redis-server"
    }

    fn tokens(&self) -> &'static [&'static str] {
        resp::TOKENS
    }

    /// Connections, threads and queues of one client, and the replies as for `resp`.
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
                scope.spawn(move || to_redis(&work, server.at, TIMEOUT));
            }
        });
    }
}

/// Does the work with the server at this address.
pub(crate) fn to_redis(what: &str, at: SocketAddr, timeout: Duration) {
    let mut options = Options::new(Topology::Standalone(Address::tcp(at.ip().to_string(), at.port())));
    options.timeout = timeout;
    let (what, layout) = what.split_once(' ').unwrap_or((what, ""));
    if layout == "plain" {
        options.layout = Layout::Plain;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let Ok(store) = Redis::open(options).await else { return };
        match what {
            "client" => work::as_a_program(Arc::new(store)).await,
            _ => work::work(what, Arc::new(store)).await,
        }
    });
}
