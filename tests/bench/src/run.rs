//! A run: all workloads that were asked for, with rounds of all sides in turn.
//!
//! Within a round every side works once, one after the other, so that a slow moment of the machine affects all alike.
//! Processes live through all workloads, and are warmed up before each.

use std::time::Duration;

use interop::Peer;

use crate::Result;
use crate::bars::{COMMANDS, P50, P99, P99_OF_A_TASK, POOREST, RATE};
use crate::embedded;
use crate::growth;
use crate::held;
use crate::progress::{PARTS, Progress};
use crate::samples::Samples;
use crate::servers::{Servers, Store};
use crate::sides::Side;
use crate::stats::{Waits, percentile};
use crate::waiters;
use crate::workloads::{WORKLOADS, Workload};

/// How long code that is compiled while it runs is warmed up.
const WARM_UP: Duration = Duration::from_secs(2);

/// What to run, and how thoroughly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Workloads, or what their names begin with; all if there are none.
    pub(crate) only: Vec<String>,
    /// One tiny round of each: for errors only.
    pub(crate) quick: bool,
}

impl Plan {
    /// `W3` means `W3` and `W3 anything`, but not `W3b`.
    pub(crate) fn wants(&self, workload: &str) -> bool {
        let is = |only: &String| {
            workload.strip_prefix(&**only).is_some_and(|r| r.is_empty() || r.starts_with(' '))
        };
        self.only.is_empty() || self.only.iter().any(is)
    }

    /// Refuses what nothing is called.
    pub(crate) fn check(&self) -> Result<()> {
        let names = || WORKLOADS.iter().map(|workload| workload.name).chain(PARTS.iter().map(|part| part.0));
        for only in &self.only {
            let plan = Self { only: vec![only.clone()], quick: false };
            if !names().any(|name| plan.wants(name)) {
                let all: Vec<&str> = names().collect();
                return Err(format!("there is no `{only}` to measure; there are {}", all.join(", ")).into());
            }
        }
        Ok(())
    }

    fn rounds(&self, workload: &Workload) -> usize {
        if self.quick { 1 } else { workload.rounds }
    }

    fn time(&self, workload: &Workload) -> Duration {
        Duration::from_millis(if self.quick { 50 } else { workload.millis })
    }

    fn planned(&self, workload: &Workload) -> Duration {
        let sides = workload.sides.iter().filter(|side| side.is_known()).count();
        self.time(workload) * (sides * (self.rounds(workload) + 1)) as u32
    }
}

/// A run under way.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) samples: Samples,
    pub(crate) progress: Progress,
}

impl Run {
    pub(crate) fn new(plan: Plan) -> Self {
        let workloads = WORKLOADS.iter().filter(|workload| plan.wants(workload.name));
        let planned = workloads.map(|workload| plan.planned(workload)).sum();
        let progress = Progress::new(planned, |part| plan.wants(part));
        Self { plan, samples: Samples::default(), progress }
    }

    pub(crate) async fn all(&mut self) -> Result<()> {
        for store in [Store::Redis, Store::Quorum, Store::ZooKeeper] {
            let wanted = |workload: &&Workload| workload.store == store && self.plan.wants(workload.name);
            let workloads: Vec<&Workload> = WORKLOADS.iter().filter(wanted).collect();
            if workloads.is_empty() {
                continue;
            }
            let servers = Servers::start(store)?;
            let mut pool = Pool { servers: &servers, started: Vec::new() };
            for workload in workloads {
                self.workload(&mut pool, workload).await?;
            }
        }
        held::all(self).await?;
        embedded::all(self).await?;
        waiters::all(self).await?;
        growth::all(self).await?;
        self.progress.end();
        Ok(())
    }

    async fn workload(&mut self, pool: &mut Pool<'_>, workload: &Workload) -> Result<()> {
        let time = self.plan.time(workload);
        let sides: Vec<Side> = workload.sides.iter().copied().filter(|side| side.is_known()).collect();
        for side in &sides {
            self.progress.at(workload.name, &format!("{}, warm-up", side.name));
            let long = if side.warms_up() && !self.plan.quick { WARM_UP } else { time };
            once(pool.of(*side, workload.processes).await?, workload, *side, long).await?;
            self.progress.add(time);
        }
        for round in 0..self.plan.rounds(workload) {
            for side in &sides {
                self.progress.at(workload.name, &format!("{}, round {}", side.name, round + 1));
                let servers = pool.servers;
                let before = servers.commands()?;
                let done = once(pool.of(*side, workload.processes).await?, workload, *side, time).await?;
                let commands = (servers.commands()? - before).all;
                let mut push = |measure, value| self.samples.push(workload.name, measure, side.name, value);
                let waits = done.waits();
                push(RATE, done.rate);
                if side.is_counted() {
                    push(COMMANDS, commands / waits.count() as f64);
                }
                push(P50, waits.percentile(0.5));
                push(P99, waits.percentile(0.99));
                if workload.tasks > 1 {
                    push(P99_OF_A_TASK, done.p99_of_a_task());
                    push(POOREST, done.poorest_of_richest());
                }
                self.samples.push_waits(workload.name, side.name, &waits);
                self.progress.add(time);
            }
        }
        Ok(())
    }
}

