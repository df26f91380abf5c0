//! What a test works with: a server of its own, and clients of it, straight or through a network that fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::backend::Attempt;
use tenure_core::{Backend, Claim, Client, ClientId, Fence, Guard, HoldId, Kind, Lock, Name, Settings, Time};
use tenure_zookeeper::Options;
use testbed::{FAR, PATIENCE, Proxy, ZkClient, ZooKeeper, ZooKeeperOptions, until};

/// The session of clients whose session ends in a test.
pub(crate) const SESSION: Duration = Duration::from_secs(4);

/// The session of all others: a busy machine does not end it.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// For how long something is watched that shall not happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(150);

/// What the servers of the testbed have.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// A server of its own.
pub(crate) struct Harness {
    pub(crate) zk: ZooKeeper,
}

impl Harness {
    /// It grants sessions of any length.
    pub(crate) fn start() -> Self {
        let lines = vec![format!("maxSessionTimeout={}", 2 * FAR.as_millis())];
        Self::with(ZooKeeperOptions { lines, ..ZooKeeperOptions::default() })
    }

    pub(crate) fn with(options: ZooKeeperOptions) -> Self {
        Self { zk: ZooKeeper::start(options).expect("a server") }
    }

    /// A client of its own.
    pub(crate) async fn client(&self) -> Client {
        client(options(self.zk.port(), LONG)).await
    }

    /// One whose session does not end by itself while a test goes on.
    pub(crate) async fn lasting(&self) -> Client {
        client(options(self.zk.port(), FAR)).await
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
            until(&format!("nothing stands in {path}"), || async {
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
    (options.session, options.tick, options.timeout) = (session, TICK, LONG);
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
    settings.poll = Some(FAR);
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

/// A moment that all clients of this process share.
pub(crate) fn now(client: &Client) -> Time {
    client.backend().info().clock.now()
}

/// Waits until a hold has ended by its own clock. When that was, as it said itself when it was last looked at before:
/// one that has ended says no more.
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

/// Until so many wait for it, as the store says: the same ones at two looks, as a first attempt stands there for a
/// moment, too.
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
