//! A TCP proxy between client and server that injects network faults.
//!
//! What arrives is read and buffered at once, as the network would; the rules decide when, and whether, it is
//! delivered. They can be changed at any time, also for data already buffered.

mod connection;
mod deliver;
mod frames;
mod rules;
mod zookeeper;

use std::net::{Ipv4Addr, Shutdown, TcpListener};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub use connection::Counts;
use connection::{Connection, Shared, Target};
use frames::Framing;
pub use rules::{Cut, Rule, Way};
pub use zookeeper::ZkRequest;

use crate::{PATIENCE, Result, free_port};

/// A proxy on a port of 127.0.0.1, on threads of this process.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    door: std::sync::Mutex<Option<Door>>,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

/// The accepting side.
#[derive(Debug)]
struct Door {
    listener: TcpListener,
    task: JoinHandle<()>,
    closed: mpsc::Receiver<()>,
}

/// Field order matters: the listener is dropped, and the port closed, before the sender signals it.
struct Listening {
    listener: TcpListener,
    _closed: mpsc::Sender<()>,
}

impl Proxy {
    /// Proxies a Redis server at this port, with a random seed; see [`Proxy::seed`].
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(target: u16) -> Result<Self> {
        Self::start_with(target, fastrand::u64(..), Framing::Resp)
    }

    /// Proxies a Redis server with a given seed: the same bytes on the same connection get the same random choices.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start_seeded(target: u16, seed: u64) -> Result<Self> {
        Self::start_with(target, seed, Framing::Resp)
    }

    /// Proxies a ZooKeeper server. Commands are its requests, and pushes are watch events.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start_zookeeper(target: u16) -> Result<Self> {
        Self::start_with(target, fastrand::u64(..), Framing::ZooKeeper)
    }

    /// Proxies any protocol, for instance TLS. It cannot tell commands, replies and pushes apart.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start_raw(target: u16) -> Result<Self> {
        Self::start_with(target, fastrand::u64(..), Framing::Raw)
    }

    fn start_with(target: u16, seed: u64, framing: Framing) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let end = Instant::now() + PATIENCE;
        let (port, listener) = loop {
            let port = free_port()?;
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(listener) => break (port, listener),
                Err(_) if Instant::now() < end => {}
                Err(e) => return Err(e.into()),
            }
        };
        let shared = Arc::new(Shared::new(target, seed, framing));
        let proxy = Self { port, shared, door: None.into(), runtime: Some(runtime) };
        proxy.open(listener)?;
        Ok(proxy)
    }

    /// The port that clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The seed of its random choices.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// Sets the rule for one direction of all connections, present and future.
    pub fn set(&self, way: Way, rule: Rule) {
        self.shared.set(way, rule);
    }

    /// Sets the rule for one direction of one connection. Connections are numbered from 0, in the order they were
    /// accepted.
    ///
    /// # Panics
    /// When there has been no such connection yet.
    pub fn set_for(&self, connection: usize, way: Way, rule: Rule) {
        self.shared.connection(connection).set(way, rule);
    }

    /// Sets the rule for both directions of all connections. [`Rule::Swallow`] leaves them half open: silent, but not
    /// closed.
    pub fn set_both(&self, rule: Rule) {
        self.set(Way::ToServer, rule);
        self.set(Way::ToClient, rule);
    }

    /// Lets everything pass on all connections, except for those where something was swallowed.
    pub fn heal(&self) {
        self.set_both(Rule::Pass);
    }

    /// Cuts one connection, once: at the next command, on any connection, that contains `text`, ignoring case.
    ///
    /// # Panics
    /// When the proxy is raw.
    pub fn cut_once(&self, text: &str, cut: Cut) {
        assert!(self.shared.framing != Framing::Raw, "a raw proxy does not know where a command ends");
        self.shared.arm(Target { request: None, text: text.to_owned() }, cut);
    }

    /// Cuts one connection, once: at the next ZooKeeper request of this type that contains `text`, such as a path.
    ///
    /// # Panics
    /// When the proxy is not for ZooKeeper.
    pub fn cut_once_at(&self, request: ZkRequest, text: &str, cut: Cut) {
        assert!(self.shared.framing == Framing::ZooKeeper, "this proxy is not for ZooKeeper");
        self.shared.arm(Target { request: Some(request), text: text.to_owned() }, cut);
    }

    /// Number of cuts armed with [`Proxy::cut_once`] and [`Proxy::cut_once_at`] that have not happened yet.
    pub fn cuts_left(&self) -> usize {
        self.shared.cuts_left()
    }

    /// Closes a connection at once.
    ///
    /// # Panics
    /// When there has been no such connection yet.
    pub fn close(&self, connection: usize) {
        self.shared.connection(connection).close();
    }

    /// Closes all connections at once.
    pub fn close_all(&self) {
        self.shared.connections().iter().for_each(|c| c.close());
    }

    /// Closes the port: new connections are refused. Existing ones stay.
    pub fn refuse(&self) {
        let door = self.door.lock().expect("no panic with the door in hand").take();
        if let Some(Door { listener, task, closed }) = door {
            // Dropping it is not enough: a child that another thread has just forked also has it open until its `exec`.
            let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
            task.abort();
            // Nothing is ever sent: this waits for the sender to be dropped.
            let _ = closed.recv_timeout(PATIENCE);
        }
    }

    /// Opens the port again.
    ///
    /// # Errors
    /// When another process has taken it.
    pub fn accept(&self) -> Result<()> {
        if self.door.lock().expect("no panic with the door in hand").is_some() {
            return Ok(());
        }
        self.open(TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?)
    }

    /// Number of connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.connections().len()
    }

    /// Statistics of each connection, in order of acceptance.
    pub fn counts(&self) -> Vec<Counts> {
        self.shared.connections().iter().map(|c| c.counts()).collect()
    }

    fn open(&self, listener: TcpListener) -> Result<()> {
        listener.set_nonblocking(true)?;
        let (sender, closed) = mpsc::channel();
        let listening = Listening { listener: listener.try_clone()?, _closed: sender };
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let task = runtime.spawn(listen(listening, self.shared.clone()));
        *self.door.lock().expect("no panic with the door in hand") = Some(Door { listener, task, closed });
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Not waited for: blocking is not allowed in asynchronous tests.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn listen(listening: Listening, shared: Arc<Shared>) {
    let Listening { listener, _closed } = listening;
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let connection = shared.add();
                tokio::spawn(serve(client, connection, shared.clone()));
            }
            // Out of file descriptors, for instance.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(client: TcpStream, connection: Arc<Connection>, shared: Arc<Shared>) {
    // If the server is not reachable, the client's connection is closed.
    if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.target)).await {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        deliver::run(client, server, &connection, &shared).await;
    }
    connection.close();
}
