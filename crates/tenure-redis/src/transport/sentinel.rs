//! A master that sentinels know. Its address is what most of all sentinels say, not what one of them says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::asking::Asking;
use super::connect::Connector;
use super::failure::{Failure, announced};
use super::home::Home;
use super::hub::Hub;
use super::map::Map;
use super::pause::Pause;
use super::resp::{Value, request};
use super::stream::Wire;
use crate::{Address, Options, Sentinels};

/// After this long without a word a sentinel is asked for one.
const SILENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Sentinel {
    known: Sentinels,
    connector: Connector,
    limit: Duration,
    asking: Asking,
    /// The master, until something speaks against it.
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
            limit: options.timeout,
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

    pub(crate) fn doubt(&self, node: &Address) {
        self.lock().at.take_if(|at| at == node);
    }

    pub(crate) async fn find(
        &self,
        hub: &Arc<Hub>,
        home: &Home,
        deadline: Instant,
    ) -> Result<Address, Failure> {
        loop {
            if let Some(master) = self.master() {
                return Ok(master);
            }
            self.asking.ask(home, deadline, discover(Arc::downgrade(hub))).await?;
        }
    }

    /// What most of them say.
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
        // A password that no sentinel takes is not a matter of time.
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

    /// Takes their word; what went to another one is closed.
    fn learn(&self, hub: &Hub, address: Address) {
        let mut master = self.lock();
        let before = master.last.replace(address.clone()).filter(|last| *last != address);
        master.at = Some(address);
        // Before anyone can call the new one.
        if before.is_some() {
            hub.raise_doubt();
        }
        drop(master);
        if let Some(before) = before {
            hub.forget(&before, true, "it is not the master any more");
        }
    }

    /// Listens for a change of master, from now on.
    pub(crate) fn watch(&self, hub: &Arc<Hub>) {
        if self.watched.load(Relaxed) || self.watched.swap(true, Relaxed) {
            return;
        }
        // On a thread of its own: the caller's runtime may end, or not run.
        match hub.background.handle() {
            Ok(handle) => drop(handle.spawn(watch(Arc::downgrade(hub)))),
            Err(_) => self.watched.store(false, Relaxed),
        }
    }
}

fn sentinel(hub: &Hub) -> &Sentinel {
    match &hub.map {
        Map::Sentinel(sentinel) => sentinel,
        _ => unreachable!("only a map of sentinels asks them"),
    }
}

async fn discover(hub: Weak<Hub>) -> Result<(), Failure> {
    let Some(hub) = hub.upgrade() else { return Err(Failure::NotExecuted("closed".to_owned())) };
    let address = sentinel(&hub).ask_all().await?;
    sentinel(&hub).learn(&hub, address);
    Ok(())
}

async fn ask_one(by: Connector, at: Address, name: String, limit: Duration) -> Result<Address, Failure> {
    let trouble = |why: &dyn std::fmt::Display| Failure::NotExecuted(format!("sentinel {at}: {why}"));
    let mut out = Vec::new();
    request(&mut out, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()]);
    let asked = async {
        let (mut wire, _) = by.connect(&at, limit).await?;
        wire.ask(&out, 1).await.map_err(|e| trouble(&e))
    };
    let reply = match tokio::time::timeout(limit / 2, asked).await {
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

/// One sentinel after another is listened to.
async fn watch(hub: Weak<Hub>) {
    let mut pause = Pause::default();
    for turn in 0_usize.. {
        let Some(strong) = hub.upgrade() else { return };
        let (connector, known) = (sentinel(&strong).connector.clone(), sentinel(&strong).known.clone());
        let limit = strong.timeout;
        drop(strong);
        let at = &known.addresses[turn % known.addresses.len()];
        let began = Instant::now();
        if let Ok((wire, _)) = connector.connect(at, limit).await {
            let _ = attend(&hub, wire, at, &known.master, limit).await;
        }
        if began.elapsed() > SILENCE {
            pause.worked();
        }
        pause.failed();
        tokio::time::sleep(pause.delay()).await;
    }
}

/// Until the connection ends.
async fn attend(
    hub: &Weak<Hub>,
    mut wire: Wire,
    at: &Address,
    name: &str,
    limit: Duration,
) -> std::io::Result<()> {
    let mut out = Vec::new();
    request(&mut out, &[b"SUBSCRIBE", b"+switch-master"]);
    wire.write(&out).await?;
    let (mut silent, mut period) = (false, limit);
    loop {
        let heard = match tokio::time::timeout(period, wire.read()).await {
            Ok(heard) => heard?,
            Err(_) if silent => return Err(std::io::ErrorKind::TimedOut.into()),
            Err(_) => {
                if hub.strong_count() == 0 {
                    return Ok(());
                }
                let mut out = Vec::new();
                request(&mut out, &[b"PING"]);
                wire.write(&out).await?;
                (silent, period) = (true, limit);
                continue;
            }
        };
        (silent, period) = (false, SILENCE);
        let words = heard.array().unwrap_or_default();
        match words.first().and_then(Value::bytes) {
            // What was said before this moment was not heard.
            Some(b"subscribe") => confirm(hub, None).await,
            Some(b"message") => {
                // The name, the old host and port, the new host and port.
                let text = words.get(2).and_then(Value::text).unwrap_or_default();
                let mut said = text.split(' ');
                let (of, host, port) = (said.next(), said.next(), said.next().and_then(|p| p.parse().ok()));
                if let (Some(host), Some(port), true) = (host, port, of == Some(name)) {
                    confirm(hub, Some(announced(host, port, at))).await;
                }
            }
            _ => {}
        }
    }
}

/// Asks most of them; if one says that this was the master until now, until most know of it.
async fn confirm(hub: &Weak<Hub>, not: Option<Address>) {
    let mut pause = Pause::default();
    for _ in 0..10 {
        let Some(hub) = hub.upgrade() else { return };
        if let Some(old) = &not {
            sentinel(&hub).doubt(old);
        }
        if let Ok(address) = sentinel(&hub).ask_all().await
            && Some(&address) != not.as_ref()
        {
            return sentinel(&hub).learn(&hub, address);
        }
        drop(hub);
        pause.failed();
        tokio::time::sleep(pause.delay()).await;
    }
}
