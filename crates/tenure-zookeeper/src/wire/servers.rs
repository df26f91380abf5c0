//! Where to connect: every address of every server name, one after another, each with its own timeout.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_core::Clock;
use tenure_core::backend::Reason;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connect::{Address, ConnectError, Connection, SessionCredentials, connect};
use super::driver::CLOSE;
use super::jute::Encoder;
use crate::options::Options;

/// Resolves `host:port` to addresses. Tests replace it.
type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

pub(crate) struct Servers {
    /// Shuffled, so that clients are spread over the servers.
    names: Vec<String>,
    next: usize,
    /// How many names are left in this round. `untried` has the untried addresses of the last name.
    names_left: usize,
    untried: VecDeque<Address>,
    last_tried: Option<Address>,
    limit: Duration,
    tls: Option<TlsConnector>,
    pub(crate) clock: Clock,
    resolver: Resolver,
}

impl Servers {
    pub(crate) fn new(options: &Options, tls: Option<TlsConnector>, clock: Clock) -> Self {
        let mut names = options.servers.clone();
        fastrand::shuffle(&mut names);
        // A server that does not answer must leave time for the others.
        let limit = options.timeout.min(options.session * 2 / 5);
        let (untried, last_tried, resolver) = (VecDeque::new(), None, Arc::new(resolve_host));
        Self { names, next: 0, names_left: 0, untried, last_tried, limit, tls, clock, resolver }
    }

    /// Begins a new round over all names, starting after the last one.
    pub(crate) fn begin_round(&mut self) {
        self.names_left = self.names.len();
        self.untried.clear();
    }

    /// Tries the next address. Returns `None` when the round is over.
    pub(crate) async fn connect_next(
        &mut self,
        credentials: &SessionCredentials,
    ) -> Option<Result<Connection, ConnectError>> {
        while self.untried.is_empty() {
            self.names_left = self.names_left.checked_sub(1)?;
            let name = self.names[self.next % self.names.len()].clone();
            self.next += 1;
            if let Err(why) = self.resolve(&name).await {
                return Some(Err(ConnectError::Retryable(why.at(&name))));
            }
        }
        let address = self.last_tried.insert(self.untried.pop_front()?).clone();
        Some(self.connect(&address, credentials).await)
    }

    /// Whether the server tried last would begin a new session. That session is closed at once.
    pub(crate) async fn accepts_new_session(&self, credentials: &SessionCredentials) -> bool {
        let Some(address) = &self.last_tried else { return false };
        let Ok(Connection { mut socket, .. }) = self.connect(address, &credentials.for_new_session()).await
        else {
            return false;
        };
        let close = Encoder::new().int(1).int(CLOSE).frame();
        let sending = async {
            socket.write_all(&close).await?;
            socket.flush().await
        };
        // If this does not arrive, the unused session expires.
        let _ = timeout(self.limit, sending).await;
        true
    }

    async fn connect(
        &self,
        address: &Address,
        credentials: &SessionCredentials,
    ) -> Result<Connection, ConnectError> {
        connect(address, self.tls.as_ref(), credentials, &self.clock, self.limit).await
    }

    /// Resolves a name again in each round, since servers move. The address tried last comes last.
    async fn resolve(&mut self, name: &str) -> Result<(), Reason> {
        let mut all = match timeout(self.limit, (self.resolver)(name.to_owned())).await {
            Ok(Ok(all)) if all.is_empty() => return Err("the name has no address".into()),
            Ok(Ok(all)) => all,
            Ok(Err(e)) => return Err(e.into()),
            Err(_) => {
                return Err(Reason::timed_out(format!("the name was not resolved within {:?}", self.limit)));
            }
        };
        fastrand::shuffle(&mut all);
        all.sort_by_key(|at| self.last_tried.as_ref().is_some_and(|last| last.at == *at));
        self.untried.extend(all.into_iter().map(|at| Address { name: name.to_owned(), at }));
        Ok(())
    }
}

/// Resolves with the system's resolver, without duplicates.
pub(crate) fn resolve_host(name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
    Box::pin(async move {
        let mut all: Vec<SocketAddr> = tokio::net::lookup_host(name).await?.collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;

    use std::net::TcpListener;

    use testbed::{FAR, ZooKeeper, ZooKeeperOptions, until};

    use super::*;
    use crate::credentials::{Credentials, SessionLogins};
    use crate::error::{RequestError, RequestResult};
    use crate::wire::Client;

    const NAME: &str = "servers.example:2181";

    fn options() -> Options {
        let mut options = Options::new([NAME]);
        (options.timeout, options.session) = (Duration::from_secs(1), FAR);
        options
    }

    /// One name for all these addresses.
    fn named(all: Vec<SocketAddr>) -> Servers {
        let mut servers = Servers::new(&options(), None, Clock::boot());
        servers.resolver = Arc::new(move |_| {
            let all = all.clone();
            Box::pin(async move { Ok(all) })
        });
        servers
    }

    /// E12. A name has two addresses, and the first one tried accepts but never answers: the other is tried, too.
    #[tokio::test]
    async fn every_address_of_a_name_is_tried() {
        let zk = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
        let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
        let (frozen, real) = (frozen.local_addr().unwrap(), ([127, 0, 0, 1], zk.port()).into());
        let connect = async || {
            let mut servers = named(vec![frozen, real]);
            servers.last_tried = Some(Address { name: NAME.to_owned(), at: real });
            let logins = SessionLogins::ask(&Arc::new(Credentials::new(&options()))).await?;
            let client = Client::connect_to(servers, &options(), logins).await?;
            client.stat("/").await?.ok_or_else(|| RequestError::not_sent("no root"))?;
            client.close();
            RequestResult::Ok(())
        };
        // A busy machine may take longer than the timeout of the frozen server.
        until("it connects", || async { connect().await.inspect_err(|e| println!("{e:?}")).is_ok() }).await;
    }

    /// A round tries each address once, and the next round begins with another one.
    #[tokio::test]
    async fn a_round_has_each_address_once() {
        // Bound but not listening: each refuses connections, and no other test can get its port.
        let refusing: Vec<TcpSocket> = (0..3).map(|_| TcpSocket::new_v4().unwrap()).collect();
        let nobody: Vec<SocketAddr> = refusing
            .iter()
            .map(|socket| {
                socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
                socket.local_addr().unwrap()
            })
            .collect();
        let mut servers = named(nobody.clone());
        let mut before = None;
        for _ in 0..5 {
            servers.begin_round();
            let mut tried = Vec::new();
            while let Some(connection) = servers.connect_next(&SessionCredentials::new(FAR)).await {
                assert!(
                    matches!(connection, Err(ConnectError::Retryable(why)) if why.text.starts_with(&format!("{NAME} (127.")))
                );
                tried.push(servers.last_tried.clone().unwrap().at);
            }
            assert_ne!(before, Some(tried[0]), "the last one is not tried again at once");
            before = tried.last().copied();
            tried.sort();
            let mut all = nobody.clone();
            all.sort();
            assert_eq!(tried, all);
        }
    }
}
