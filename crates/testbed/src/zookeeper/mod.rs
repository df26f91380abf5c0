//! One ZooKeeper server, and the four-letter words that it answers to.

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

/// A ZooKeeper server; what can be done to its process is in [`Server`].
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
    /// Starts one that is alone, and waits until it serves.
    ///
    /// # Errors
    /// When it does not, with its log.
    pub fn start(options: ZooKeeperOptions) -> Result<Self> {
        let has_tls = options.tls.is_some();
        let server = Server::start(Node { options, member: None })?;
        Ok(Self { server, has_tls })
    }

    /// A member of an ensemble, on these ports.
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
        recipe::secure_port(self.place())
    }

    /// A connection, with all rights and a session of half a minute.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn client(&self) -> Result<ZkClient> {
        let mut client = ZkClient::connect(self.port(), PATIENCE)?;
        client.add_auth("digest", SUPER)?;
        Ok(client)
    }

    /// Ends a session, whoever has it: the owner of an ephemeral node, for instance.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn expire(&self, session: i64) -> Result<()> {
        ZkClient::expire(self.port(), session)
    }

    /// The sessions that have a connection here.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn sessions(&self) -> Result<Vec<i64>> {
        let said = self.word("cons")?;
        let ids = said.lines().filter_map(|line| line.split_once("sid=0x")?.1.split(',').next());
        // As wide as it is, and so not to be read as a signed number.
        Ok(ids.filter_map(|id| u64::from_str_radix(id, 16).ok()).map(u64::cast_signed).collect())
    }

    /// What it answers to a four-letter word, such as `srvr`.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn word(&self, word: &str) -> Result<String> {
        ask(self.port(), word, PATIENCE)
    }

    /// What it is by its own account: `standalone`, `leader` or `follower`.
    ///
    /// # Errors
    /// When it is stopped, or does not serve: it may be looking for a leader.
    pub fn mode(&self) -> Result<String> {
        match self.answers() {
            true => mode(self.port(), PATIENCE),
            false => Err(Error::failed("it does not answer")),
        }
    }

    /// What it measures (`mntr`), by name.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn measures(&self) -> Result<BTreeMap<String, String>> {
        let text = self.word("mntr")?;
        let pairs = text.lines().filter_map(|line| line.split_once('\t'));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// How many watches its clients have: on data, on existence and on children. (`wchs` and its kin leave the last
    /// out.)
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

/// The server closes the connection after its answer.
fn ask(port: u16, word: &str, within: Duration) -> Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(within))?;
    stream.write_all(word.as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}
