//! One run on one store: its servers and workers, the phases in which they work, and the history that they leave.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use checker::{Class, History, Run, Store, Target, What};
use testbed::{PATIENCE, Program};

use crate::clock::now;
use crate::deploy::{Deployment, POLL, RESTART_DELAY, SLACK};
use crate::fault::Fault;
use crate::inject::{inject, text};
use crate::kinds::Use;
use crate::log::Log;
use crate::options::Options;
use crate::plan::{Deck, Plan};
use crate::progress::Status;
use crate::queue::Watcher;
use crate::wall::Wall;
use crate::worker::{self, Orders, Style};
use crate::{beat, plant, queue, register};

/// The longest time from one calm phase to the next.
const ROUND: Duration = Duration::from_secs(40);

/// A worker process.
pub(crate) struct Worker {
    pub(crate) number: u32,
    pub(crate) program: Program,
    pub(crate) wall: Wall,
}

/// One run on one store.
pub(crate) struct Cell {
    pub(crate) store: Store,
    seed: u64,
    uses: Vec<Use>,
    pub(crate) deployment: Deployment,
    pub(crate) log: Arc<Log>,
    workers: Vec<Mutex<Arc<Worker>>>,
    next: AtomicU32,
    folder: PathBuf,
}

/// What a run leaves.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The history.
    pub(crate) folder: PathBuf,
    pub(crate) faults: Vec<Fault>,
    /// What is wrong besides what the history shows.
    pub(crate) wrong: Vec<String>,
}

fn styles(store: Store) -> Vec<Vec<Style>> {
    match store {
        Store::Memory => vec![vec![Style::Tasks, Style::Threads, Style::Single]],
        Store::Redis | Store::RedisPlain | Store::Zookeeper => {
            vec![vec![Style::Tasks], vec![Style::Threads], vec![Style::Single], vec![Style::Peer]]
        }
        _ => vec![vec![Style::Tasks], vec![Style::Threads], vec![Style::Single]],
    }
}

/// How many tasks or threads each style has.
const TASKS: u32 = 6;

impl Cell {
    /// Runs a store, from the start of its servers to what is left in it.
    ///
    /// # Errors
    /// When it could not be run as planned.
    pub(crate) fn run(store: Store, options: &Options, status: &Status) -> Result<Ran, String> {
        status.say("starts");
        let uses: Vec<Use> =
            Use::on(store).iter().copied().filter(|one| options.uses.contains(one)).collect();
        if uses.is_empty() {
            return Err(format!("{store} supports none of these kinds"));
        }
        let folder = options.folder(store);
        std::fs::create_dir_all(folder.join("raw")).map_err(text)?;
        let log = Arc::new(Log::create(&folder, 0).map_err(text)?);
        let (seed, nodes, slots) =
            (options.seed, Deployment::nodes_of(store, options.seed), styles(store).len());
        let mut rng = fastrand::Rng::with_seed(seed ^ (store as u64) << 32);
        let rounds = (options.time.as_secs_f64() / ROUND.as_secs_f64()).ceil().max(1.0) as u32;
        let round = options.time / rounds;
        let back = seed % 2 == 0;
        let deck = Deck { store, nodes, slots, back, strict: options.plant, only: options.faults.clone() };
        let plans: Vec<Plan> = (0..rounds).map(|_| deck.draw(&mut rng, round.mul_f64(0.55))).collect();
        let said: Vec<String> = plans.iter().map(Plan::to_string).collect();
        let timing = Deployment::timing(store);
        log.write(now(), What::Run(Run { store, nodes, seed, plan: said.join(" | "), timing }));
        beat::start(log.clone(), Class::ServerPaused, Target::Store);

        let deployment = Deployment::start(store, nodes, slots, seed).map_err(text)?;
        let next = AtomicU32::new(1);
        let mut cell = Self { store, seed, uses, deployment, log, workers: Vec::new(), next, folder };
        if store == Store::Redlock {
            // Nothing can be granted before.
            std::thread::sleep(RESTART_DELAY);
        }
        for slot in 0..slots {
            let worker = cell.start(slot)?;
            cell.workers.push(Mutex::new(Arc::new(worker)));
        }
        cell.wait_for_workers()?;
        let watcher = cell.deployment.url(None).map(|url| Watcher::start(url, &cell.uses));
        let plant = options.plant.then(|| plant::start(&cell)).transpose()?;
        for plan in &plans {
            status.say("calm");
            std::thread::sleep(round.mul_f64(0.2));
            cell.cause(plan, status)?;
            status.say("healed");
            std::thread::sleep(round.mul_f64(0.25));
        }
        drop(plant);
        status.say("drains");
        let wrong = cell.drain()?;
        let seen = watcher.map(Watcher::seen).unwrap_or_default();
        status.say("is inspected");
        cell.inspect()?;
        cell.complete(&seen)?;
        let faults = plans.into_iter().flat_map(|plan| plan.lanes).flatten().map(|planned| planned.fault);
        Ok(Ran { folder: cell.folder, faults: faults.collect(), wrong })
    }

