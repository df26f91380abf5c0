//! Many waiters for one name: what they cost while nothing happens, and how fast the lock goes from one to the next.

use std::time::{Duration, Instant};

use interop::Peer;

use crate::Result;
use crate::bars::{BETWEEN, CONNECTIONS, HANDOVER, IDLE_COMMANDS, WAITER_CPU, WAITER_MEMORY};
use crate::cpu;
use crate::held::memory;
use crate::run::Run;
use crate::servers::{Servers, Store};
use crate::sides::{PLAIN, PYTHON, REDISSON, Side, TENURE, TENURE_REMOTE};
use crate::stats::percentile;

/// µs that each waiter stays inside.
const INSIDE: u64 = 1000;
/// Hand-overs of a chain, and how many rounds they are judged as.
const CHAIN: usize = 300;
const ROUNDS: usize = 15;

/// Name, kind, how many waiters each of two processes has, and who.
type Crowd = (&'static str, &'static str, usize, &'static [Side]);

const CROWDS: &[Crowd] = &[
    ("W5 10 waiters", "plain", 5, &[TENURE, TENURE_REMOTE, PLAIN, PYTHON, REDISSON]),
    ("W5 1000 waiters", "plain", 1000, &[TENURE, TENURE_REMOTE, PLAIN, PYTHON, REDISSON]),
    ("W5 10000 waiters", "plain", 10_000, &[TENURE]),
    ("W5b 1000 fair waiters", "fair", 1000, &[TENURE, REDISSON]),
];

pub(crate) async fn all(run: &mut Run) -> Result<()> {
    for (name, kind, n, sides) in CROWDS.iter().filter(|(name, ..)| run.plan.wants(name)).collect::<Vec<_>>()
    {
        let n = if run.plan.quick { (*n).min(20) } else { *n };
        for side in sides.iter().filter(|side| side.is_known()) {
            run.progress.at(name, side.name);
            if n < 20 {
                few(run, name, kind, n, *side).await?;
            } else {
                crowd(run, name, kind, n, *side).await?;
            }
        }
    }
    Ok(())
}

/// A holder, two processes that wait, and their server.
struct Scene {
    servers: Servers,
    holder: Peer,
    waiting: [Peer; 2],
    /// Connections of all but those who wait.
    others: f64,
}

impl Scene {
    async fn start(side: Side) -> Result<Self> {
        let servers = Servers::start(Store::Redis)?;
        // So long that no renewal is counted.
        let holder = side.start_with(&servers, "lease=10m").await?;
        let others = servers.info("clients", "connected_clients")?;
        let waiting = [side.start(&servers).await?, side.start(&servers).await?];
        Ok(Self { servers, holder, waiting, others })
    }

    async fn hold(&self, kind: &str) -> Result<()> {
        Ok(self.holder.call("bench", &format!("bench.hold {kind} wanted 1")).await.map(drop)?)
    }

    async fn wait(&self, kind: &str, n: usize) -> Result<()> {
        for peer in &self.waiting {
            peer.call("bench", &format!("bench.wait {kind} wanted0 {n} {INSIDE}")).await?;
        }
        Ok(())
    }

    /// Releases, and follows at least so many hand-overs: the milliseconds of each, and whether it was between processes.
    async fn hand_over(&self, n: usize) -> Result<Vec<(f64, bool)>> {
        self.holder.call("bench", "bench.free").await?;
        let end = Instant::now() + testbed::PATIENCE;
        loop {
            let mut turns = Vec::new();
            for (process, peer) in self.waiting.iter().enumerate() {
                turns.extend(parse(&peer.call("bench", "bench.waited").await?, process)?);
            }
            if turns.len() > n {
                return Ok(gaps(turns));
            }
            if Instant::now() > end {
                return Err(format!("{} of {n} waiters got the lock", turns.len()).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Few waiters, again and again.
async fn few(run: &mut Run, name: &str, kind: &str, n: usize, side: Side) -> Result<()> {
    let scene = Scene::start(side).await?;
    let rounds = if run.plan.quick { 1 } else { ROUNDS + 1 };
    for round in 0..rounds {
        scene.hold(kind).await?;
        scene.wait(kind, n).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let gaps = scene.hand_over(2 * n - 1).await?;
        // All have to be away before the next round.
        tokio::time::sleep(Duration::from_millis(50)).await;
        if round > 0 || run.plan.quick {
            push(run, name, side, &gaps);
        }
    }
    Ok(())
}

/// A crowd is observed while it waits, and then its hand-overs are followed for a while.
async fn crowd(run: &mut Run, name: &str, kind: &str, n: usize, side: Side) -> Result<()> {
    let (settle, window) = if run.plan.quick { (0.3, 0.5) } else { (4.0, 5.0) };
    let scene = Scene::start(side).await?;
    scene.hold(kind).await?;
    let mut used = 0.0;
    for peer in &scene.waiting {
        used += memory(peer.pid())?;
    }
    scene.wait(kind, n).await?;
    tokio::time::sleep(Duration::from_secs_f64(settle)).await;
    let pids = scene.waiting.each_ref().map(Peer::pid);
    let (commands, time) = (scene.servers.commands()?, cpu::used(&pids)?);
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_secs_f64(window)).await;
    let took = begin.elapsed().as_secs_f64();
    let commands = (scene.servers.commands()? - commands).all;
    let time = (cpu::used(&pids)? - time).as_secs_f64();
    let connections = scene.servers.info("clients", "connected_clients")? - scene.others;
    let mut now = 0.0;
    for peer in &scene.waiting {
        now += memory(peer.pid())?;
    }
    let processes = scene.waiting.len() as f64;
    let mut add = |measure, value| run.samples.push(name, measure, side.name, value);
    add(CONNECTIONS, connections / processes);
    add(IDLE_COMMANDS, commands / took / processes);
    add(WAITER_CPU, 100.0 * time / took / processes);
    add(WAITER_MEMORY, (now - used) / processes / n as f64);
    let all = scene.hand_over(CHAIN.min(n)).await?;
    for part in all.chunks((all.len() / ROUNDS).max(1)).take(ROUNDS) {
        push(run, name, side, part);
    }
    Ok(())
}

fn push(run: &mut Run, name: &str, side: Side, gaps: &[(f64, bool)]) {
    let of = |only: bool| gaps.iter().filter(|(_, between)| *between || !only).map(|(ms, _)| *ms).collect();
    let [all, between]: [Vec<f64>; 2] = [of(false), of(true)];
    run.samples.push(name, HANDOVER, side.name, percentile(&all, 0.5));
    if !between.is_empty() {
        run.samples.push(name, BETWEEN, side.name, percentile(&between, 0.5));
    }
}

/// `GRANTED:RELEASED,…`, each with its process.
fn parse(text: &str, process: usize) -> Result<Vec<(i64, i64, usize)>> {
    let turns = text.split(',').filter(|turn| !turn.is_empty()).map(|turn| {
        let (granted, released) = turn.split_once(':').ok_or_else(|| format!("no turn: {turn}"))?;
        Ok((granted.parse()?, released.parse()?, process))
    });
    turns.collect()
}

fn gaps(mut turns: Vec<(i64, i64, usize)>) -> Vec<(f64, bool)> {
    turns.sort_unstable();
    let gap = |pair: &[(i64, i64, usize)]| ((pair[1].0 - pair[0].1) as f64 / 1e6, pair[0].2 != pair[1].2);
    turns.windows(2).map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_from_one_release_to_the_next_grant() {
        let turns =
            [parse("5000000:6000000", 0).unwrap(), parse("1000000:2000000,8000000:9000000", 1).unwrap()];
        assert_eq!(gaps(turns.concat()), [(3.0, true), (2.0, true)]);
        assert!(parse("5", 0).is_err() && parse("", 0).unwrap().is_empty());
    }
}
