//! A single ZooKeeper server, and its four-letter commands.

mod client;
mod ensemble;
mod jute;
mod nodes;
mod recipe;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

pub use client::ZkClient;
pub use ensemble::Ensemble;
pub use jute::{ZkAcl, ZkStat};
pub use nodes::ZkMode;
use recipe::{Member, Node};
pub use recipe::{SUPER, ZooKeeperOptions};

use crate::server::Failure;
use crate::{Error, PATIENCE, Result, Server};

/// A ZooKeeper server; process control is in [`Server`].
#[derive(Debug)]
pub struct ZooKeeper {
    server: Server,
    has_tls: bool,
}

impl Deref for ZooKeeper {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl ZooKeeper {
    /// Starts a standalone server, and waits until it serves.
    ///
    /// # Errors
    /// When it does not, with its log.
    pub fn start(options: ZooKeeperOptions) -> Result<Self> {
        let has_tls = options.tls.is_some();
        let server = Server::start(Node { options, member: None })?;
        Ok(Self { server, has_tls })
    }

    /// Starts a member of an ensemble, on these ports.
    fn start_in(
        options: ZooKeeperOptions,
        member: Member,
        ports: Vec<u16>,
    ) -> std::result::Result<Self, Failure> {
        let has_tls = options.tls.is_some();
        let server = Server::start_at(Arc::new(Node { options, member: Some(member) }), ports)?;
        Ok(Self { server, has_tls })
    }

    /// `127.0.0.1:PORT`, for plain connections.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// `zookeeper://127.0.0.1:PORT`, for plain connections.
    pub fn url(&self) -> String {
        format!("zookeeper://{}", self.address())
    }

    /// The port for TLS.
    ///
    /// # Panics
    /// When it was started without.
    pub fn secure_port(&self) -> u16 {
        assert!(self.has_tls, "this server has no port for TLS");
        recipe::secure_port(self.instance())
    }

    /// Opens a connection with all permissions and a session of one minute, the longest that the server allows.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn client(&self) -> Result<ZkClient> {
        let mut client = ZkClient::connect(self.port(), PATIENCE)?;
        client.add_auth("digest", SUPER)?;
        Ok(client)
    }

    /// Ends a session, whichever client has it: for instance the owner of an ephemeral node.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn expire(&self, session: i64) -> Result<()> {
        ZkClient::expire(self.port(), session)
    }

    /// Lists the sessions that are connected to this server.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn sessions(&self) -> Result<Vec<i64>> {
        let said = self.word("cons")?;
        let ids = said.lines().filter_map(|line| line.split_once("sid=0x")?.1.split(',').next());
        // Printed as unsigned, so `i64` cannot parse it.
        Ok(ids.filter_map(|id| u64::from_str_radix(id, 16).ok()).map(u64::cast_signed).collect())
    }

    /// Sends a four-letter command, such as `srvr`, and returns the answer.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn word(&self, word: &str) -> Result<String> {
        ask(self.port(), word, PATIENCE)
    }

    /// Returns its mode: `standalone`, `leader` or `follower`.
    ///
    /// # Errors
    /// When it is stopped, or does not serve: an election may be running.
    pub fn mode(&self) -> Result<String> {
        match self.answers() {
            true => mode(self.port(), PATIENCE),
            false => Err(Error::failed("it does not answer")),
        }
    }

    /// Returns its metrics (`mntr`), by name.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn measures(&self) -> Result<BTreeMap<String, String>> {
        let text = self.word("mntr")?;
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Number of watches that its clients have: on data, existence and children. (`wchs` and the like omit the last.)
    ///
    /// # Errors
    /// When it does not answer.
    pub fn watches(&self) -> Result<u64> {
        let measures = self.measures()?;
        let count = measures.get("zk_watch_count").and_then(|count| count.parse().ok());
        count.ok_or_else(|| Error::failed(format!("no count of watches in {measures:?}")))
    }
}

fn mode(port: u16, within: Duration) -> Result<String> {
    let said = ask(port, "srvr", within)?;
    let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.map(str::to_owned).ok_or_else(|| Error::Reply(said.trim_end().to_owned()))
}

/// Reads to the end, since the server closes the connection after its answer.
fn ask(port: u16, word: &str, within: Duration) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(within))?;
    stream.write_all(word.as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}
