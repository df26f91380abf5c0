//! Checks whether the servers are configured such that the guarantees hold. A check that a server does not allow is
//! reported as unknown, and the others continue.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::Attempt;
use tenure_core::{Claim, ClientId, Finding, HoldId, Kind, Name};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::RequestResult;
use crate::recipe::Store;
use crate::session::Session;
use crate::wire::{Address, resolve_host};

const SERVER_TIMEOUT: Duration = Duration::from_secs(2);

impl Store {
    pub(crate) async fn diagnose(self: &Arc<Self>) -> RequestResult<Vec<Finding>> {
        let session = self.sessions.get_or_connect().await?;
        let mut findings = self.check_servers().await;
        findings.push(self.check_session_timeout(&session));
        findings.push(self.check_leader(&session).await?);
        findings.push(self.try_lock().await);
        Ok(findings)
    }

    async fn check_servers(&self) -> Vec<Finding> {
        let options = self.sessions.options();
        // Servers answer four-letter commands on the plain port only.
        if options.tls.is_some() {
            return vec![Finding::unknown(
                "server",
                "servers cannot be checked one by one over TLS",
                "send srvr to the plain port of each",
            )];
        }
        let mut findings = Vec::new();
        let mut alone = 0;
        for server in &options.servers {
            let addresses = match timeout(SERVER_TIMEOUT, resolve_host(server.clone())).await {
                Ok(Ok(addresses)) => addresses,
                Ok(Err(e)) => {
                    findings.push(
                        Finding::error("server", format!("no such host: {e}"), "check the host name")
                            .at(server),
                    );
                    continue;
                }
                Err(_) => {
                    let why = format!("its name was not resolved within {SERVER_TIMEOUT:?}");
                    findings.push(Finding::error("server", why, "check the name server").at(server));
                    continue;
                }
            };
            for at in addresses {
                let finding = match timeout(SERVER_TIMEOUT, srvr(at)).await {
                    Ok(Ok(reply)) => {
                        alone += usize::from(reply.contains("Mode: standalone"));
                        parse_srvr(&reply)
                    }
                    Ok(Err(e)) => Finding::error("server", format!("it does not answer: {e}"), "start it"),
                    Err(_) => Finding::error(
                        "server",
                        format!("it does not answer within {SERVER_TIMEOUT:?}"),
                        "look at its log",
                    ),
                };
                findings.push(finding.at(Address { name: server.clone(), at }));
            }
        }
        findings.push(match (alone, findings.len()) {
            (0, 1) => Finding::warning(
                "ensemble",
                "only one server of the ensemble is configured",
                "configure all of them, so that clients survive the loss of this one",
            ),
            (0, n) => Finding::ok("ensemble", format!("{n} servers")),
            (_, 1) => Finding::warning(
                "ensemble",
                "one server by itself: while it is down no lock can be acquired, and holders lose theirs",
                "run three or five",
            ),
            _ => Finding::error(
                "ensemble",
                "several standalone servers are configured: each would grant the same lock to another client",
                "configure the servers of one ensemble",
            ),
        });
        findings
    }

    fn check_session_timeout(&self, session: &Session) -> Finding {
        let (requested, granted) = (self.sessions.options().session, session.timeout());
        if requested == granted {
            return Finding::ok("session", format!("the timeout is {granted:?}, as requested"));
        }
        Finding::warning(
            "session",
            format!("the timeout is {granted:?}, but {requested:?} was requested"),
            "set minSessionTimeout and maxSessionTimeout on the servers, or request a timeout that they grant",
        )
    }

    /// How long the leader takes to answer, which delays each heartbeat by as much.
    async fn check_leader(&self, session: &Session) -> RequestResult<Finding> {
        let begin = std::time::Instant::now();
        session.client.sync().await?;
        let took = begin.elapsed();
        if took < session.timeout() / 20 {
            return Ok(Finding::ok("leader", format!("it answers within {took:.1?}")));
        }
        Ok(Finding::warning(
            "leader",
            format!(
                "it takes {took:.1?} to answer, which is long for a session timeout of {:?}",
                session.timeout()
            ),
            "check whether its disk is slow, or use a longer session timeout",
        ))
    }

    /// Takes and releases a lock, as a program would.
    async fn try_lock(self: &Arc<Self>) -> Finding {
        let id = HoldId { client: ClientId::new(), n: 1 };
        let Ok(name) = Name::new(format!("tenure-doctor-{}", id.client)) else {
            return Finding::unknown("trial", "there is no unique name for it", "try again");
        };
        let failed = |what: String| {
            Finding::error("trial", what, "check the rights and the path that the message names")
        };
        let path = match self.paths.path(&name) {
            Ok(path) => path,
            Err(error) => return failed(error.to_string()),
        };
        let claim = Claim::of(id, name, Kind::Lock);
        let record = self.records.get_or_insert(&claim, &path);
        let tried = self.try_acquire(&record, &claim).await;
        let left = self.release(&record, 0).await;
        match (tried, left) {
            (Ok(Attempt::Granted { .. }), Ok(_)) => Finding::ok("trial", "a lock was taken and given back"),
            (Ok(other), Ok(_)) => failed(format!("a lock with a unique name was not granted: {other:?}")),
            (Err(error), _) | (_, Err(error)) => {
                failed(error.into_error("acquire and release a lock", &path).to_string())
            }
        }
    }
}

async fn srvr(at: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    stream.write_all(b"srvr").await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    Ok(reply)
}

fn parse_srvr(reply: &str) -> Finding {
    let value = |key: &str| reply.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let version = value("Zookeeper version:").and_then(|v| v.split([',', '-']).next()).unwrap_or("?");
    match value("Mode:") {
        Some(mode @ ("leader" | "follower" | "standalone" | "observer")) => {
            Finding::ok("server", format!("version {version}, {mode}"))
        }
        Some(mode) => {
            Finding::error("server", format!("its mode is {mode}"), "check whether it reaches the others")
        }
        None if reply.contains("not currently serving") => Finding::error(
            "server",
            "it does not serve requests: it has no leader",
            "check whether it reaches the others; a majority must be up",
        ),
        None => Finding::unknown(
            "server",
            "it does not allow the command srvr",
            "add srvr to 4lw.commands.whitelist",
        ),
    }
}
