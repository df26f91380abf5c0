//! Which node serves a key: a fixed one, a master that sentinels name, or the owner of a slot in a cluster. Queries for it
//! run once for all callers. [`deployment`] tells which of the three a server belongs to.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use tenure_core::backend::Reason;
use tenure_core::{Error, Result};
use tokio::sync::watch;

use super::cluster::{Cluster, slot};
use super::connect::{Connector, ServerInfo};
use super::connections::Connections;
use super::failure::{ErrorReply, Failure};
use super::sentinel::Sentinel;
use super::wire::{Value, write_command};
use super::{SCHEME, Transport, bounded, no_thread, unavailable};
use crate::{Address, Options, Topology};

#[derive(Debug)]
pub(crate) enum Discovery {
    Fixed(Address),
    Sentinel(Box<Sentinel>),
    Cluster(Cluster),
}

impl Discovery {
    pub(crate) fn new(options: &Options) -> tenure_core::Result<Self> {
        Ok(match &options.topology {
            Topology::Standalone(address) => Self::Fixed(address.clone()),
            Topology::Sentinel(sentinels) => Self::Sentinel(Box::new(Sentinel::new(sentinels, options)?)),
            Topology::Cluster(_) if options.db != 0 => {
                return Err(tenure_core::Error::Config("a cluster has only the database 0".to_owned()));
            }
            Topology::Cluster(seeds) => Self::Cluster(Cluster::new(seeds)?),
        })
    }

    /// The node that serves `key`.
    pub(crate) async fn node(
        &self,
        transport: &Arc<Transport>,
        connections: &Connections,
        key: &[u8],
        deadline: Instant,
    ) -> Result<Address, Failure> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Sentinel(sentinel) => sentinel.find(transport, connections, deadline).await,
            Self::Cluster(cluster) => cluster.find(transport, connections, Some(slot(key)), deadline).await,
        }
    }

    /// The node on which to subscribe to `channel`.
    pub(crate) async fn node_of_channel(
        &self,
        transport: &Arc<Transport>,
        connections: &Connections,
        channel: &[u8],
        deadline: Instant,
    ) -> Result<Address, Failure> {
        match self {
            // Without sharded pub/sub every node receives all messages: one node is enough for all channels.
            Self::Cluster(cluster) if !cluster.sharded() => {
                cluster.find(transport, connections, None, deadline).await
            }
            _ => self.node(transport, connections, channel, deadline).await,
        }
    }

    /// The known masters.
    pub(crate) fn masters(&self) -> Vec<Address> {
        match self {
            Self::Fixed(address) => vec![address.clone()],
            Self::Sentinel(sentinel) => sentinel.master().into_iter().collect(),
            Self::Cluster(cluster) => cluster.masters(),
        }
    }

    /// False if another node is known to have replaced it.
    pub(crate) fn is_current(&self, node: &Address) -> bool {
        match self {
            Self::Sentinel(sentinel) => sentinel.is_current(node),
            _ => true,
        }
    }

    /// Marks a node as unreachable, or as no longer the right one: the topology is refreshed before the next call.
    pub(crate) fn invalidate(&self, node: &Address) {
        match self {
            Self::Fixed(_) => {}
            Self::Sentinel(sentinel) => sentinel.invalidate(node),
            Self::Cluster(cluster) => cluster.invalidate(),
        }
    }

    /// Whether another node may take over from one that does not answer.
    pub(crate) fn has_failover(&self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    pub(crate) fn moved(&self, transport: &Arc<Transport>, slot: u16, to: &Address) {
        if let Self::Cluster(cluster) = self {
            cluster.moved(transport, slot, to);
        }
    }

    /// Starts to watch for failovers, where they are announced. Called when something is held or waited for.
    pub(crate) fn watch(&self, transport: &Arc<Transport>) {
        if let Self::Sentinel(sentinel) = self {
            sentinel.watch(transport);
        }
    }

    /// Whether pub/sub is sharded.
    pub(crate) fn sharded(&self) -> bool {
        matches!(self, Self::Cluster(cluster) if cluster.sharded())
    }

    pub(crate) fn owner(&self, key: &[u8]) -> Option<Address> {
        match self {
            Self::Cluster(cluster) => cluster.owner(slot(key)),
            _ => self.masters().pop(),
        }
    }
}

type Outcome = Option<Result<(), Failure>>;

/// A query that one caller starts and others wait for. It runs on the transport's own thread: the first caller's runtime
/// may end or hang, and the others still need the outcome.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight(Arc<Mutex<Option<watch::Receiver<Outcome>>>>);

