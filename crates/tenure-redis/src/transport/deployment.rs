//! Detects the kind of deployment by asking the servers.

use std::time::Duration;

use tenure_core::{Error, Result};

use super::connect::{Connector, Hello};
use super::failure::{Failure, Reply};
use super::join::first;
use super::resp::{Value, request};
use super::{SCHEME, bounded, unavailable};
use crate::{Address, Options, Topology};

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
/// # Errors
/// `Config` when the server rejects the password, or this user may not ask; `Unavailable` when no server answers within
/// the timeout.
pub async fn deployment(options: &Options) -> Result<(Address, Deployment)> {
    let addresses = match &options.topology {
        Topology::Standalone(address) => std::slice::from_ref(address),
        Topology::Sentinel(sentinels) => &sentinels.addresses,
        Topology::Cluster(addresses) => addresses,
    };
    let connector = &Connector::new(options)?;
    let limit = bounded(options.timeout);
    let asked = addresses.iter().map(|at| async move {
        let answer = tokio::time::timeout(limit, ask(connector, at, limit)).await;
        answer.unwrap_or_else(|_| Err(Failure::NotExecuted(format!("{at}: no answer within {limit:?}"))))
    });
    match first(asked.collect()).await {
        Ok((at, Ok(deployment))) => Ok((at.clone(), deployment)),
        Ok((at, Err(reply))) => Err(Error::Config(format!("{SCHEME}: {at}: {}", reply.message))),
        Err(failures) => {
            let why: Vec<String> = failures.iter().map(ToString::to_string).collect();
            Err(unavailable(&Failure::NotExecuted(why.join("; "))))
        }
    }
}

/// A server's answer, which may be a refusal.
type Answer<'a> = (&'a Address, Result<Deployment, Reply>);

async fn ask<'a>(by: &Connector, at: &'a Address, limit: Duration) -> Result<Answer<'a>, Failure> {
    let (mut wire, hello) = match by.connect(at, limit).await {
        Ok(connected) => connected,
        Err(Failure::Refused(reply)) => {
            // The password is for the Redis servers: a sentinel has another one, or none.
            let anonymous = by.anonymous().connect(at, limit).await;
            let sentinel = anonymous.is_ok_and(|(_, hello)| read(&hello) == Some(Deployment::Sentinel));
            return Ok((at, if sentinel { Ok(Deployment::Sentinel) } else { Err(reply) }));
        }
        Err(failure) => return Err(failure),
    };
    if let Some(deployment) = read(&hello) {
        return Ok((at, Ok(deployment)));
    }
    // This user may not run `INFO`. Every cluster client needs `CLUSTER SLOTS`, so that may be allowed.
    let mut out = Vec::new();
    request(&mut out, &[b"CLUSTER", b"SLOTS"]);
    let replies = wire.ask(&out, 1).await.map_err(|e| Failure::NotExecuted(format!("{at}: {e}")))?;
    let answer = match replies[..] {
        [Value::Array(_)] => Ok(Deployment::Cluster),
        _ => Err(Reply::new("this user may not ask what the server is: name the deployment")),
    };
    Ok((at, answer))
}

fn read(hello: &Hello) -> Option<Deployment> {
    match hello.mode.as_deref()? {
        "standalone" => Some(Deployment::Standalone),
        "sentinel" => Some(Deployment::Sentinel),
        "cluster" => Some(Deployment::Cluster),
        _ => None,
    }
}
