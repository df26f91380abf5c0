//! Where to connect: every address of every server name, one after another, each with its own timeout.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_core::Clock;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::dial::{Address, Dialed, NoLink, Ticket, dial};
use super::driver::CLOSE;
use super::jute::Out;
use crate::options::Options;

/// Resolves `host:port` to addresses. Tests replace it.
type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

pub(crate) struct Servers {
    /// Shuffled, so that clients are spread over the servers.
    names: Vec<String>,
    next: usize,
    /// How many names are left in this round. `found` has the untried addresses of the last name.
    left: usize,
    found: VecDeque<Address>,
    last: Option<Address>,
    limit: Duration,
    tls: Option<TlsConnector>,
    pub(crate) clock: Clock,
    lookup: Lookup,
}

impl Servers {
    pub(crate) fn new(options: &Options, tls: Option<TlsConnector>, clock: Clock) -> Self {
        let mut names = options.servers.clone();
        fastrand::shuffle(&mut names);
        // A server that does not answer must leave time for the others.
        let limit = options.timeout.min(options.session * 2 / 5);
        let (found, last, lookup) = (VecDeque::new(), None, Arc::new(look_up));
        Self { names, next: 0, left: 0, found, last, limit, tls, clock, lookup }
    }

    /// Begins a new round over all names, starting after the last one.
    pub(crate) fn begin_round(&mut self) {
        self.left = self.names.len();
        self.found.clear();
    }

    /// Tries the next address. Returns `None` when the round is over.
    pub(crate) async fn dial_next(&mut self, ticket: &Ticket) -> Option<Result<Dialed, NoLink>> {
        while self.found.is_empty() {
            self.left = self.left.checked_sub(1)?;
            let name = self.names[self.next % self.names.len()].clone();
            self.next += 1;
            if let Err(why) = self.find(&name).await {
                return Some(Err(NoLink::Now(format!("{name}: {why}"))));
            }
        }
        let address = self.last.insert(self.found.pop_front()?).clone();
        Some(self.dial(&address, ticket).await)
    }

    /// Whether the server tried last would begin a new session. That session is closed at once.
    pub(crate) async fn begins_another(&self, ticket: &Ticket) -> bool {
        let Some(address) = &self.last else { return false };
        let Ok(Dialed { mut socket, .. }) = self.dial(address, &ticket.anew()).await else { return false };
        let farewell = Out::new().int(1).int(CLOSE).frame();
        let said = async {
            socket.write_all(&farewell).await?;
            socket.flush().await
        };
        // If this does not arrive, the unused session expires.
        let _ = timeout(self.limit, said).await;
        true
    }

    async fn dial(&self, address: &Address, ticket: &Ticket) -> Result<Dialed, NoLink> {
        dial(address, self.tls.as_ref(), ticket, &self.clock, self.limit).await
    }

    /// Resolves a name again in each round, since servers move. The address tried last comes last.
    async fn find(&mut self, name: &str) -> Result<(), String> {
        let mut all = match timeout(self.limit, (self.lookup)(name.to_owned())).await {
            Ok(Ok(all)) if all.is_empty() => return Err("it has no address".into()),
            Ok(Ok(all)) => all,
            Ok(Err(e)) => return Err(e.to_string()),
            Err(_) => return Err(format!("its address was not found within {:?}", self.limit)),
        };
        fastrand::shuffle(&mut all);
        all.sort_by_key(|at| self.last.as_ref().is_some_and(|last| last.at == *at));
        self.found.extend(all.into_iter().map(|at| Address { name: name.to_owned(), at }));
        Ok(())
    }
}

/// Resolves with the system's resolver, without duplicates.
pub(crate) fn look_up(name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
    Box::pin(async move {
        let mut all: Vec<SocketAddr> = tokio::net::lookup_host(name).await?.collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use testbed::{FAR, ZooKeeper, ZooKeeperOptions, until};

    use super::*;
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
        servers.lookup = Arc::new(move |_| {
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
            servers.last = Some(Address { name: NAME.to_owned(), at: real });
            let client = Client::connect_to(servers, &options()).await?;
            client.stat("/").await?.ok_or_else(|| RequestError::NotSent("no root".into()))?;
            client.close();
            RequestResult::Ok(())
        };
        // A busy machine may take longer than the timeout of the frozen server.
        until("it connects", || async { connect().await.inspect_err(|e| println!("{e:?}")).is_ok() }).await;
    }

    /// A round tries each address once, and the next round begins with another one.
    #[tokio::test]
    async fn a_round_has_each_address_once() {
        let nobody: Vec<SocketAddr> =
            (0..3).map(|_| ([127, 0, 0, 1], testbed::free_port().unwrap()).into()).collect();
        let mut servers = named(nobody.clone());
        let mut before = None;
        for _ in 0..5 {
            servers.begin_round();
            let mut tried = Vec::new();
            while let Some(dialed) = servers.dial_next(&Ticket::new(FAR)).await {
                assert!(matches!(dialed, Err(NoLink::Now(why)) if why.starts_with(&format!("{NAME} (127."))));
                tried.push(servers.last.clone().unwrap().at);
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
