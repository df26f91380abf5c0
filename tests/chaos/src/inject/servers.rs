//! Faults of servers.

use std::path::Path;
use std::time::{Duration, Instant};

use checker::{Answer, Call, Class, Phase, Target};
use testbed::{Cluster, Ensemble, PATIENCE, Redis, Sentinels, Server, slot_of};

use super::{Result, text};
use crate::cell::Cell;
use crate::clock::now;
use crate::deploy::Servers;
use crate::fault::{Fault, How};
use crate::kinds::Use;
use crate::log::Noted;
use crate::result::may_lose;

/// The name whose node suffers in a cluster.
const KEY: &str = "lock-0";

pub(super) fn inject(cell: &Cell, fault: &Fault) -> Result {
    let lost = may_lose(cell.store, fault.class()).then(|| forget_latches(cell));
    cause(cell, fault)?;
    lost.into_iter().flatten().for_each(|op| cell.log.answer(op, now(), Answer::Done { value: Some(0) }));
    Ok(())
}

/// What loses the data of a store may open its latches: in the history somebody deletes them meanwhile.
fn forget_latches(cell: &Cell) -> Vec<u64> {
    Use::Latch.names().map(|name| cell.log.call(0, Call::Delete { name })).collect()
}

fn cause(cell: &Cell, fault: &Fault) -> Result {
    match (fault, &cell.deployment.servers) {
        (Fault::Stop { nodes, time }, _) => stop(cell, nodes, *time),
        (Fault::Restart { nodes, time, empty }, _) => restart(cell, nodes, *time, *empty),
        (Fault::Flush, _) => commands(cell, fault.class(), Duration::ZERO, &[&["SCRIPT", "FLUSH"]]),
        (Fault::Disconnect, _) => {
            let kill = |what| ["CLIENT", "KILL", "TYPE", what, "SKIPME", "yes"];
            commands(cell, fault.class(), Duration::ZERO, &[&kill("normal"), &kill("pubsub")])
        }
        (Fault::Hush { time }, _) => {
            let ms = time.as_millis().to_string();
            commands(cell, fault.class(), *time, &[&["CLIENT", "PAUSE", &ms, "ALL"]])
        }
        (Fault::FailOver { how, time }, Servers::Sentinels(servers)) => {
            noted(cell, fault.class(), |_| sentinel(servers, *how, *time))
        }
        (Fault::FailOver { how, time }, Servers::Cluster(servers)) => {
            noted(cell, fault.class(), |_| cluster(servers, *how, *time))
        }
        (Fault::FailOver { how, time }, Servers::Ensemble(servers)) => {
            noted(cell, fault.class(), |_| ensemble(servers, *how, *time))
        }
        (Fault::Blackout, servers) => noted(cell, fault.class(), |_| blackout(cell, servers)),
        (Fault::Reshard { time }, Servers::Cluster(servers)) => {
            noted(cell, fault.class(), |_| reshard(servers, *time))
        }
        (Fault::Evict { nodes, time }, Servers::Redis(_)) => evict(cell, nodes, *time),
        (Fault::Full { nodes, time }, Servers::Redis(_)) => full(cell, nodes, *time),
        (Fault::Rotate, Servers::Redis(nodes)) => {
            noted(cell, fault.class(), |_| cell.deployment.login.rotate(nodes).map_err(text))
        }
        (Fault::Step { node, by }, _) => {
            let fault = cell.log.fault(fault.class(), cell.deployment.target(*node));
            fault.is(Phase::Begin);
            cell.deployment.walls[*node].set(*by).map_err(text)?;
            fault.is(Phase::Healed);
            Ok(())
        }
        _ => Err(format!("{fault} cannot be caused here")),
    }
}

fn noted(cell: &Cell, class: Class, work: impl FnOnce(&Noted<'_>) -> Result) -> Result {
    let fault = cell.log.fault(class, Target::Store);
    fault.is(Phase::Begin);
    work(&fault)?;
    fault.is(Phase::Healed);
    Ok(())
}

fn server(cell: &Cell, node: usize) -> &Server {
    match &cell.deployment.servers {
        Servers::Ensemble(servers) => &servers.servers()[node],
        _ => &cell.deployment.redis()[node],
    }
}

/// One fault in the history for each node.
fn each<'a>(cell: &'a Cell, class: Class, nodes: &[usize]) -> Vec<Noted<'a>> {
    nodes.iter().map(|node| cell.log.fault(class, cell.deployment.target(*node))).collect()
}

