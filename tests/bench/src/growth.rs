//! How costs grow: each at n, 4n and 16n of what is asked for. The power of n is 1 where a cost is linear.

use std::time::{Duration, Instant};

use interop::Peer;

use crate::Result;
use crate::bars::GROWTH;
use crate::cpu;
use crate::held::memory;
use crate::run::Run;
use crate::servers::{Servers, Store};
use crate::sides::{Side, TENURE};

const TIMES: [usize; 3] = [1, 4, 16];

/// What a step cost, by what is counted.
type Costs = Vec<(&'static str, f64)>;

pub(crate) async fn all(run: &mut Run) -> Result<()> {
    let quick = run.plan.quick;
    let small = |n: usize| if quick { (n / 16).max(2) } else { n };
    for (name, n) in [("W10 names", 1000), ("W10 waiters", 64), ("W10 holders", 16), ("W10 processes", 1)] {
        if !run.plan.wants(name) {
            continue;
        }
        let mut steps = Vec::new();
        for n in TIMES.map(|times| times * if n == 1 { 1 } else { small(n) }) {
            run.progress.at(name, &format!("{n}"));
            let servers = Servers::start(Store::Redis)?;
            let costs = match name {
                "W10 names" => names(&servers, n, quick).await?,
                "W10 waiters" => waiters(&servers, n).await?,
                "W10 holders" => holders(&servers, n).await?,
                _ => processes(&servers, n, quick).await?,
            };
            for (what, cost) in &costs {
                run.samples.push(name, what, &n.to_string(), *cost);
            }
            steps.push(costs);
        }
        for (i, (what, _)) in steps[0].iter().enumerate() {
            let power = (steps[2][i].1 / steps[0][i].1).ln() / 16_f64.ln();
            run.samples.push(&format!("W10 growth of {what}, {}", &name[4..]), GROWTH, TENURE.name, power);
        }
    }
    Ok(())
}

/// So many held locks: memory, and a period of renewals.
async fn names(servers: &Servers, n: usize, quick: bool) -> Result<Costs> {
    let lease = if quick { 1 } else { 6 };
    let two_periods = Duration::from_secs(lease) * 2 / 3;
    let peer = TENURE.start_with(servers, &format!("lease={lease}s")).await?;
    peer.call("bench", "bench.hold plain first 100").await?;
    let before = (memory(peer.pid())?, servers.info("memory", "used_memory")?);
    peer.call("bench", &format!("bench.hold plain held {n}")).await?;
    let kilobytes = (memory(peer.pid())? - before.0) / 1024.0;
    let server = (servers.info("memory", "used_memory")? - before.1) / 1024.0;
    tokio::time::sleep(two_periods).await;
    let pids = [peer.pid(), servers.pid()];
    let (time, commands) = (cpu::used(&pids)?, servers.commands()?);
    tokio::time::sleep(two_periods).await;
    let time = (cpu::used(&pids)? - time).as_secs_f64() * 1e3 / 2.0;
    let commands = (servers.commands()? - commands).all / 2.0;
    Ok(vec![
        ("client memory, KB", kilobytes.max(1.0)),
        ("server memory, KB", server),
        ("CPU of a period, ms", time),
        ("commands of a period", commands),
    ])
}

/// So many waiters of one process, whom the lock is handed on to until all have had it.
async fn waiters(servers: &Servers, n: usize) -> Result<Costs> {
    let holder = TENURE.start_with(servers, "lease=10m").await?;
    let peer = TENURE.start(servers).await?;
    holder.call("bench", "bench.hold plain wanted 1").await?;
    let (time, commands) = (cpu::used(&[peer.pid()])?, servers.commands()?);
    peer.call("bench", &format!("bench.wait plain wanted0 {n} 0")).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    holder.call("bench", "bench.free").await?;
    let end = Instant::now() + testbed::PATIENCE;
    while peer.call("bench", "bench.waited").await?.split(',').count() < n {
        if Instant::now() > end {
            return Err(format!("not all of {n} waiters got the lock").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let time = (cpu::used(&[peer.pid()])? - time).as_secs_f64() * 1e3;
    Ok(vec![
        ("CPU until all had it, ms", time),
        ("commands until all had it", (servers.commands()? - commands).all),
    ])
}

/// So many readers of one lock, a turn each at a time.
async fn holders(servers: &Servers, n: usize) -> Result<Costs> {
    let peer = TENURE.start(servers).await?;
    let (commands, turns) = turns(servers, &[peer], "read", n, 300).await?;
    Ok(vec![("commands of a turn of all", commands / turns * n as f64)])
}

/// Two tasks of so many processes on one name.
async fn processes(servers: &Servers, n: usize, quick: bool) -> Result<Costs> {
    let mut peers = Vec::new();
    for _ in 0..n {
        peers.push(Side::start(TENURE, servers).await?);
    }
    let (commands, turns) = turns(servers, &peers, "plain", 2, if quick { 50 } else { 1500 }).await?;
    Ok(vec![("commands of an acquisition", commands / turns)])
}

/// Commands and turns of tasks on one name.
async fn turns(
    servers: &Servers,
    peers: &[Peer],
    kind: &str,
    tasks: usize,
    millis: u64,
) -> Result<(f64, f64)> {
    let before = servers.commands()?;
    let request = format!("bench.turns {kind} grown shared {tasks} {millis} 0 0");
    let pending: Vec<_> = peers.iter().map(|peer| peer.spawn("bench", &request)).collect();
    let mut done = crate::run::Done::default();
    for pending in pending {
        done.add(&pending.answer().await?)?;
    }
    Ok(((servers.commands()? - before).all, done.waits().count() as f64))
}
