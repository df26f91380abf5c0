//! The backend of a client: every call is a message to a server, and ends with its answer or without one. It decides
//! nothing by itself: when a message arrives, or whether at all, is decided by the network.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Query, Released, Renewal, Signal,
    Snapshot, Suspicion, Watch,
};
use tenure_core::{Claim, Environment, Error, Name, OpId, Result};

use crate::message::{Reply, Request, Topic};
use crate::server::SCHEME;

/// How long a call waits for its answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// What a client sends.
#[derive(Debug)]
pub(crate) enum Sent {
    Call { node: usize, call: u64, request: Request },
    Unwatch { node: usize, call: u64 },
}

/// Why a call ends without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// It was certainly not executed.
    Refused,
    /// The connection is gone.
    Cut,
}

type Answer = std::result::Result<Reply, Failure>;

/// What goes in and out of a client process.
#[derive(Default)]
pub(crate) struct Port {
    state: Mutex<State>,
    /// Whether something was sent.
    pub(crate) sent: Notify,
}

#[derive(Default)]
struct State {
    out: VecDeque<Sent>,
    calls: BTreeMap<u64, (usize, oneshot::Sender<Answer>)>,
    watches: BTreeMap<u64, (usize, Arc<Signals>)>,
    suspicions: Vec<(usize, Suspicion)>,
    next: u64,
}

#[derive(Default)]
struct Signals {
    pending: Mutex<Option<Signal>>,
    notify: Notify,
}

impl Port {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn number(&self) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        state.next
    }

    /// Takes what was sent since the last time.
    pub(crate) fn take(&self) -> VecDeque<Sent> {
        std::mem::take(&mut self.lock().out)
    }

    /// A call is over.
    pub(crate) fn answer(&self, call: u64, answer: Answer) {
        let caller = self.lock().calls.remove(&call);
        if let Some((_, caller)) = caller {
            let _ = caller.send(answer);
        }
    }

    /// All calls to a server are over, because the connection is gone. Watches look again, as after each connect.
    pub(crate) fn cut(&self, node: usize) {
        let (calls, watches) = {
            let mut state = self.lock();
            let all = std::mem::take(&mut state.calls);
            let (calls, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
                all.into_iter().partition(|(_, (of, _))| *of == node);
            state.calls = others;
            let watches: Vec<_> = state.watches.values().filter(|(of, _)| *of == node).cloned().collect();
            (calls, watches)
        };
        for (_, caller) in calls.into_values() {
            let _ = caller.send(Err(Failure::Cut));
        }
        watches.iter().for_each(|(_, watch)| watch.put(Signal::Changed));
    }

    /// A server may have lost what it granted.
    pub(crate) fn suspect(&self, node: usize) {
        let suspicions = self.lock().suspicions.clone();
        suspicions.iter().filter(|(of, _)| *of == node).for_each(|(_, suspicion)| suspicion.raise());
    }

    /// A signal of a watch.
    pub(crate) fn signal(&self, call: u64, signal: Signal) {
        let watch = self.lock().watches.get(&call).cloned();
        if let Some((_, watch)) = watch {
            watch.put(signal);
        }
    }
}

impl Signals {
    fn put(&self, signal: Signal) {
        let mut pending = self.pending.lock().unwrap_or_else(|e| e.into_inner());
        if *pending != Some(Signal::Open) {
            *pending = Some(signal);
        }
        drop(pending);
        self.notify.notify_one();
    }
}

/// The connection of a client process to a server.
pub(crate) struct Connection {
    port: Arc<Port>,
    node: usize,
    info: Info,
}

impl Connection {
    pub(crate) fn new(port: Arc<Port>, node: usize, environment: Environment, poll: Duration) -> Self {
        let mut info = Info::new(SCHEME, environment);
        (info.fenced, info.poll) = (true, poll);
        port.lock().suspicions.push((node, info.suspicion.clone()));
        Self { port, node, info }
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        let call = self.port.number();
        self.call_as(call, request).await
    }

