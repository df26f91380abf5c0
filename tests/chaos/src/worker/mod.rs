//! A process of clients: it opens its clients, lets its tasks and threads work until it is told to stop, and writes down
//! what they called and what was answered.
//!
//! Its standard input takes one command per line: `block MS` blocks its runtimes for a while, `drain` lets it end.

mod answers;
mod api;
mod choice;
mod latches;
mod observer;
mod peer;
mod task;
mod threads;

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use checker::{Class, Inspected, Phase, Store, Target, What};
use serde::{Deserialize, Serialize};
use tenure::{Client, Memory, Settings};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::beat;
use crate::clock::now;
use crate::kinds::Use;
use crate::log::Log;
use api::{Async, Blocking};
use task::Task;

/// How clients are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Style {
    /// Tasks on a runtime of several threads.
    Tasks,
    /// Tasks on a runtime of one thread.
    Single,
    /// Threads that block.
    Threads,
    /// Another library.
    Peer,
}

/// What a worker process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The number of the process in the history.
    pub(crate) number: u32,
    pub(crate) seed: u64,
    /// The address of the store; none is memory.
    pub(crate) url: Option<String>,
    pub(crate) styles: Vec<Style>,
    /// How many tasks or threads each style has.
    pub(crate) tasks: u32,
    pub(crate) store: Store,
    pub(crate) uses: Vec<Use>,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    /// For histories, and for registers.
    pub(crate) folder: PathBuf,
    pub(crate) registers: PathBuf,
    /// How long to wait at the end before the names are inspected, where nobody else can.
    pub(crate) settle: Duration,
}

impl Orders {
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.lease = self.lease;
        settings.poll = Some(self.poll);
        settings.call_timeout = Duration::from_secs(2);
        settings.outage = Duration::from_secs(20);
        settings.close_timeout = Duration::from_secs(10);
        settings
    }
}

/// How many clients the tasks of one style share.
const CLIENTS: usize = 2;

/// The main function of a worker.
pub(crate) fn main(orders: &str) -> ExitCode {
    let orders: Orders = serde_json::from_str(orders).expect("orders");
    let log = Arc::new(Log::create(&orders.folder, orders.number).expect("a history"));
    let panicked = log.clone();
    std::panic::set_hook(Box::new(move |info| {
        eprintln!("{info}");
        panicked.write(now(), What::Panicked { message: info.to_string() });
    }));
    beat::start(log.clone(), Class::ClientPaused, Target::Process(orders.number));
    let memory = Arc::new(Memory::new());
    // One that nobody uses beside another library: what it would leave is seen, too.
    let clients: Vec<Vec<Client>> =
        orders.styles.iter().map(|_| (0..CLIENTS).map(|_| connect(&orders, &memory)).collect()).collect();
    let ids = clients.iter().flatten().map(|client| client.id().to_string()).collect();
    log.write(now(), What::Started { clients: ids });

    let orders = Arc::new(orders);
    let stop = Arc::new(AtomicBool::new(false));
    let runtimes: Vec<(Style, Runtime)> =
        orders.styles.iter().map(|style| (*style, runtime(*style))).collect();
    let blocked = runtimes.iter().filter(|(style, _)| *style != Style::Threads);
    let blocked: Vec<(Handle, usize)> =
        blocked.map(|(style, runtime)| (runtime.handle().clone(), threads_of(*style))).collect();
    listen(blocked, stop.clone(), log.clone(), orders.number);

    let mut threads = Vec::new();
    for ((style, runtime), clients) in runtimes.into_iter().zip(clients.clone()) {
        let tasks = (0..orders.tasks).map(|n| {
            let worker = style as u32 * 100 + n;
            let client = clients[n as usize % clients.len()].clone();
            (client, Task::new(worker, orders.clone(), log.clone(), stop.clone()))
        });
        match style {
            Style::Peer => {
                let peer = peer::start(&runtime, &orders);
                let tasks = tasks.map(|(_, task)| {
                    let thread = peer.thread(task.worker);
                    runtime.spawn(task.work(thread))
                });
                let tasks = tasks.collect();
                threads.push(std::thread::spawn(move || wait(&runtime, tasks)));
            }
            Style::Threads => threads.extend(tasks.map(|(client, task)| {
                std::thread::spawn(move || threads::run(task.work(Blocking::new(client))))
            })),
            Style::Tasks | Style::Single => {
                let mut spawned: Vec<_> =
                    tasks.map(|(client, task)| runtime.spawn(task.work(Async(client)))).collect();
                if orders.uses.contains(&Use::Leader) {
                    let observer =
                        observer::observe(clients[0].clone(), style as u32, log.clone(), stop.clone());
                    spawned.push(runtime.spawn(observer));
                }
                threads.push(std::thread::spawn(move || wait(&runtime, spawned)));
            }
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
    end(&orders, &log, clients.into_iter().flatten().collect());
    ExitCode::SUCCESS
}

fn wait(runtime: &Runtime, tasks: Vec<JoinHandle<()>>) {
    runtime.block_on(async {
        for task in tasks {
            // A panic is in the history.
            let _ = task.await;
        }
    });
}

/// Inspects the names, if nobody else can, and closes all clients.
fn end(orders: &Orders, log: &Log, clients: Vec<Client>) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if orders.url.is_none() {
            tokio::time::sleep(orders.settle).await;
            for shown in inspect(&clients[0], &orders.uses).await.expect("memory answers") {
                log.write(now(), What::Inspected(shown));
            }
        }
        log.write(now(), What::Exiting);
        for client in clients {
            if let Err(error) = client.close().await {
                eprintln!("closing {}: {error}", client.id());
            }
        }
    });
}