fn stop(cell: &Cell, nodes: &[usize], time: Duration) -> Result {
    let faults = each(cell, Class::ServerPaused, nodes);
    for (node, fault) in nodes.iter().zip(&faults) {
        fault.is(Phase::Begin);
        server(cell, *node).stop().map_err(text)?;
        fault.is(Phase::InEffect);
    }
    std::thread::sleep(time);
    for (node, fault) in nodes.iter().zip(&faults) {
        fault.is(Phase::Healing);
        server(cell, *node).resume().map_err(text)?;
    }
    whole(cell)?;
    faults.iter().for_each(|fault| fault.is(Phase::Healed));
    Ok(())
}

fn restart(cell: &Cell, nodes: &[usize], time: Duration, empty: bool) -> Result {
    let class = if empty { Class::RestartEmpty } else { Class::RestartWithData };
    let faults = each(cell, class, nodes);
    for (node, fault) in nodes.iter().zip(&faults) {
        fault.is(Phase::Begin);
        server(cell, *node).kill().map_err(text)?;
        fault.is(Phase::InEffect);
    }
    std::thread::sleep(time);
    faults.iter().for_each(|fault| fault.is(Phase::Healing));
    // At once: a member of an ensemble without a majority does not serve.
    all(nodes, |node| {
        let server = server(cell, node);
        if empty { server.restart_empty() } else { server.restart() }
    })?;
    whole(cell)?;
    faults.iter().for_each(|fault| fault.is(Phase::Healed));
    Ok(())
}

/// Does it for all nodes at once.
fn all(nodes: &[usize], work: impl Fn(usize) -> testbed::Result<()> + Sync) -> Result {
    std::thread::scope(|scope| {
        let work = &work;
        let each: Vec<_> = nodes.iter().map(|node| scope.spawn(move || work(*node))).collect();
        each.into_iter().try_for_each(|one| one.join().expect("no panic").map_err(text))
    })
}

/// Waits until an ensemble has a leader, and all others follow it.
fn whole(cell: &Cell) -> Result {
    match &cell.deployment.servers {
        Servers::Ensemble(servers) => servers.wait_until_whole(PATIENCE).map_err(text),
        _ => Ok(()),
    }
}

/// Runs commands on all servers that answer.
fn commands(cell: &Cell, class: Class, time: Duration, commands: &[&[&str]]) -> Result {
    noted(cell, class, |_| {
        for server in cell.deployment.redis() {
            let run = |words: &&[&str]| server.cmd(words).map(drop).map_err(text);
            commands.iter().try_for_each(run)?;
        }
        std::thread::sleep(time);
        Ok(())
    })
}

fn sentinel(servers: &Sentinels, how: How, time: Duration) -> Result {
    let old: &Redis = servers.master().map_err(text)?;
    let new = || servers.wait_for_new_master(old.port(), PATIENCE).map(drop);
    let done = match how {
        How::Asked => servers.fail_over().and_then(|()| new()),
        How::Killed => old.kill().and_then(|()| new()).and_then(|()| old.restart()),
        How::Stopped => old.stop().and_then(|()| new()).and_then(|()| {
            std::thread::sleep(time);
            old.resume()
        }),
    };
    done.and_then(|()| servers.wait_until_settled(PATIENCE)).map_err(text)
}

fn cluster(servers: &Cluster, how: How, time: Duration) -> Result {
    let owner = servers.owner_of(slot_of(KEY)).map_err(text)?;
    // Masters and replicas come in pairs, and may have changed places.
    let half = servers.nodes().len() / 2;
    let other = (owner + half) % servers.nodes().len();
    let old = &servers.nodes()[owner];
    let new = || servers.wait_for_fail_over(KEY, owner, PATIENCE).map(drop);
    let done = match how {
        How::Asked => servers.fail_over(other).and_then(|()| new()),
        How::Killed => old.kill().and_then(|()| new()).and_then(|()| old.restart()),
        How::Stopped => old.stop().and_then(|()| new()).and_then(|()| {
            std::thread::sleep(time);
            old.resume()
        }),
    };
    done.and_then(|()| servers.wait_until_whole(PATIENCE)).map_err(text)
}