    async fn call_as(&self, call: u64, request: Request) -> Result<Reply> {
        let (caller, answer) = oneshot::channel();
        let (what, node) = (request.words(), self.node);
        {
            let mut state = self.port.lock();
            state.calls.insert(call, (node, caller));
            state.out.push_back(Sent::Call { node, call, request });
        }
        self.port.sent.notify_one();
        let waiting = Waiting { port: &self.port, call };
        let answered = timeout(PATIENCE, answer).await;
        drop(waiting);
        match answered {
            Ok(Ok(Ok(reply))) => Ok(reply),
            Ok(Ok(Err(Failure::Refused))) => Err(Error::unavailable(SCHEME, what, "not connected")),
            Ok(_) => Err(Error::unknown(SCHEME, what, "the connection was cut")),
            Err(_) => Err(Error::unknown(SCHEME, what, "no answer")),
        }
    }
}

/// Forgets the call of somebody who no longer waits.
struct Waiting<'a> {
    port: &'a Port,
    call: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.port.lock().calls.remove(&self.call);
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.node)
    }
}

fn odd(what: &str) -> Error {
    Error::Config(format!("{what}: the answer to another request"))
}

#[async_trait]
impl Backend for Connection {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let sent = self.info.clock().now();
        let Reply::Attempt(answer) = self.call(Request::Attempt(claim.clone())).await? else {
            return Err(odd("acquire"));
        };
        Ok(match answer? {
            Attempt::Granted { fence, spare, .. } => {
                Attempt::Granted { fence, until: self.info.drift.until(sent, claim.lease), spare }
            }
            other => other,
        })
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        let (client, topic) = match interest {
            Interest::Claim(claim) => (claim.id.client, Topic::Admissions),
            Interest::Count(client, _) => (client, Topic::Count),
            Interest::Holder(client) => (client, Topic::Holder),
        };
        // Before it is asked for: a signal may overtake the answer.
        let (call, signals) = (self.port.number(), Arc::new(Signals::default()));
        self.port.lock().watches.insert(call, (self.node, signals.clone()));
        let watch = Subscription { port: self.port.clone(), node: self.node, call, signals };
        match self.call_as(call, Request::Watch(name.clone(), client, topic)).await? {
            Reply::Watch(opened) => opened.map(|()| -> Box<dyn Watch> { Box::new(watch) }),
            _ => Err(odd("watch")),
        }
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let sent = self.info.clock().now();
        let Reply::Renew(answers) = self.call(Request::Renew(claims.to_vec())).await? else {
            return Err(odd("renew"));
        };
        let each = claims.iter().zip(answers?).map(|(claim, answer)| match answer {
            Renewal::Held { .. } => Renewal::Held { until: self.info.drift.until(sent, claim.lease) },
            other => other,
        });
        Ok(each.collect())
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        match self.call(Request::Release(claim.clone(), left)).await? {
            Reply::Release(answer) => answer,
            _ => Err(odd("release")),
        }
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        match self.call(Request::Count(name.clone(), counter, op, id)).await? {
            Reply::Count(answer) => answer,
            _ => Err(odd("count")),
        }
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

#[async_trait]
impl Admin for Connection {
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>> {
        let Query::Name(name) = query else { return Ok(Vec::new()) };
        match self.call(Request::Inspect(name)).await? {
            Reply::Inspect(seen) => Ok(seen.into_iter().collect()),
            _ => Err(odd("inspect")),
        }
    }
}

struct Subscription {
    port: Arc<Port>,
    node: usize,
    call: u64,
    signals: Arc<Signals>,
}

#[async_trait]
impl Watch for Subscription {
    async fn signal(&mut self) -> Signal {
        loop {
            let signal = self.signals.pending.lock().unwrap_or_else(|e| e.into_inner()).take();
            match signal {
                Some(signal) => return signal,
                None => self.signals.notify.notified().await,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.port.lock();
        state.watches.remove(&self.call);
        state.out.push_back(Sent::Unwatch { node: self.node, call: self.call });
    }
}
