//! What a child does: a scenario on a store whose server its parent has, and what it has used for that.

mod clients;
mod connects;
mod names;
mod waiters;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tenure::backend::Backend;
use tenure::{Client, Result, Settings};

use crate::options::Scenario;
use crate::question::{Line, ask, tell};
use crate::store::Store;
use crate::usage::{Usage, raise_limit_of_descriptors};
use crate::{allocated, bounds, gauges};

/// What a child shall do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) scenario: Scenario,
    pub(crate) store: Store,
    pub(crate) url: String,
    pub(crate) number: u64,
    pub(crate) lease: Duration,
}

/// A number that the child found, by its name in the table of bounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: f64,
}

pub(crate) fn figure(what: &str, value: impl Into<f64>) -> Figure {
    Figure { what: what.to_owned(), value: value.into() }
}

pub(crate) fn main(order: &Order) -> ExitCode {
    raise_limit_of_descriptors();
    gauges::install();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.expect("a runtime").block_on(run(order)) {
        Ok(figures) => {
            tell(&Line::Figures(figures));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{} on {}: {error}", order.scenario, order.store);
            ExitCode::FAILURE
        }
    }
}

async fn run(order: &Order) -> Result<Vec<Figure>> {
    let stage = Stage::set(order).await?;
    let mut figures = match order.scenario {
        Scenario::Waiters => waiters::run(&stage, false).await?,
        Scenario::Fair => waiters::run(&stage, true).await?,
        Scenario::Names => names::run(&stage).await?,
        Scenario::Connects => connects::run(&stage).await?,
        Scenario::Clients => clients::run(&stage).await?,
    };
    figures.extend(stage.strike().await?);
    Ok(figures)
}

/// The store, and what the process used before the scenario.
pub(crate) struct Stage {
    number: u64,
    lease: Duration,
    url: String,
    /// The one that all clients share, where it lives in this process.
    memory: Option<Arc<dyn Backend>>,
    before: Usage,
    connections: u64,
    sessions: u64,
}

impl Stage {
    /// Opens the store, and uses it once with two clients, so that whatever exists once per process exists.
    async fn set(order: &Order) -> Result<Self> {
        let memory = match order.store {
            Store::Memory => Some(tenure::open(&order.url).await?),
            _ => None,
        };
        let mut stage = Self {
            number: order.number,
            lease: order.lease,
            url: order.url.clone(),
            memory,
            before: Usage::now(),
            connections: 0,
            sessions: 0,
        };
        let (one, two) = (stage.client().await?, stage.client().await?);
        let held = one.lock("warm").acquire().await?;
        let waits = {
            let lock = two.lock("warm");
            tokio::spawn(async move { lock.acquire().await?.release().await })
        };
        reach("a waiter", 1, gauges::waiting).await;
        held.release().await?;
        waits.await.expect("no panic")?;
        one.close().await?;
        two.close().await?;
        drop((one, two));
        stage.before = Usage::at_rest().await;
        // Those of the warm-up are closed, which the server may not have noticed yet.
        let _ = settled(|| ask(&Line::Connections), stage.before_any()).await;
        stage.connections = ask(&Line::Connections);
        stage.sessions = ask(&Line::Sessions);
        Ok(stage)
    }

    /// The connections of a server without clients: the one that asks.
    fn before_any(&self) -> u64 {
        u64::from(self.url.starts_with("redis") || self.url.starts_with("zookeeper"))
    }

    /// A new client.
    async fn client(&self) -> Result<Client> {
        client_of(&self.memory, &self.url, self.lease).await
    }

    /// What is used now, beyond what was used before.
    fn used(&self, now: Usage, clients: u64) -> Vec<Figure> {
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / clients as f64;
        let connections: u64 = ask(&Line::Connections);
        vec![
            figure(bounds::THREADS, each(now.threads, self.before.threads)),
            figure(bounds::DESCRIPTORS, each(now.descriptors, self.before.descriptors)),
            figure(bounds::CONNECTIONS, each(connections, self.connections)),
        ]
    }

