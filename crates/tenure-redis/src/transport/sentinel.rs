//! A master that is found through sentinels. Its address is what the majority of all sentinels says, not a single one.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use tenure_core::backend::Reason;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::advice::refused;
use super::connect::Connector;
use super::connections::Connections;
use super::discovery::{Discovery, SingleFlight};
use super::failure::{Failure, announced_address};
use super::subscriber::Subscriber;
use super::subscription::Event;
use super::wire::{Value, write_command};
use super::{NOT_MASTER, Transport, bounded, reconnect_backoff};
use crate::nat::Place;
use crate::{Address, Options, Sentinels};

/// At this interval all sentinels are asked for the master: the one we are subscribed to may be partitioned together with
/// the old master, and have nothing to report.
const QUERY_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Sentinel {
    known: Sentinels,
    connector: Connector,
    limit: Duration,
    querying: SingleFlight,
    /// The master, until it is invalidated.
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
            return Err(tenure_core::Error::Config("the address names no sentinel".to_owned()));
        }
        Ok(Self {
            known: sentinels.clone(),
            connector: Connector::to_sentinels(sentinels, options)?,
            limit: bounded(options.timeout),
            querying: SingleFlight::default(),
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

    pub(crate) fn invalidate(&self, node: &Address) {
        self.lock().at.take_if(|at| at == node);
    }

    pub(crate) async fn find(
        &self,
        transport: &Arc<Transport>,
        connections: &Connections,
        deadline: Instant,
    ) -> Result<Address, Failure> {
        loop {
            if let Some(master) = self.master() {
                return Ok(master);
            }
            self.querying
                .run_until(transport, connections, deadline, discover(Arc::downgrade(transport)))
                .await?;
        }
    }

    /// Asks all sentinels and returns what the majority says.
    async fn query_all(&self) -> Result<Address, Failure> {
        let mut asked = JoinSet::new();
        for address in &self.known.addresses {
            let question =
                query_one(self.connector.clone(), address.clone(), self.known.master.clone(), self.limit);
            asked.spawn(question);
        }
        let needed = self.known.addresses.len() / 2 + 1;
        let (mut votes, mut others): (HashMap<Address, usize>, Vec<Reason>) = Default::default();
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
                    if let Failure::Refused(_) = failure {
                        refused = Some(failure.clone());
                    }
                    others.push(failure.into());
                }
                Err(e) => others.push(e.to_string().into()),
            }
        }
        // A password that every sentinel rejects is a permanent error.
        if let Some(refused) =
            refused.filter(|_| votes.is_empty() && others.len() == self.known.addresses.len())
        {
            return Err(refused);
        }
        let said = votes.iter().map(|(address, n)| format!("{n} say {address}").into());
        let (name, all) = (&self.known.master, self.known.addresses.len());
        let why = Reason::all(said.chain(others));
        Err(Failure::NotExecuted(why.at(format_args!("no {needed} of {all} sentinels agree on {name:?}"))))
    }

    /// The replicas, as the first sentinel that answers knows them.
    pub(crate) async fn replicas(&self) -> Result<Vec<Address>, Failure> {
        let mut last = Failure::not_executed("no sentinel is known");
        for at in &self.known.addresses {
            let words: [&[u8]; 3] = [b"SENTINEL", b"REPLICAS", self.known.master.as_bytes()];
            match ask(&self.connector, at, &words, self.limit).await {
                Ok(reply) => {
                    let replicas = reply.array().unwrap_or_default().iter();
                    return Ok(replicas.filter_map(|replica| read_replica(replica, at)).collect());
                }
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    /// Stores the master's address, and closes the connections to the previous one.
    pub(crate) fn set_master(&self, transport: &Transport, address: Address) {
        let mut master = self.lock();
        let before = master.last.replace(address.clone()).filter(|last| *last != address);
        master.at = Some(address);
        // Before anybody can call the new one.
        if before.is_some() {
            transport.suspicion.raise();
        }
        drop(master);
        if let Some(before) = before {
            transport.forget(&before, true, NOT_MASTER);
        }
    }

    /// Starts to watch for a change of the master.
    pub(crate) fn watch(&self, transport: &Arc<Transport>) {
        if self.watched.load(Relaxed) || self.watched.swap(true, Relaxed) {
            return;
        }
        // On a thread of its own: the caller's runtime may end, or not be running.
        match transport.background.handle() {
            Ok(handle) => drop(handle.spawn(watch(Arc::downgrade(transport)))),
            Err(_) => self.watched.store(false, Relaxed),
        }
    }
}

fn sentinel(transport: &Transport) -> &Sentinel {
    match &transport.discovery {
        Discovery::Sentinel(sentinel) => sentinel,
        _ => unreachable!("only a discovery through sentinels asks them"),
    }
}

async fn discover(transport: Weak<Transport>) -> Result<(), Failure> {
    let Some(transport) = transport.upgrade() else { return Err(Failure::not_executed("closed")) };
    let address = sentinel(&transport).query_all().await?;
    sentinel(&transport).set_master(&transport, address);
    Ok(())
}

async fn query_one(by: Connector, at: Address, name: String, limit: Duration) -> Result<Address, Failure> {
    let reply = ask(&by, &at, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name.as_bytes()], limit).await?;
    let words = reply.array().unwrap_or_default();
    let host = words.first().and_then(Value::text);
    let port = words.get(1).and_then(Value::text).and_then(|p| p.parse().ok());
    match (host, port) {
        (Some(host), Some(port)) => Ok(announced_address(host, port, &at)),
        _ => Err(failure_at(&by.place(&at), format!("does not know {name:?}").into())),
    }
}

/// Sends a command to a sentinel.
async fn ask(by: &Connector, at: &Address, words: &[&[u8]], limit: Duration) -> Result<Value, Failure> {
    let place = by.place(at);
    let mut out = Vec::new();
    write_command(&mut out, words);
    let limit = limit / 2;
    let asked = async {
        let (mut framed, _) = by.connect(at, limit).await?;
        framed.round_trip(&out, 1).await.map_err(|e| failure_at(&place, e.into()))
    };
    match tokio::time::timeout(limit, asked).await {
        Ok(replies) => match replies?.remove(0) {
            Value::Error(reply) => Err(refused(&place, &reply)),
            reply => Ok(reply),
        },
        Err(_) => Err(failure_at(&place, Reason::timed_out("no answer in time"))),
    }
}

fn failure_at(place: &Place, why: Reason) -> Failure {
    Failure::NotExecuted(why.at(format_args!("sentinel {place}")))
}

/// Reads the address of a replica from a list of names and values.
pub(super) fn read_replica(replica: &Value, from: &Address) -> Option<Address> {
    let words: Vec<&str> = replica.array()?.iter().filter_map(Value::text).collect();
    let of = |name: &str| words.as_chunks().0.iter().find(|[key, _]| *key == name).map(|[_, value]| *value);
    Some(announced_address(of("ip")?, of("port")?.parse().ok()?, from))
}

/// Subscribes to one sentinel after another.
async fn watch(transport: Weak<Transport>) {
    let mut backoff = reconnect_backoff();
    for turn in 0_usize.. {
        let Some(strong) = transport.upgrade() else { return };
        let Sentinel { known, connector, .. } = sentinel(&strong);
        let (at, name) = (&known.addresses[turn % known.addresses.len()], known.master.clone());
        let own_backoff = Arc::new(Mutex::new(reconnect_backoff()));
        let subscriber =
            Subscriber::start(&strong, &Handle::current(), at, Some(connector.clone()), own_backoff);
        drop(strong);
        let began = Instant::now();
        handle_messages(&transport, &subscriber, &name).await;
        if began.elapsed() > QUERY_INTERVAL {
            backoff.worked();
        }
        tokio::time::sleep(backoff.failed()).await;
    }
}

/// Handles the messages of one sentinel until the connection to it ends.
async fn handle_messages(transport: &Weak<Transport>, subscriber: &Arc<Subscriber>, name: &str) {
    let Some((registration, Some(mut confirmation))) = subscriber.register(b"+switch-master", false) else {
        return;
    };
    let (mut is_confirmed, mut queried) = (false, tokio::time::Instant::now());
    loop {
        tokio::select! {
            confirmed = &mut confirmation, if !is_confirmed => {
                if !matches!(confirmed, Ok(Ok(()))) {
                    return;
                }
                is_confirmed = true;
                // Messages published before this moment were not received.
                confirm(transport, None).await;
            }
            event = poll_fn(|cx| registration.mailbox.poll(cx)) => match event {
                Some(Event::Message(text)) => {
                    if let Some(switched) = read_switch(&text, name, &subscriber.to) {
                        confirm(transport, Some(switched)).await;
                    }
                }
                Some(Event::MaybeMissed) => confirm(transport, None).await,
                None => return,
            },
            () = tokio::time::sleep_until(queried + QUERY_INTERVAL) => {
                let Some(transport) = transport.upgrade() else { return };
                // If they do not agree, they are asked again next time.
                let _ = sentinel(&transport).querying.run(&transport, discover(Arc::downgrade(&transport))).await;
                queried = tokio::time::Instant::now();
            }
        }
    }
}

/// Reads the former and the new master from a message: name, old host and port, new host and port.
fn read_switch(text: &[u8], name: &str, from: &Address) -> Option<(Address, Address)> {
    let words: Vec<&str> = std::str::from_utf8(text).ok()?.split(' ').collect();
    let [of, host, port, new_host, new_port] = words[..] else { return None };
    let address = |host: &str, port: &str| Some(announced_address(host, port.parse().ok()?, from));
    if of == name { Some((address(host, port)?, address(new_host, new_port)?)) } else { None }
}

/// Asks all sentinels; if one has announced a new master, until the majority says the same. Not forever, because it may
/// have changed again meanwhile.
async fn confirm(transport: &Weak<Transport>, switched: Option<(Address, Address)>) {
    let mut backoff = reconnect_backoff();
    for _ in 0..10 {
        let Some(transport) = transport.upgrade() else { return };
        let sentinel = sentinel(&transport);
        if let Some((old, _)) = &switched {
            sentinel.invalidate(old);
        }
        // One query at a time: an older answer must not overwrite a newer one.
        let asked = sentinel.querying.run(&transport, discover(Arc::downgrade(&transport))).await;
        if asked.is_ok()
            && switched.as_ref().is_none_or(|(_, new)| sentinel.lock().last.as_ref() == Some(new))
        {
            return;
        }
        drop(transport);
        tokio::time::sleep(backoff.failed()).await;
    }
}
