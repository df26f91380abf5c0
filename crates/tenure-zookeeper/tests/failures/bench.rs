//! What a test works with: a server of its own, clients of it, straight or through a network that fails, and waiting
//! with a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::backend::Attempt;
use tenure_core::{Backend, Claim, Client, ClientId, Fence, Guard, HoldId, Kind, Lock, Name, Settings, Time};
use tenure_zookeeper::Options;
use testbed::{Proxy, ZkClient, ZooKeeper, ZooKeeperOptions};

/// No test waits longer than this for anything that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// The session of clients whose session ends in a test.
pub(crate) const SESSION: Duration = Duration::from_secs(4);

/// The session of all others: a busy machine does not end it.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// What the servers of the testbed have.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// A server of its own.
pub(crate) struct Bench {
    pub(crate) zk: ZooKeeper,
}

impl Bench {
    pub(crate) fn start() -> Self {
        Self::with(ZooKeeperOptions::default())
    }

    pub(crate) fn with(options: ZooKeeperOptions) -> Self {
        Self { zk: ZooKeeper::start(options).expect("a server") }
    }

    /// A client of its own.
    pub(crate) async fn client(&self) -> Client {
        client(options(self.zk.port(), LONG)).await
    }

    /// A way to the server that can fail.
    pub(crate) fn network(&self) -> Network {
        Network { proxy: Proxy::start_zookeeper(self.zk.port()).expect("a proxy") }
    }

    /// Somebody with all rights, and a session of half a minute.
    pub(crate) fn raw(&self) -> ZkClient {
        self.zk.client().expect("an answer")
    }

    /// The children of a node; none if it is not there.
    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let mut raw = self.raw();
        let names = match raw.children(path) {
            Err(e) if e.reply() == Some("NoNode") => Vec::new(),
            names => names.expect("an answer"),
        };
        raw.close().expect("closed");
        names
    }

    /// The sessions that the children of a node belong to, in the order of their numbers.
    pub(crate) fn owners(&self, path: &str) -> Vec<i64> {
        let mut names = self.children(path);
        names.sort_by_key(|name| name[name.len() - 10..].to_owned());
        let mut raw = self.raw();
        let stats = names.iter().filter_map(|n| raw.exists(&format!("{path}/{n}")).expect("an answer"));
        let owners = stats.map(|stat| stat.ephemeral_owner).collect();
        raw.close().expect("closed");
        owners
    }

    /// Nothing of any claim stands there any more.
    pub(crate) async fn is_empty(&self, name: &str) {
        for path in [format!("/{name}"), format!("/{name}/locks"), format!("/{name}/leases")] {
            eventually(&format!("nothing stands in {path}"), async || {
                // Folders and numbers are no places.
                self.children(&path)
                    .iter()
                    .all(|child| ["locks", "leases", "~tenure"].contains(&child.as_str()))
            })
            .await;
        }
    }
}

/// A way to the server that can fail.
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

    /// Whoever connects is refused, and whoever is connected is cut off.
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
    (options.session, options.tick) = (session, TICK);
    options
}

/// On a busy machine a server that has just been started may need more than one call to answer.
pub(crate) async fn open(options: Options) -> Arc<tenure_zookeeper::ZooKeeper> {
    let begin = Instant::now();
    loop {
        match tenure_zookeeper::ZooKeeper::open(options.clone()).await {
            Ok(store) => return Arc::new(store),
            Err(error) => assert!(error.is_transient() && begin.elapsed() < PATIENCE, "{error}"),
        }
    }
}

pub(crate) async fn client(options: Options) -> Client {
    Client::with(open(options).await, Settings::default())
}

/// Waiters that hear nothing do not look for themselves while a test goes on.
pub(crate) fn without_poll() -> Settings {
    let mut settings = Settings::default();
    settings.poll = Some(PATIENCE * 10);
    settings
}

/// Every kind that is held, each on a name of its own.
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

/// Those that the ones of [`templates`] keep out.
pub(crate) fn heirs(client: &Client, suffix: &str) -> Vec<(String, Lock)> {
    let mut all = templates(client, suffix);
    for (name, lock) in &mut all {
        if name.starts_with("read") {
            *lock = client.rwlock(&name).write();
        }
    }
    all
}

/// The same moment for all clients of this process.
pub(crate) fn now(client: &Client) -> Time {
    client.backend().info().clock.now()
}

/// When a hold ends unless it is proved once more, by its own clock.
pub(crate) fn end_of(client: &Client, guard: &Guard) -> Time {
    now(client).after(guard.remaining())
}

/// Fails unless `work` ends in time.
pub(crate) async fn within<F: Future>(limit: Duration, what: &str, work: F) -> F::Output {
    match tokio::time::timeout(limit, work).await {
        Ok(out) => out,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

/// Waits until `holds` says yes; fails after [`PATIENCE`].
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !holds().await {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What a task comes to, in time.
pub(crate) async fn done<T>(what: &str, task: tokio::task::JoinHandle<T>) -> T {
    within(PATIENCE, what, task).await.expect("no panic")
}

/// Until so many wait for it, as the store says: the same ones at two looks, as a first attempt stands there for a
/// moment, too.
pub(crate) async fn waiting(look: &Client, name: &str, n: usize) {
    let mut before = None;
    eventually(&format!("{n} wait for {name}"), async || {
        let seen = look.show(name).await.expect("an answer");
        let since: Vec<_> = seen.iter().flat_map(|s| &s.waiters).map(|w| (w.id.clone(), w.since)).collect();
        if since.len() == n && before.as_ref() == Some(&since) {
            return true;
        }
        before = Some(since);
        tokio::time::sleep(Duration::from_millis(100)).await;
        false
    })
    .await;
}

/// Waits for it in a task of its own.
pub(crate) fn wait_for(lock: Lock) -> tokio::task::JoinHandle<tenure_core::Result<Guard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// A claim as a client makes it, without one.
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