/// What the store shows of all names.
pub(crate) async fn inspect(client: &Client, uses: &[Use]) -> tenure::Result<Vec<Inspected>> {
    let mut all = Vec::new();
    for name in uses.iter().flat_map(|one| one.names()) {
        let Some(shown) = client.show(&name).await? else { continue };
        let holders = shown.holders.into_iter().map(|holder| holder.id).collect();
        let waiters = shown.waiters.into_iter().map(|waiter| waiter.id).collect();
        all.push(Inspected { name, holders, waiters });
    }
    Ok(all)
}

/// Opens a client; for as long as it takes, since a fault may be under way.
fn connect(orders: &Orders, memory: &Arc<Memory>) -> Client {
    let Some(url) = &orders.url else { return Client::with(memory.clone(), orders.settings()) };
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    loop {
        match runtime.block_on(tenure::connect_with(url, orders.settings())) {
            Ok(client) => return client,
            Err(error) => eprintln!("connecting: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn threads_of(style: Style) -> usize {
    if style == Style::Tasks { 2 } else { 1 }
}

fn runtime(style: Style) -> Runtime {
    let mut builder = match style {
        Style::Tasks => Builder::new_multi_thread(),
        Style::Single | Style::Threads | Style::Peer => Builder::new_current_thread(),
    };
    builder.worker_threads(threads_of(style)).enable_all().build().expect("a runtime")
}

/// Obeys standard input, on a thread of its own. Ends the process when nobody is at the other end.
fn listen(runtimes: Vec<(Handle, usize)>, stop: Arc<AtomicBool>, log: Arc<Log>, number: u32) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.split_once(' ') {
                Some(("block", ms)) => {
                    let time = Duration::from_millis(ms.parse().expect("milliseconds"));
                    block(&runtimes, time, &log, number);
                }
                _ => stop.store(true, SeqCst),
            }
        }
        if !stop.load(SeqCst) {
            std::process::exit(1);
        }
    });
}

/// Blocks all threads of the runtimes for this time.
fn block(runtimes: &[(Handle, usize)], time: Duration, log: &Log, number: u32) {
    let fault = log.fault(Class::RuntimeBlocked, Target::Process(number));
    fault.is(Phase::Begin);
    let (done, all_done) = mpsc::channel::<()>();
    for (runtime, threads) in runtimes {
        for _ in 0..*threads {
            let done = done.clone();
            runtime.spawn(async move {
                std::thread::sleep(time);
                drop(done);
            });
        }
    }
    drop(done);
    // Nothing is sent: it waits until all are dropped, also by a runtime that ends.
    let _ = all_done.recv();
    fault.is(Phase::Healed);
}