/// Time for the servers to evict, or to refuse, again.
const MOMENT: Duration = Duration::from_millis(20);

/// Lets servers have a little less memory than they use, again and again.
fn evict(cell: &Cell, nodes: &[usize], time: Duration) -> Result {
    let faults = each(cell, Class::Eviction, nodes);
    faults.iter().for_each(|fault| fault.is(Phase::Begin));
    let end = Instant::now() + time;
    for node in nodes.iter().map(|node| &cell.deployment.redis()[*node]) {
        let limit = |bytes: &str| node.cmd(&["CONFIG", "SET", "maxmemory", bytes]).map_err(text);
        node.cmd(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]).map_err(text)?;
        while Instant::now() < end {
            let info = node.info("memory").map_err(text)?;
            let used: u64 = info.get("used_memory").and_then(|used| used.parse().ok()).unwrap_or_default();
            limit(&used.saturating_sub(100).to_string())?;
            std::thread::sleep(MOMENT);
            limit("0")?;
            std::thread::sleep(MOMENT);
        }
        node.cmd(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).map_err(text)?;
    }
    faults.iter().for_each(|fault| fault.is(Phase::Healed));
    Ok(())
}

/// Lets servers save where nobody can write.
fn full(cell: &Cell, nodes: &[usize], time: Duration) -> Result {
    let faults = each(cell, Class::DiskFull, nodes);
    for (node, fault) in nodes.iter().zip(&faults) {
        fault.is(Phase::Begin);
        save(&cell.deployment.redis()[*node], Path::new("/proc"), "err")?;
        fault.is(Phase::InEffect);
    }
    std::thread::sleep(time);
    for (node, fault) in nodes.iter().zip(&faults) {
        fault.is(Phase::Healing);
        let node = &cell.deployment.redis()[*node];
        save(node, &node.instance().data(), "ok")?;
        fault.is(Phase::Healed);
    }
    Ok(())
}

/// Saves into this folder until it ends like this.
fn save(node: &Redis, folder: &Path, status: &str) -> Result {
    node.cmd(&["CONFIG", "SET", "dir", &folder.display().to_string()]).map_err(text)?;
    testbed::eventually("it has saved, or not", PATIENCE, || {
        // One that is under way is refused.
        let _ = node.cmd(&["BGSAVE"]);
        let info = node.info("persistence").ok()?;
        (info.get("rdb_last_bgsave_status").is_some_and(|last| last == status)).then_some(())
    })
    .map_err(text)
}

fn reshard(servers: &Cluster, time: Duration) -> Result {
    let slot = slot_of(KEY);
    let owner = servers.owner_of(slot).map_err(text)?;
    let others: Vec<usize> =
        [0, 6000, 12000].into_iter().filter_map(|slot| servers.owner_of(slot).ok()).collect();
    let to = others.into_iter().find(|other| *other != owner).ok_or("no other node serves slots")?;
    let moving = servers.begin_move(slot, to).map_err(text)?;
    let keys = moving.keys().map_err(text)?;
    moving.migrate(&keys[..keys.len() / 2]).map_err(text)?;
    std::thread::sleep(time);
    moving.migrate_all().and_then(|()| moving.finish()).map_err(text)
}

fn ensemble(servers: &Ensemble, how: How, time: Duration) -> Result {
    let old = servers.wait_for_leader(PATIENCE).map_err(text)?;
    let done = match how {
        How::Asked | How::Killed => old.kill().and_then(|()| {
            std::thread::sleep(time);
            old.restart()
        }),
        How::Stopped => old.stop().and_then(|()| {
            std::thread::sleep(time);
            old.resume()
        }),
    };
    done.and_then(|()| servers.wait_until_whole(PATIENCE)).map_err(text)
}

fn blackout(cell: &Cell, servers: &Servers) -> Result {
    let nodes = cell.deployment.redis();
    nodes.iter().try_for_each(|node| node.kill()).map_err(text)?;
    let numbers: Vec<usize> = (0..nodes.len()).collect();
    all(&numbers, |node| nodes[node].restart())?;
    match servers {
        Servers::Sentinels(servers) => servers.wait_until_settled(PATIENCE).map_err(text),
        Servers::Cluster(servers) => servers.wait_until_whole(PATIENCE).map_err(text),
        _ => Ok(()),
    }
}