    /// The worker in this slot.
    pub(crate) fn worker(&self, slot: usize) -> Arc<Worker> {
        self.workers[slot].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills the worker in this slot, and calls `killed` before another one is started.
    pub(crate) fn replace(&self, slot: usize, killed: impl FnOnce()) -> Result<(), String> {
        self.end(&self.worker(slot))?;
        killed();
        let worker = Arc::new(self.start(slot)?);
        *self.workers[slot].lock().unwrap_or_else(PoisonError::into_inner) = worker;
        Ok(())
    }

    /// Starts a worker for this slot.
    fn start(&self, slot: usize) -> Result<Worker, String> {
        let number = self.next.fetch_add(1, SeqCst);
        let raw = self.folder.join("raw");
        let orders = Orders {
            number,
            seed: self.seed,
            url: self.deployment.url(Some(slot)),
            styles: styles(self.store)[slot].clone(),
            tasks: TASKS,
            store: self.store,
            uses: self.uses.clone(),
            lease: Deployment::lease(self.store),
            poll: POLL,
            folder: self.folder.clone(),
            registers: raw.clone(),
            settle: Deployment::lease(self.store) + SLACK,
        };
        let orders = serde_json::to_string(&orders).map_err(text)?;
        let program = std::env::current_exe().map_err(text)?;
        let wall = Wall::create().map_err(text)?;
        let mut words: Vec<OsString> = vec!["env".into()];
        words.extend(wall.environment());
        words.extend([program.into(), "--worker".into(), orders.into()]);
        let log = File::create(raw.join(format!("{number:05}.log"))).map_err(text)?;
        let program = Program::start(&words, &raw, &log).map_err(text)?;
        Ok(Worker { number, program, wall })
    }

    /// Kills a worker.
    fn end(&self, worker: &Worker) -> Result<(), String> {
        worker.program.kill().map_err(text)?;
        self.log.write_of(worker.number, now(), What::Killed);
        Ok(())
    }

    fn wait_for_workers(&self) -> Result<(), String> {
        testbed::eventually("all workers have begun", PATIENCE, || {
            let begun = |slot: usize| {
                let number = self.worker(slot).number;
                let history = std::fs::read_to_string(self.folder.join(format!("{number:05}.jsonl")));
                history.is_ok_and(|text| text.contains("\"started\""))
            };
            (0..self.workers.len()).all(begun).then_some(())
        })
        .map_err(text)
    }

    /// Causes all faults of a plan, and returns when they are healed.
    fn cause(&self, plan: &Plan, status: &Status) -> Result<(), String> {
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let lane = |lane| {
                move || {
                    for planned in lane {
                        let planned: &crate::plan::Planned = planned;
                        std::thread::sleep((begin + planned.at).saturating_duration_since(Instant::now()));
                        status.say(&planned.fault.to_string());
                        inject(self, &planned.fault).map_err(|e| format!("{}: {e}", planned.fault))?;
                    }
                    Ok(())
                }
            };
            let lanes: Vec<_> = plan.lanes.iter().map(|planned| scope.spawn(lane(planned))).collect();
            lanes.into_iter().try_for_each(|lane| lane.join().map_err(|_| "a fault panicked".to_owned())?)
        })
    }

    /// Lets all workers end. One that does not is killed, and said to be wrong.
    fn drain(&self) -> Result<Vec<String>, String> {
        let mut wrong = Vec::new();
        let workers: Vec<_> = (0..self.workers.len()).map(|slot| self.worker(slot)).collect();
        for worker in &workers {
            // One that has ended already is found below.
            let _ = worker.program.tell("drain");
        }
        for worker in &workers {
            let ended =
                testbed::eventually("a worker ends", PATIENCE, || worker.program.ended().ok().flatten());
            match ended {
                Ok(status) if status.success() => {}
                Ok(status) => wrong.push(format!("process {} ended with {status}", worker.number)),
                Err(error) => {
                    wrong.push(format!("process {}: {error}", worker.number));
                    self.end(worker)?;
                }
            }
        }
        Ok(wrong)
    }

    /// Waits until nothing is left in the store, or nothing may be, and notes what it shows.
    fn inspect(&self) -> Result<(), String> {
        let Some(url) = self.deployment.url(None) else { return Ok(()) };
        let timing = Deployment::timing(self.store);
        let wait = Duration::from_nanos(timing.lease + timing.slack) + Duration::from_secs(1);
        let end = Instant::now() + wait;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
        let shown = runtime.block_on(async {
            let client = loop {
                match tenure::connect(&url).await {
                    Err(error) if error.is_transient() && Instant::now() < end + PATIENCE => {}
                    client => break client.map_err(text)?,
                }
            };
            loop {
                let at = now();
                let is_last = Instant::now() >= end;
                match worker::inspect(&client, &self.uses).await {
                    Ok(shown) => {
                        let is_empty =
                            shown.iter().all(|name| name.holders.is_empty() && name.waiters.is_empty());
                        if is_empty || is_last {
                            let _ = client.close().await;
                            return Ok((at, shown));
                        }
                    }
                    Err(error) if Instant::now() > end + PATIENCE => return Err(text(error)),
                    Err(_) => {}
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        let (at, shown) = shown?;
        shown.into_iter().for_each(|name| self.log.write(at, What::Inspected(name)));
        Ok(())
    }

    /// Writes what nobody could write while it happened: the accesses to registers, and who stood in the queue.
    fn complete(&self, seen: &HashMap<String, u64>) -> Result<(), String> {
        let raw = self.folder.join("raw");
        let mut all = queue::events(&read(&self.folder)?, seen);
        for name in self.uses.iter().flat_map(|one| one.names()) {
            all.extend(register::events(&raw, &name).map_err(text)?);
        }
        let file = File::create(self.folder.join("found.jsonl")).map_err(text)?;
        History::new(all).write(BufWriter::new(file)).map_err(text)
    }

    pub(crate) fn uses(&self) -> &[Use] {
        &self.uses
    }
}

/// The events of all files of a folder.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn read(folder: &Path) -> Result<History, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", folder.display());
    let mut files: Vec<_> =
        folder.read_dir().map_err(|e| failed(&e))?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read(&file).map_err(|e| failed(&e))?;
        let mut history = History::default();
        history.read(&*text).map_err(|e| format!("{}: {e}", file.display()))?;
        all.extend(history.events().iter().cloned());
    }
    Ok(History::new(all))
}