/// The processes of all sides, each started when it is first asked for.
struct Pool<'a> {
    servers: &'a Servers,
    started: Vec<(Side, Vec<Peer>)>,
}

impl Pool<'_> {
    /// So many processes of a side.
    async fn of(&mut self, side: Side, n: usize) -> Result<&[Peer]> {
        let at = match self.started.iter().position(|(known, _)| known.is_of(side)) {
            Some(at) => at,
            None => {
                self.started.push((side, Vec::new()));
                self.started.len() - 1
            }
        };
        let peers = &mut self.started[at].1;
        while peers.len() < n {
            peers.push(side.start(self.servers).await?);
        }
        Ok(&peers[..n])
    }
}

/// What all processes of a side did in a round.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Pairs a second.
    rate: f64,
    tasks: Vec<Waits>,
}

/// One round of one side.
async fn once(peers: &[Peer], workload: &Workload, side: Side, time: Duration) -> Result<Done> {
    let Workload { own, tasks, hold, pause, .. } = workload;
    let kind = side.locks.unwrap_or(workload.kind);
    // Readers share.
    let scope = if *own && kind != "read" { "own" } else { "shared" };
    // Nobody shares keys with another side.
    let name = format!("{}-{}", workload.name, side.name).replace([' ', ','], "-");
    let millis = time.as_millis();
    let request = format!("bench.turns {kind} {name} {scope} {tasks} {millis} {hold} {pause}");
    let pending: Vec<_> = peers.iter().map(|peer| peer.spawn("bench", &request)).collect();
    let mut done = Done::default();
    for pending in pending {
        done.add(&pending.answer().await.map_err(|e| format!("{}: {e}", side.name))?)?;
    }
    Ok(done)
}

impl Done {
    /// Adds what one process answers.
    pub(crate) fn add(&mut self, answer: &str) -> Result<()> {
        let (nanos, tasks) = answer.split_once(' ').ok_or_else(|| format!("no report: {answer}"))?;
        let tasks: Vec<Waits> = tasks.split(';').map(str::parse).collect::<Result<_>>()?;
        let turns: usize = tasks.iter().map(Waits::count).sum();
        self.rate += turns as f64 / (nanos.parse::<f64>()? / 1e9);
        self.tasks.extend(tasks);
        Ok(())
    }

    /// Of all tasks.
    pub(crate) fn waits(&self) -> Waits {
        let mut all = Waits::default();
        self.tasks.iter().for_each(|task| all.add(task));
        all
    }

    /// What a task waits, whichever it is: one that starves has few waits, and long ones.
    fn p99_of_a_task(&self) -> f64 {
        percentile(&self.tasks.iter().map(|task| task.percentile(0.99)).collect::<Vec<_>>(), 0.5)
    }

    fn poorest_of_richest(&self) -> f64 {
        let turns = || self.tasks.iter().map(Waits::count);
        turns().min().zip(turns().max()).map_or(0.0, |(poorest, richest)| poorest as f64 / richest as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_did_adds_up() {
        let mut done = Done::default();
        done.add("1000000000 0:4;0:6,50:2").unwrap();
        done.add("500000000 0:8;0:2").unwrap();
        assert_eq!((done.rate, done.waits().count(), done.poorest_of_richest()), (32.0, 22, 0.25));
        assert!(done.add("error").is_err());
    }

    #[test]
    fn a_workload_is_asked_for_with_its_parts() {
        let plan = Plan { only: vec!["W3".into(), "W4".into()], quick: false };
        assert!(plan.check().is_ok());
        let unknown = Plan { only: vec!["W11".into()], quick: false };
        assert!(unknown.check().unwrap_err().to_string().contains("W3b"));
        let wanted = ["W3", "W3b", "W4 pair", "W40"].map(|name| plan.wants(name));
        assert_eq!(wanted, [true, false, true, false]);
    }
}
