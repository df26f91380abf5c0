//! A client process: a runtime of its own with one thread and a clock that only the world moves. While it is not run, none
//! of its tasks goes on, and when it is dropped, all of them are gone, as after a kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use checker::What;
use fastrand::Rng;
use tenure_core::{Backend, Client, Clock, Environment, Settings};
use tenure_redlock::{Node, Quorum, QuorumOptions};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance, sleep_until};

use crate::connection::{Connection, Port};
use crate::journal::{Journal, Log};
use crate::plan::Plan;
use crate::task::Task;

/// The lease of holds that name none.
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// A client process.
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) port: Arc<Port>,
    /// How far it has come, in milliseconds.
    pub(crate) clock: u64,
    /// Until when it stands still.
    pub(crate) paused: Option<u64>,
    began: Instant,
    log: Arc<Log>,
    client: Client,
    /// The tasks that have not ended.
    working: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
    is_closing: bool,
    runtime: Runtime,
}

impl Process {
    /// Starts a process in the place `slot`, at this time.
    pub(crate) fn start(
        plan: &Plan,
        slot: usize,
        number: u32,
        at: u64,
        rng: &mut Rng,
        journal: &Arc<Journal>,
    ) -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let port = Arc::new(Port::default());
        let seed = rng.u64(..);
        let rate = plan.rates[plan.nodes + slot];
        let (began, client) = runtime.block_on(async {
            let began = Instant::now();
            let mut environment = Environment::simulated(seed);
            environment.clock = Clock::simulated(rate);
            // It counts from here.
            environment.clock.now();
            advance(Duration::from_millis(at)).await;
            let backend = backend(plan, &port, &environment);
            let mut settings = Settings::default();
            settings.lease = LEASE;
            settings.poll = Some(Duration::from_millis(plan.poll()));
            settings.local_handover = (plan.handover > 0).then(|| Duration::from_millis(plan.handover));
            settings.call_timeout = Duration::from_secs(1);
            settings.outage = Duration::from_secs(3);
            settings.close_timeout = Duration::from_secs(10);
            (began, Client::with(backend, settings))
        });
        let log = Arc::new(Log::new(journal.clone(), number, began));
        let working = Arc::new(AtomicUsize::new(plan.tasks as usize));
        let _entered = runtime.enter();
        log.write(What::Started { clients: vec![client.id().to_string()] });
        for worker in 0..plan.tasks {
            let task = Task {
                worker,
                client: client.clone(),
                log: log.clone(),
                rng: Rng::with_seed(rng.u64(..)),
                uses: plan.uses.clone(),
                may_leave: !plan.is_calm(),
                until: plan.active * 1_000_000,
            };
            let working = working.clone();
            runtime.spawn(async move {
                task.work().await;
                working.fetch_sub(1, SeqCst);
            });
        }
        drop(_entered);
        Self {
            number,
            port,
            clock: at,
            paused: None,
            began,
            log,
            client,
            working,
            closed: Arc::default(),
            is_closing: false,
            runtime,
        }
    }

    /// Runs it until this time, or until it sends something.
    pub(crate) fn run(&mut self, until: u64) {
        let end = self.began + Duration::from_millis(until);
        let port = &self.port;
        let now = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = port.sent.notified() => {}
                () = sleep_until(end) => {}
            }
            Instant::now()
        });
        self.clock = (now - self.began).as_millis() as u64;
    }

    /// Ends a pause: its clock is where that of the world is, and nothing of it has run meanwhile.
    pub(crate) fn resume(&mut self, at: u64) {
        self.paused = None;
        let by = Duration::from_millis(at.saturating_sub(self.clock));
        self.runtime.block_on(advance(by));
        self.clock = self.clock.max(at);
    }

    /// Whether all of its tasks have ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.working.load(SeqCst) == 0
    }

    /// Closes its client, once.
    pub(crate) fn close(&mut self) {
        if std::mem::replace(&mut self.is_closing, true) {
            return;
        }
        let (client, log, closed) = (self.client.clone(), self.log.clone(), self.closed.clone());
        self.runtime.spawn(async move {
            log.write(What::Exiting);
            let _ = client.close().await;
            closed.store(1, SeqCst);
        });
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst) == 1
    }
}

fn backend(plan: &Plan, port: &Arc<Port>, environment: &Environment) -> Arc<dyn Backend> {
    let (nodes, poll) = (plan.nodes, Duration::from_millis(plan.poll()));
    let connect = |node| Connection::new(port.clone(), node, environment.clone(), poll);
    if nodes == 1 {
        return Arc::new(connect(0));
    }
    let each = (0..nodes).map(|node| Node { name: node.to_string(), backend: Arc::new(connect(node)) });
    let mut options = QuorumOptions::default();
    options.max_lease = LEASE;
    options.retry_delay = Duration::from_millis(5)..=Duration::from_millis(25);
    Arc::new(Quorum::new(each.collect(), options).expect("a quorum"))
}