impl SingleFlight {
    /// Starts the query, unless it is in progress.
    pub(crate) fn start<F>(
        &self,
        transport: &Transport,
        query: F,
    ) -> Result<watch::Receiver<Outcome>, Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let thread = transport.background.handle();
        let thread = thread.map_err(no_thread)?;
        let mut current = self.0.lock().unwrap_or_else(|e| e.into_inner());
        // If the sender is gone, there will be no outcome.
        if let Some(outcome) = current.as_ref().filter(|o| o.has_changed().is_ok()) {
            return Ok(outcome.clone());
        }
        let (sender, outcome) = watch::channel(None);
        *current = Some(outcome.clone());
        let current = self.0.clone();
        thread.spawn(async move {
            let outcome = query.await;
            *current.lock().unwrap_or_else(|e| e.into_inner()) = None;
            sender.send_replace(Some(outcome));
        });
        Ok(outcome)
    }

    /// Starts or joins the query, and waits without a deadline.
    pub(crate) async fn run<F>(&self, transport: &Transport, query: F) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut outcome = self.start(transport, query)?;
        match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().expect("it was waited for"),
            Err(_) => Err(Failure::not_executed("the query for the server ended without an answer")),
        }
    }

    /// Starts or joins the query, and waits until the deadline.
    pub(crate) async fn run_until<F>(
        &self,
        transport: &Transport,
        connections: &Connections,
        deadline: Instant,
        query: F,
    ) -> Result<(), Failure>
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        match connections.until(deadline, self.run(transport, query)).await {
            Some(outcome) => outcome,
            None => {
                Err(Failure::NotExecuted(Reason::timed_out("no answer in time about which server to call")))
            }
        }
    }
}

/// The kind of deployment that a server belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deployment {
    /// A single server, which may have replicas or be one.
    Standalone,
    /// A sentinel, which knows masters.
    Sentinel,
    /// A cluster.
    Cluster,
}

/// Asks the servers of `options` for their kind of deployment, all in parallel. Of those that answer, the one listed
/// first counts.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// use tenure_redis::{Address, Deployment, Options, Topology, deployment};
///
/// let options = Options::new(Topology::Standalone(Address::tcp("cache-1", 6379)));
/// if let (address, Deployment::Cluster) = deployment(&options).await? {
///     println!("{address} belongs to a cluster: use Topology::Cluster");
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
/// `Config` when the server rejects the password, or this user may not ask; `Unavailable` when no server answers within
/// the timeout.
pub async fn deployment(options: &Options) -> Result<(Address, Deployment)> {
    let connector = &Connector::new(options)?;
    let limit = bounded(options.timeout);
    let asked = options.topology.addresses().iter().map(|at| async move {
        let answer = tokio::time::timeout(limit, ask(connector, at, limit)).await;
        answer.unwrap_or_else(|_| {
            let why = Reason::timed_out(format!("no answer within {limit:?}"));
            Err(Failure::NotExecuted(why.at(connector.place(at))))
        })
    });
    match first_in_order(asked.collect()).await {
        Ok((at, Ok(deployment))) => Ok((at.clone(), deployment)),
        Ok((_, Err(reply))) => Err(Error::Config(format!("{SCHEME}: cannot connect: {}", reply.message))),
        Err(failures) => Err(unavailable(Reason::all(failures.into_iter().map(Reason::from)))),
    }
}

/// A server's answer, which may be a refusal.
type Deployed<'a> = (&'a Address, Result<Deployment, ErrorReply>);

async fn ask<'a>(by: &Connector, at: &'a Address, limit: Duration) -> Result<Deployed<'a>, Failure> {
    let (mut framed, info) = match by.connect(at, limit).await {
        Ok(connected) => connected,
        Err(Failure::Refused(reply)) => {
            // The password is for the Redis servers: a sentinel has another one, or none.
            let anonymous = by.anonymous().connect(at, limit).await;
            let sentinel = anonymous.is_ok_and(|(_, info)| read(&info) == Some(Deployment::Sentinel));
            return Ok((at, if sentinel { Ok(Deployment::Sentinel) } else { Err(reply) }));
        }
        Err(failure) => return Err(failure),
    };
    if let Some(deployment) = read(&info) {
        return Ok((at, Ok(deployment)));
    }
    // This user may not run `INFO`. Every cluster client needs `CLUSTER SLOTS`, so that may be allowed.
    let mut out = Vec::new();
    write_command(&mut out, &[b"CLUSTER", b"SLOTS"]);
    let replies = framed.round_trip(&out, 1).await;
    let replies = replies.map_err(|e| Failure::NotExecuted(Reason::from(e).at(by.place(at))))?;
    let answer = match replies[..] {
        [Value::Array(_)] => Ok(Deployment::Cluster),
        _ => Err(ErrorReply::new(&format!(
            "{at}: this user may not run INFO, which tells the kind of deployment: specify it in the address"
        ))),
    };
    Ok((at, answer))
}

fn read(info: &ServerInfo) -> Option<Deployment> {
    match info.mode.as_deref()? {
        "standalone" => Some(Deployment::Standalone),
        "sentinel" => Some(Deployment::Sentinel),
        "cluster" => Some(Deployment::Cluster),
        _ => None,
    }
}

/// The first success in order, as soon as it is known; all failures if there is none. The other futures are dropped.
pub(crate) async fn first_in_order<F, T, E>(work: Vec<F>) -> Result<T, Vec<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut running: Vec<_> = work.into_iter().map(|f| Some(Box::pin(f))).collect();
    let mut done: Vec<Option<Result<T, E>>> = running.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in running.iter_mut().zip(&mut done) {
            if let Some(running) = future
                && let Poll::Ready(outcome) = running.as_mut().poll(cx)
            {
                (*future, *done) = (None, Some(outcome));
            }
        }
        let known = done.iter().find(|outcome| !matches!(outcome, Some(Err(_))));
        if matches!(known, Some(None)) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let mut failures = Vec::new();
    for outcome in done.into_iter().flatten() {
        match outcome {
            Ok(found) => return Ok(found),
            Err(failure) => failures.push(failure),
        }
    }
    Err(failures)
}