    /// The memory in KiB that each needed, at most.
    fn memory_of_each(&self, now: Usage) -> Figure {
        let bytes = now.peak.saturating_sub(self.before.memory);
        figure(bounds::MEMORY, bytes as f64 / 1024.0 / self.number as f64)
    }

    fn each_of(&self, allocated: u64) -> f64 {
        allocated.saturating_sub(self.before.allocated) as f64 / self.number as f64
    }

    /// What is allocated for each.
    fn allocated_for_each(&self) -> Figure {
        figure(bounds::ALLOCATED, self.each_of(allocated::now()))
    }

    /// The most that was allocated for each since [`allocated::peak`] was called.
    fn allocated_for_each_at_most(&self) -> Figure {
        figure(bounds::ALLOCATED_AT_MOST, self.each_of(allocated::peak()))
    }

    /// Looks for what is left when all clients are closed.
    async fn strike(self) -> Result<Vec<Figure>> {
        let looks = self.client().await?;
        let listed = looks.list_all("", 10).await?;
        for found in &listed {
            eprintln!("left: {found:?}");
        }
        looks.close().await?;
        drop(looks);
        let after = Usage::return_to(self.before).await;
        let connections = settled(|| ask(&Line::Connections), self.connections).await;
        let sessions = settled(|| ask(&Line::Sessions), self.sessions).await;
        let left = settled(|| ask::<Vec<String>>(&Line::Left), Vec::new()).await;
        for found in &left {
            eprintln!("left: {found}");
        }
        let more = |after: u64, before: u64| after.saturating_sub(before) as f64;
        Ok(vec![
            figure(bounds::THREADS_LEFT, more(after.threads, self.before.threads)),
            figure(bounds::DESCRIPTORS_LEFT, more(after.descriptors, self.before.descriptors)),
            figure(bounds::CONNECTIONS_LEFT, more(connections, self.connections)),
            figure(bounds::SESSIONS_LEFT, more(sessions, self.sessions)),
            figure(bounds::LEFT, (listed.len() + left.len()) as f64),
        ])
    }
}

/// A new client of the store in this process, or of the one at this address.
async fn client_of(memory: &Option<Arc<dyn Backend>>, url: &str, lease: Duration) -> Result<Client> {
    let Some(memory) = memory else { return tenure::connect(url).await };
    let mut settings = Settings::default();
    settings.lease = lease;
    Ok(Client::with(memory.clone(), settings))
}

/// Waits until a count has reached its goal, for as long as it grows.
pub(crate) async fn reach(what: &str, goal: u64, count: impl Fn() -> u64) {
    let (mut best, mut since) = (count(), Instant::now());
    while best < goal {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = count();
        if now > best {
            (best, since) = (now, Instant::now());
        }
        assert!(since.elapsed() < testbed::patience(), "{what}: {best} of {goal}, and no more");
    }
}

/// Asks until the answer is the wanted one, for as long as one is patient, and returns the last answer.
async fn settled<T: PartialEq>(ask: impl Fn() -> T, wanted: T) -> T {
    let since = Instant::now();
    loop {
        let answer = ask();
        if answer == wanted || since.elapsed() > testbed::patience() {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Calls `work` for each number below `n`, some at a time, and returns what it returned.
pub(crate) async fn at_once<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
    n: u64,
    tasks: u64,
    work: impl Fn(u64) -> F + Clone + Send + 'static,
) -> Result<Vec<T>> {
    let next = Arc::new(AtomicU64::new(0));
    let mut running = Vec::new();
    for _ in 0..tasks.min(n) {
        let (next, work) = (next.clone(), work.clone());
        running.push(tokio::spawn(async move {
            let mut done = Vec::new();
            loop {
                let i = next.fetch_add(1, SeqCst);
                if i >= n {
                    return Ok::<_, tenure::Error>(done);
                }
                done.push(work(i).await?);
            }
        }));
    }
    let mut all = Vec::new();
    for task in running {
        all.extend(task.await.expect("no panic")?);
    }
    Ok(all)
}
