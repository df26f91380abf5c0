//! Checks whether the servers are configured so that the guarantees hold. Each check is a small function; one that the
//! server forbids is reported as such, and the others go on.

mod clients;
mod clock;
mod cluster;
mod durability;
mod fail_over;
mod memory;
mod rights;
mod server;
mod trial;

use std::collections::BTreeMap;

use tenure_core::backend::Reason;
use tenure_core::{Error, Finding, Result};

use crate::Address;
use crate::store::Redis;
use crate::transport::{Failure, To, Value};

impl Redis {
    /// Checks every master, and tries a lock once.
    pub(crate) async fn run_checks(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let mut silent = Vec::new();
        let nodes = self.transport.nodes();
        for at in &nodes {
            let place = self.transport.place(at);
            match Node::meet(self, at).await {
                Ok(node) => findings.extend(node.run_checks().await.into_iter().map(|f| f.at(&place))),
                Err(failure) => {
                    let what = format!("the server does not answer: {failure}");
                    let advice = "start the server, or fail over to another one";
                    findings.push(Finding::error("server", what, advice).at(&place));
                    silent.push(Reason::from(failure));
                }
            }
        }
        if silent.len() == nodes.len() {
            let (backend, what) = (self.info.scheme, "diagnose".to_owned());
            let reason = if silent.is_empty() { "no server is known".into() } else { Reason::all(silent) };
            return Err(Error::unavailable(backend, what, reason));
        }
        findings.extend(fail_over::fail_over(self).await);
        let trial = self.trial().await;
        findings.push(match nodes.as_slice() {
            [one] => trial.at(self.transport.place(one)),
            _ => trial,
        });
        Ok(findings)
    }
}

/// A server and its `INFO`.
pub(crate) struct Node<'a> {
    redis: &'a Redis,
    at: &'a Address,
    /// `None` if the user may not run `INFO`.
    info: Option<Facts>,
}

type Facts = BTreeMap<String, String>;

/// Why a check could not be completed. The first field is the command.
pub(crate) enum Stuck {
    /// With the server's message.
    Refused(String, String),
    Silent(String, Failure),
}

type Checked = std::result::Result<Finding, Stuck>;

impl<'a> Node<'a> {
    async fn meet(redis: &'a Redis, at: &'a Address) -> std::result::Result<Self, Failure> {
        let mut node = Self { redis, at, info: None };
        match node.ask(&["INFO"]).await {
            Ok(value) => node.info = Some(facts(value.text().unwrap_or_default())),
            Err(Stuck::Refused(..)) => {}
            Err(Stuck::Silent(_, failure)) => return Err(failure),
        }
        Ok(node)
    }

    async fn run_checks(&self) -> Vec<Finding> {
        let before = clock::read(self).await;
        let mut found =
            vec![concluded("server", server::version(self)), concluded("role", server::role(self))];
        found.extend(cluster::cluster(self).await.map(|checked| concluded("cluster", checked)));
        found.extend([
            concluded("eviction", memory::eviction(self)),
            concluded("persistence", durability::persistence(self).await),
            concluded("replicas", durability::replicas(self).await),
        ]);
        found.extend(rights::rights(self).await);
        found.extend([
            concluded("clients", clients::room(self)),
            concluded("idle", clients::idle(self).await),
            concluded("keep-alive", clients::keep_alive(self).await),
            concluded("messages", clients::messages(self).await),
        ]);
        let after = clock::read(self).await;
        found.push(concluded("clock", clock::clock(before, after)));
        found
    }

    async fn ask(&self, words: &[&str]) -> std::result::Result<Value, Stuck> {
        let bytes: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
        let asked = || words[..words.len().min(2)].join(" ");
        self.redis.transport.command(To::Node(self.at), &bytes).await.map_err(|failure| match failure {
            Failure::Refused(reply) => Stuck::Refused(asked(), reply.message),
            failure => Stuck::Silent(asked(), failure),
        })
    }

    /// A configuration value; empty if the server does not know it.
    async fn config(&self, name: &str) -> std::result::Result<String, Stuck> {
        let reply = self.ask(&["CONFIG", "GET", name]).await?;
        let value = reply.array().and_then(|pair| pair.get(1)).and_then(Value::text);
        Ok(value.unwrap_or_default().to_owned())
    }

    fn facts(&self) -> std::result::Result<&Facts, Stuck> {
        let refused = || Stuck::Refused("INFO".to_owned(), "the user may not run INFO".to_owned());
        self.info.as_ref().ok_or_else(refused)
    }
}

/// Parses lines `name:value`.
fn facts(text: &str) -> Facts {
    let pairs = text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
}

fn text<'a>(facts: &'a Facts, name: &str) -> &'a str {
    facts.get(name).map_or("", String::as_str)
}

/// A number; 0 if it is missing.
fn number(facts: &Facts, name: &str) -> u64 {
    text(facts, name).parse().unwrap_or(0)
}

fn concluded(check: &'static str, checked: Checked) -> Finding {
    match checked {
        Ok(finding) => finding,
        Err(Stuck::Refused(asked, message)) => Finding::unknown(
            check,
            format!("not checked: {message}"),
            format!("allow {asked} to have it checked, or check it by hand"),
        ),
        Err(Stuck::Silent(asked, failure)) => {
            Finding::error(check, format!("{asked} was not answered: {failure}"), "run the check again")
        }
    }
}
