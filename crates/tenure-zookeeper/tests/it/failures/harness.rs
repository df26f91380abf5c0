//! The harness of a test: its own server, and clients that are connected directly or through a proxy.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::Attempt;
use tenure_core::{
    Backend, Claim, Client, ClientId, Error, Fence, Guard, HoldId, Kind, Lock, Name, Settings, Time,
};
use tenure_zookeeper::Options;
use testbed::{FAR, Proxy, ZkClient, ZooKeeper, ZooKeeperOptions, retry, until};

/// The session timeout of clients whose session expires in a test.
pub(crate) const SESSION: Duration = Duration::from_secs(4);

/// The session timeout of all others: long enough for a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// For how long a test checks that something does not happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(150);

/// The `tickTime` of the testbed's servers.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// A server for one test.
pub(crate) struct Harness {
    pub(crate) zk: ZooKeeper,
}

impl Harness {
    /// Starts a server that grants session timeouts of any length.
    pub(crate) fn start() -> Self {
        let lines = vec![format!("maxSessionTimeout={}", 2 * FAR.as_millis())];
        Self::with(ZooKeeperOptions { lines, ..ZooKeeperOptions::default() })
    }

    pub(crate) fn with(options: ZooKeeperOptions) -> Self {
        Self { zk: ZooKeeper::start(options).expect("a server") }
    }

    /// A new client.
    pub(crate) async fn client(&self) -> Client {
        client(options(self.zk.port(), LONG)).await
    }

    /// A client whose session does not expire during a test.
    pub(crate) async fn lasting(&self) -> Client {
        client(options(self.zk.port(), FAR)).await
    }

    /// A proxy to the server, which can fail.
    pub(crate) fn network(&self) -> Network {
        Network { proxy: Proxy::start_zookeeper(self.zk.port()).expect("a proxy") }
    }

    /// A plain client with all rights, and a session timeout of half a minute.
    pub(crate) fn raw(&self) -> ZkClient {
        self.zk.client().expect("an answer")
    }

    /// The children of a node; none if it does not exist.
    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let mut raw = self.raw();
        let names = match raw.children(path) {
            Err(e) if e.reply() == Some("NoNode") => Vec::new(),
            names => names.expect("an answer"),
        };
        raw.close().expect("closed");
        names
    }

    /// The sessions that the children of a node belong to, by sequence number.
    pub(crate) fn owners(&self, path: &str) -> Vec<i64> {
        let mut names = self.children(path);
        names.sort_by_key(|name| name[name.len() - 10..].to_owned());
        let mut raw = self.raw();
        let stats = names.iter().filter_map(|n| raw.exists(&format!("{path}/{n}")).expect("an answer"));
        let owners = stats.map(|stat| stat.ephemeral_owner).collect();
        raw.close().expect("closed");
        owners
    }

    /// Waits until no claim has a node under this name.
    pub(crate) async fn is_empty(&self, name: &str) {
        for path in [format!("/{name}"), format!("/{name}/locks"), format!("/{name}/leases")] {
            until(&format!("nothing stands in {path}"), || async {
                // Folders and counters are not nodes of claims.
                self.children(&path)
                    .iter()
                    .all(|child| ["locks", "leases", "~tenure"].contains(&child.as_str()))
            })
            .await;
        }
    }
}

/// A proxy to the server, which can fail.
pub(crate) struct Network {
    pub(crate) proxy: Proxy,
}

impl Network {
    pub(crate) async fn client(&self, session: Duration) -> Client {
        self.client_with(session, Settings::default()).await
    }

    pub(crate) async fn client_with(&self, session: Duration, settings: Settings) -> Client {
        Client::with(open(options(self.proxy.port(), session)).await, settings)
    }

    /// Refuses new connections, and closes existing ones.
    pub(crate) fn down(&self) {
        self.proxy.refuse();
        self.proxy.close_all();
    }

    pub(crate) fn up(&self) {
        self.proxy.accept().expect("its port is free");
    }
}

pub(crate) fn options(port: u16, session: Duration) -> Options {
    let mut options = Options::new([format!("127.0.0.1:{port}")]);
    (options.session, options.tick, options.timeout) = (session, TICK, LONG);
    options
}

/// On a busy machine a server that has just been started may need more than one call to answer.
pub(crate) async fn open(options: Options) -> Arc<tenure_zookeeper::ZooKeeper> {
    let open = || tenure_zookeeper::ZooKeeper::open(options.clone());
    Arc::new(retry("the store opens", Error::is_transient, open).await)
}

pub(crate) async fn client(options: Options) -> Client {
    Client::with(open(options).await, Settings::default())
}

/// Waiters are woken by watches only, not by polls.
pub(crate) fn without_poll() -> Settings {
    let mut settings = Settings::default();
    settings.poll = Some(FAR);
    settings
}

/// A lock of every kind, each with its own name.
pub(crate) fn templates(client: &Client, suffix: &str) -> Vec<(String, Lock)> {
    let name = |kind: &str| format!("{kind}-{suffix}");
    vec![
        (name("lock"), client.lock(name("lock"))),
        (name("fair"), client.lock(name("fair")).fair()),
        (name("read"), client.rwlock(name("read")).read()),
        (name("write"), client.rwlock(name("write")).write()),
        (name("permits"), client.semaphore(name("permits"), 5).permits(3)),
    ]
}

/// The locks that those of [`templates`] exclude.
pub(crate) fn heirs(client: &Client, suffix: &str) -> Vec<(String, Lock)> {
    let mut all = templates(client, suffix);
    for (name, lock) in &mut all {
        if name.starts_with("read") {
            *lock = client.rwlock(&name).write();
        }
    }
    all
}

/// The time, by the clock that all clients of this process share.
pub(crate) fn now(client: &Client) -> Time {
    client.backend().info().clock().now()
}

/// Waits until a hold has ended by its own clock. Returns when that was, computed from the last time that was left of
/// it.
pub(crate) async fn end_of(client: &Client, guard: &Guard) -> Time {
    let mut end = Time::from_nanos(0);
    until("it ends by its own clock", || {
        // In this order: a pause between the two makes the end earlier, never later.
        let (now, left) = (now(client), guard.remaining());
        if !left.is_zero() {
            end = now.after(left);
        }
        async move { left.is_zero() }
    })
    .await;
    end
}

/// Waits until `n` claims wait, by the store's own account. They must be the same ones twice in a row, since a first
/// attempt also has a node for a moment.
pub(crate) async fn waiting(look: &Client, name: &str, n: usize) {
    let waiters = async || {
        let seen = look.show(name).await.expect("an answer");
        seen.iter().flat_map(|s| &s.waiters).map(|w| (w.id.clone(), w.since)).collect::<Vec<_>>()
    };
    until(&format!("{n} wait for {name}"), || async {
        let first = waiters().await;
        if first.len() != n {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        first == waiters().await
    })
    .await;
}

/// Acquires it in a new task.
pub(crate) fn wait_for(lock: Lock) -> tokio::task::JoinHandle<tenure_core::Result<Guard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// A claim, without a client.
pub(crate) fn claim(name: &str, kind: Kind) -> Claim {
    let id = HoldId { client: ClientId::new(), n: 1 };
    Claim::of(id, Name::new(name).expect("a name"), kind)
}

/// The fence of one attempt, if it is granted.
pub(crate) async fn fence(backend: &dyn Backend, claim: &Claim) -> Option<Fence> {
    match backend.try_acquire(claim).await {
        Ok(Attempt::Granted { fence, .. }) => fence,
        _ => None,
    }
}
