//! A Redis server of its own for a test, and looks into it.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use interop::{Address, PATIENCE};
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use tokio::process::{Child, Command};

/// A server on a free port, killed when dropped.
pub(crate) struct Server {
    _child: Child,
    _folder: tempfile::TempDir,
    port: u16,
    look: MultiplexedConnection,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("redis-server starts");
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).expect("an address");
        let start = Instant::now();
        let look = loop {
            match client.get_multiplexed_async_connection().await {
                Ok(look) => break look,
                Err(e) => assert!(start.elapsed() < PATIENCE, "redis-server does not answer: {e}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        Self { _child: child, _folder: folder, port, look }
    }

    pub(crate) fn address(&self) -> Address {
        Address::Single(format!("127.0.0.1:{}", self.port))
    }

    /// One command, its words separated by spaces.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split(' ');
        let mut request = redis::cmd(words.next().expect("a word"));
        for word in words {
            request.arg(word);
        }
        request.query_async(&mut self.look.clone()).await.unwrap_or_else(|e| panic!("{command}: {e}"))
    }

    /// Until so many wait for a message on `channel`.
    pub(crate) async fn subscribers(&self, channel: &str, n: u64) {
        let start = Instant::now();
        loop {
            let (_, now): (String, u64) = self.ask(&format!("PUBSUB NUMSUB {channel}")).await;
            if now == n {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{channel}: {now} subscribers, not {n}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
