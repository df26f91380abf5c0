//! A simulated node with its own clock, memory and network. It can stop, lose its data, be late, and get messages
//! twice.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use tenure_core::backend::{
    Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Released, Renewal, Signal, Watch,
};
use tenure_core::{Claim, Clock, Environment, Error, Family, HoldId, Name, OpId, Result, Time};

/// The delivery of a message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    pub(super) there: Duration,
    pub(super) back: Duration,
    pub(super) request_lost: bool,
    pub(super) reply_lost: bool,
    pub(super) again: Option<Duration>,
}

/// The server, shared by all clients connected to it.
#[derive(Debug)]
pub(super) struct Server {
    clock: Clock,
    restart_delay: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    holder: Option<(HoldId, Time)>,
    restarted_at: Option<Time>,
    /// Counts restarts: what was sent before one does not arrive after it.
    incarnation: u64,
    stopped_until: Option<Instant>,
}

impl Server {
    /// A server that has always been up.
    pub(super) fn new(rate: f64, restart_delay: Duration) -> Arc<Self> {
        let state = State { holder: None, restarted_at: None, incarnation: 0, stopped_until: None };
        Arc::new(Self { clock: Clock::simulated(rate), restart_delay, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn restart_empty(&self) {
        let mut state = self.lock();
        state.holder = None;
        state.restarted_at = Some(self.clock.now());
        state.incarnation += 1;
    }

    pub(super) fn stop_for(&self, time: Duration) {
        self.lock().stopped_until = Some(Instant::now() + time);
    }

    async fn wait_while_stopped(&self) {
        let until = self.lock().stopped_until;
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    fn holder(&self) -> Option<HoldId> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.holder.take_if(|(_, until)| *until <= now);
        state.holder.map(|(id, _)| id)
    }

    fn check_restart_delay(&self) -> Result<()> {
        let Some(restarted_at) = self.lock().restarted_at else { return Ok(()) };
        let age = self.clock.now().since(restarted_at);
        match self.restart_delay.checked_sub(age) {
            Some(left) if !left.is_zero() => {
                let restarted = Error::unavailable("simulated", "acquire", format!("restarted {age:?} ago"));
                Err(restarted.ready_after(Some(left)))
            }
            _ => Ok(()),
        }
    }

    fn extend(&self, id: HoldId, lease: Duration) {
        let until = self.clock.now().after(lease);
        let mut state = self.lock();
        let until = state.holder.map_or(until, |(_, old)| old.max(until));
        state.holder = Some((id, until));
    }

    fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        self.check_restart_delay()?;
        match self.holder() {
            Some(id) if id != claim.id => {
                Ok(Attempt::Busy { retry_after: None, behind: None, position: None })
            }
            None if claim.holds > 1 => Ok(Attempt::Gone),
            _ => {
                self.extend(claim.id, claim.lease);
                Ok(Attempt::Granted { fence: None, until: Time::MAX, spare: 0 })
            }
        }
    }

    fn renewal(&self, claim: &Claim) -> Result<Renewal> {
        self.check_restart_delay()?;
        if self.holder() != Some(claim.id) {
            return Ok(Renewal::Gone);
        }
        self.extend(claim.id, claim.lease);
        Ok(Renewal::Held { until: Time::MAX })
    }

    fn release(&self, claim: &Claim) -> Released {
        if self.holder() != Some(claim.id) {
            return Released::Gone;
        }
        self.lock().holder = None;
        Released::Freed
    }
}

type Plan = Arc<dyn Fn() -> Delivery + Send + Sync>;

/// The connection of one client to a server.
pub(super) struct Connection {
    server: Arc<Server>,
    info: Info,
    plan: Plan,
    /// Attempts in flight, by id.
    in_flight: Arc<Mutex<HashMap<HoldId, u32>>>,
}

impl Connection {
    pub(super) fn new(
        server: &Arc<Server>,
        environment: Environment,
        plan: impl Fn() -> Delivery + Send + Sync + 'static,
    ) -> Self {
        let mut info = Info::new("simulated", environment);
        info.families = &[Family::Lock];
        Self { server: server.clone(), info, plan: Arc::new(plan), in_flight: Arc::default() }
    }

    /// Sends a request. It arrives whether or not anybody waits for the answer.
    fn send<R: Send + 'static, E: Fn(&Server) -> Result<R> + Send + 'static>(
        &self,
        attempt: Option<HoldId>,
        effect: E,
    ) -> impl Future<Output = Result<R>> + Send + use<R, E> {
        let (delivery, server, in_flight) = ((self.plan)(), self.server.clone(), self.in_flight.clone());
        let incarnation = server.lock().incarnation;
        if let Some(id) = attempt {
            *in_flight.lock().unwrap().entry(id).or_default() += 1;
        }
        let (reply, answer) = oneshot::channel();
        let arrived = move |in_flight: &Mutex<HashMap<HoldId, u32>>| {
            let mut in_flight = in_flight.lock().unwrap();
            if let Some(id) = attempt
                && let Some(n) = in_flight.get_mut(&id)
            {
                *n -= 1;
                if *n == 0 {
                    in_flight.remove(&id);
                }
            }
        };
        tokio::spawn(async move {
            sleep(delivery.there).await;
            server.wait_while_stopped().await;
            if delivery.request_lost || server.lock().incarnation != incarnation {
                return arrived(&in_flight);
            }
            let answer = effect(&server);
            if delivery.again.is_none() {
                arrived(&in_flight);
            }
            if !delivery.reply_lost {
                sleep(delivery.back).await;
                let _ = reply.send(answer);
            }
            if let Some(later) = delivery.again {
                sleep(later).await;
                server.wait_while_stopped().await;
                if server.lock().incarnation == incarnation {
                    let _ = effect(&server);
                }
                arrived(&in_flight);
            }
        });
        async move {
            let unknown = || Error::unknown("simulated", "call", "lost");
            match tokio::time::timeout(Duration::from_millis(500), answer).await {
                Ok(Ok(answer)) => answer,
                _ => Err(unknown()),
            }
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}

#[async_trait]
impl Backend for Connection {
    fn info(&self) -> &Info {
        &self.info
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let asked = claim.clone();
        self.send(Some(claim.id), move |server| server.attempt(&asked)).await
    }

    async fn watch(&self, _name: &Name, _interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        struct NeverSignals;
        #[async_trait]
        impl Watch for NeverSignals {
            async fn signal(&mut self) -> Signal {
                std::future::pending().await
            }
        }
        Ok(Box::new(NeverSignals))
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let claims = claims.to_vec();
        self.send(None, move |server| claims.iter().map(|claim| server.renewal(claim)).collect()).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        if left > 0 {
            return Ok(Released::Freed);
        }
        let (asked, in_flight) = (claim.clone(), self.in_flight.clone());
        let what = move |server: &Server| {
            let released = server.release(&asked);
            // An attempt is still in flight: finding nothing proves nothing.
            if released == Released::Gone && in_flight.lock().unwrap().contains_key(&asked.id) {
                let (what, reason) = ("release", "its attempt may still arrive");
                return Err(Error::unknown("simulated", what, reason));
            }
            Ok(released)
        };
        self.send(None, what).await
    }

    async fn count(&self, _: &Name, _: Counter, _: CountOp, _: OpId) -> Result<CountReply> {
        unreachable!("locks only")
    }
}
