//! A master that is found through sentinels. Its address is what the majority of all sentinels says, not a single one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::asking::Asking;
use super::backoff::{Backoff, bounded};
use super::connect::Connector;
use super::connections::Connections;
use super::failure::{Failure, announced};
use super::map::Map;
use super::resp::{Value, request};
use super::shared::{GONE, Shared};
use super::stream::Wire;
use crate::{Address, Options, Sentinels};

/// A sentinel that is silent for this long is pinged. At the same interval all sentinels are asked for the master: the
/// one we are subscribed to may be partitioned together with the old master, and have nothing to report.
const SILENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Sentinel {
    known: Sentinels,
    connector: Connector,
    limit: Duration,
    asking: Asking,
    /// The master, until it is doubted.
    master: Mutex<Master>,
    watched: AtomicBool,
}

#[derive(Debug, Default)]
struct Master {
    at: Option<Address>,
    last: Option<Address>,
}

impl Sentinel {
    pub(crate) fn new(sentinels: &Sentinels, options: &Options) -> tenure_core::Result<Self> {
        if sentinels.addresses.is_empty() {
            return Err(tenure_core::Error::Config("no sentinel is named".to_owned()));
        }
        Ok(Self {
            known: sentinels.clone(),
            connector: Connector::to_sentinels(sentinels, options)?,
            limit: bounded(options.timeout),
            asking: Asking::default(),
            master: Mutex::default(),
            watched: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Master> {
        self.master.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn master(&self) -> Option<Address> {
        self.lock().at.clone()
    }

    /// False if another node is the last known master.
    pub(crate) fn is_current(&self, node: &Address) -> bool {
        self.lock().last.as_ref().is_none_or(|last| last == node)
    }

    pub(crate) fn doubt(&self, node: &Address) {
        self.lock().at.take_if(|at| at == node);
    }

    pub(crate) async fn find(
        &self,
        shared: &Arc<Shared>,
        connections: &Connections,
        deadline: Instant,
    ) -> Result<Address, Failure> {
        loop {
            if let Some(master) = self.master() {
                return Ok(master);
            }
            self.asking.ask(shared, connections, deadline, discover(Arc::downgrade(shared))).await?;
        }
    }

    /// Asks all sentinels and returns what the majority says.
    async fn ask_all(&self) -> Result<Address, Failure> {
        let mut asked = JoinSet::new();
        for address in &self.known.addresses {
            let question =
                ask_one(self.connector.clone(), address.clone(), self.known.master.clone(), self.limit);
            asked.spawn(question);
        }
        let needed = self.known.addresses.len() / 2 + 1;
        let (mut votes, mut others): (HashMap<Address, usize>, Vec<String>) = Default::default();
        let mut refused = None;
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(address)) => {
                    let count = votes.entry(address.clone()).or_default();
                    *count += 1;
                    if *count >= needed {
                        return Ok(address);
                    }
                }
                Ok(Err(failure)) => {
                    others.push(failure.to_string());
                    if let Failure::Refused(_) = failure {
                        refused = Some(failure);
                    }
                }
                Err(e) => others.push(e.to_string()),
            }
        }
        // A password that every sentinel rejects is a permanent error.
        if let Some(refused) =
            refused.filter(|_| votes.is_empty() && others.len() == self.known.addresses.len())
        {
            return Err(refused);
        }
        let mut said: Vec<_> = votes.iter().map(|(address, n)| format!("{n} say {address}")).collect();
        said.extend(others);
        let (name, all) = (&self.known.master, self.known.addresses.len());
        Err(Failure::NotExecuted(format!(
            "no {needed} of {all} sentinels agree on {name:?}: {}",
            said.join(", ")
        )))
    }

    /// Stores the master's address, and closes the connections to the previous one.
    pub(crate) fn learn(&self, shared: &Shared, address: Address) {
        let mut master = self.lock();
        let before = master.last.replace(address.clone()).filter(|last| *last != address);
        master.at = Some(address);
        // Before anybody can call the new one.
        if before.is_some() {
            shared.raise_doubt();
        }
        drop(master);
        if let Some(before) = before {
            shared.forget(&before, true, GONE);
        }
    }

    /// Starts to watch for a change of the master.
    pub(crate) fn watch(&self, shared: &Arc<Shared>) {
        if self.watched.load(Relaxed) || self.watched.swap(true, Relaxed) {
            return;
        }
        // On a thread of its own: the caller's runtime may end, or not be running.
        match shared.background.handle() {
            Ok(handle) => drop(handle.spawn(watch(Arc::downgrade(shared)))),
            Err(_) => self.watched.store(false, Relaxed),
        }
    }
}

fn sentinel(shared: &Shared) -> &Sentinel {
    match &shared.map {
        Map::Sentinel(sentinel) => sentinel,
        _ => unreachable!("only a map of sentinels asks them"),
    }
}

async fn discover(shared: Weak<Shared>) -> Result<(), Failure> {
    let Some(shared) = shared.upgrade() else { return Err(Failure::NotExecuted("closed".to_owned())) };
    let address = sentinel(&shared).ask_all().await?;
    sentinel(&shared).learn(&shared, address);
    Ok(())
}

async fn ask_one(by: Connector, at: Address, name: String, limit: Duration) -> Result<Address, Failure> {
    let trouble = |why: &dyn std::fmt::Display| Failure::NotExecuted(format!("sentinel {at}: {why}"));
    let mut out = Vec::new();
    request(&mut out, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()]);
    let limit = limit / 2;
    let asked = async {
        let (mut wire, _) = by.connect(&at, limit).await?;
        wire.ask(&out, 1).await.map_err(|e| trouble(&e))
    };
    let reply = match tokio::time::timeout(limit, asked).await {
        Ok(replies) => replies?.remove(0),
        Err(_) => return Err(trouble(&"no answer in time")),
    };
    if let Value::Error(reply) = reply {
        return Err(Failure::Refused(reply));
    }
    let words = reply.array().unwrap_or_default();
    let host = words.first().and_then(Value::text);
    let port = words.get(1).and_then(Value::text).and_then(|p| p.parse().ok());
    match (host, port) {
        (Some(host), Some(port)) => Ok(announced(host, port, &at)),
        _ => Err(trouble(&format!("does not know {name:?}"))),
    }
}

