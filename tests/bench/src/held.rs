//! Locks that are held: what they cost in memory, and what their renewals cost.

use std::time::{Duration, Instant};

use crate::Result;
use crate::bars::{CLIENT_CPU, HELD_COMMANDS, MEMORY, RENEWAL, SERVER_CPU, SERVER_MEMORY};
use crate::cpu;
use crate::run::Run;
use crate::servers::{Servers, Store};
use crate::sides::{PLAIN, REDISSON, Side, TENURE};

/// A third of the lease that all have, of 30 s: each lock is renewed once in it.
const PERIOD: Duration = Duration::from_secs(10);

pub(crate) async fn all(run: &mut Run) -> Result<()> {
    if run.plan.wants("W4 renewal") {
        renewal(run).await?;
    }
    let many: &[(&'static str, usize, usize, &[Side])] = if run.plan.quick {
        &[("W6 10000 held", 100, 0, &[TENURE, PLAIN])]
    } else {
        &[
            ("W6 10000 held", 10_000, 0, &[TENURE, PLAIN, REDISSON]),
            ("W6 10000 held after 5000 pairs", 10_000, 5_000, &[TENURE]),
            ("W6 100000 held", 100_000, 0, &[TENURE]),
        ]
    };
    for (name, n, earlier, sides) in many {
        if run.plan.wants(name) {
            for side in *sides {
                held(run, name, *side, *n, *earlier).await?;
            }
        }
    }
    Ok(())
}

/// What a renewal costs the server, inside of the calls: of locks with a short lease, over whole periods.
async fn renewal(run: &mut Run) -> Result<()> {
    const HELD: usize = 1000;
    let (lease, rounds) = if run.plan.quick { (2, 1) } else { (6, 6) };
    let period = Duration::from_secs(lease) / 3;
    for side in [TENURE, PLAIN] {
        run.progress.at("W4 renewal", side.name);
        let servers = Servers::start(Store::Redis)?;
        let peer = side.start_with(&servers, &format!("lease={lease}s")).await?;
        peer.call("bench", &format!("bench.hold plain renewed {HELD}")).await?;
        // Locks acquired one after the other are renewed in batches from their first renewal on.
        tokio::time::sleep(period * 2).await;
        for _ in 0..rounds {
            let before = servers.commands()?;
            tokio::time::sleep(period).await;
            let done = servers.commands()? - before;
            let renewals = HELD as f64;
            run.samples.push("W4 renewal", RENEWAL, side.name, (done.all - done.scripts) / renewals);
            run.samples.push("W4 renewal", "calls a renewal", side.name, done.scripts / renewals);
        }
    }
    Ok(())
}

/// Memory and time of client and server for so many locks of one client, on a server of their own.
async fn held(run: &mut Run, name: &'static str, side: Side, n: usize, earlier: usize) -> Result<()> {
    let periods = if run.plan.quick { 0.1 } else { 1.0 };
    let window = PERIOD.mul_f64(periods);
    run.progress.at(name, side.name);
    let servers = Servers::start(Store::Redis)?;
    let peer = side.start(&servers).await?;
    if earlier > 0 {
        let millis = earlier / 2;
        peer.call("bench", &format!("bench.turns plain earlier own 100 {millis} 0 0")).await?;
    }
    // Whatever a process needs once is there with the first lock.
    peer.call("bench", "bench.hold plain first 100").await?;
    let before = (memory(peer.pid())?, servers.info("memory", "used_memory")?);
    peer.call("bench", &format!("bench.hold plain held {n}")).await?;
    let after = (memory(peer.pid())?, servers.info("memory", "used_memory")?);
    let mut push = |measure, value| run.samples.push(name, measure, side.name, value);
    push(MEMORY, (after.0 - before.0) / n as f64 - "held10000".len() as f64);
    push(SERVER_MEMORY, (after.1 - before.1) / n as f64);
    // Locks acquired one after the other are renewed in batches from their first renewal on.
    tokio::time::sleep(window).await;
    for _ in 0..2 {
        let commands = servers.commands()?;
        let before = [peer.pid(), servers.pid()].map(|pid| cpu::used(&[pid]));
        let begin = Instant::now();
        tokio::time::sleep(window).await;
        let done = (servers.commands()? - commands).all;
        let took = begin.elapsed().as_secs_f64();
        let [client, server] = before;
        let part =
            |pid, before: Duration| Ok::<_, crate::Error>((cpu::used(&[pid])? - before).as_secs_f64() / took);
        push(CLIENT_CPU, 100.0 * part(peer.pid(), client?)?);
        push(SERVER_CPU, 100.0 * part(servers.pid(), server?)?);
        push(HELD_COMMANDS, done / n as f64 / (took / PERIOD.as_secs_f64()));
    }
    Ok(())
}

/// Resident bytes of a process.
pub(crate) fn memory(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no memory in /proc")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024.0)
}