/// Subscribes to one sentinel after another.
async fn watch(shared: Weak<Shared>) {
    let mut backoff = Backoff::default();
    for turn in 0_usize.. {
        let Some(strong) = shared.upgrade() else { return };
        let (connector, known) = (sentinel(&strong).connector.clone(), sentinel(&strong).known.clone());
        let limit = strong.timeout;
        drop(strong);
        let at = &known.addresses[turn % known.addresses.len()];
        let began = Instant::now();
        if let Ok((wire, _)) = connector.connect(at, limit).await {
            let _ = attend(&shared, wire, at, &known.master, limit).await;
        }
        if began.elapsed() > SILENCE {
            backoff.worked();
        }
        backoff.failed();
        tokio::time::sleep(backoff.delay()).await;
    }
}

/// Handles messages until the connection ends.
async fn attend(
    shared: &Weak<Shared>,
    mut wire: Wire,
    at: &Address,
    name: &str,
    limit: Duration,
) -> std::io::Result<()> {
    let mut out = Vec::new();
    request(&mut out, &[b"SUBSCRIBE", b"+switch-master"]);
    wire.write(&out).await?;
    // If it is silent until `due`, it is pinged; if it was pinged already, the connection is dead.
    let (mut silent, mut due) = (false, Instant::now() + limit);
    let mut asked = Instant::now();
    loop {
        if asked.elapsed() >= SILENCE {
            let Some(shared) = shared.upgrade() else { return Ok(()) };
            // If they do not agree, they are asked again next time.
            let _ = sentinel(&shared).asking.learn(&shared, discover(Arc::downgrade(&shared))).await;
            asked = Instant::now();
        }
        let left = due.min(asked + SILENCE).saturating_duration_since(Instant::now());
        let heard = match tokio::time::timeout(left, wire.read()).await {
            Ok(heard) => heard?,
            Err(_) if Instant::now() < due => continue,
            Err(_) if silent => return Err(std::io::ErrorKind::TimedOut.into()),
            Err(_) => {
                let mut out = Vec::new();
                request(&mut out, &[b"PING"]);
                wire.write(&out).await?;
                (silent, due) = (true, Instant::now() + limit);
                continue;
            }
        };
        (silent, due) = (false, Instant::now() + SILENCE);
        let words = heard.array().unwrap_or_default();
        match words.first().and_then(Value::bytes) {
            // Messages published before this moment were not received.
            Some(b"subscribe") => confirm(shared, None).await,
            Some(b"message") => {
                // Name, old host and port, new host and port.
                let text = words.get(2).and_then(Value::text).unwrap_or_default();
                let said: Vec<&str> = text.split(' ').collect();
                let place = |host: &str, port: &str| Some(announced(host, port.parse().ok()?, at));
                if let [of, host, port, new_host, new_port] = said[..]
                    && of == name
                    && let (Some(old), Some(new)) = (place(host, port), place(new_host, new_port))
                {
                    confirm(shared, Some((old, new))).await;
                }
            }
            _ => {}
        }
    }
}

/// Asks all sentinels; if one has announced a new master, until the majority says the same. Not forever, because it may
/// have changed again meanwhile.
async fn confirm(shared: &Weak<Shared>, switched: Option<(Address, Address)>) {
    let mut backoff = Backoff::default();
    for _ in 0..10 {
        let Some(shared) = shared.upgrade() else { return };
        let sentinel = sentinel(&shared);
        if let Some((old, _)) = &switched {
            sentinel.doubt(old);
        }
        // One query at a time: an older answer must not overwrite a newer one.
        let asked = sentinel.asking.learn(&shared, discover(Arc::downgrade(&shared))).await;
        if asked.is_ok()
            && switched.as_ref().is_none_or(|(_, new)| sentinel.lock().last.as_ref() == Some(new))
        {
            return;
        }
        drop(shared);
        backoff.failed();
        tokio::time::sleep(backoff.delay()).await;
    }
}
