//! Causes faults and heals them, and notes each step in the history: before and after the fault is caused, before and
//! after it is healed. Only what certainly stops everything has a time in which it is in effect.

mod servers;

use std::time::Duration;

use checker::{Class, Phase, Target};
use testbed::{Proxy, Rule, Way};

use crate::cell::Cell;
use crate::fault::Fault;

type Result<T = ()> = std::result::Result<T, String>;

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Causes a fault and heals it.
///
/// # Errors
/// When it could not be caused or healed: the run proves nothing then.
pub(crate) fn inject(cell: &Cell, fault: &Fault) -> Result {
    let class = fault.class();
    let pass = |proxy: &Proxy| {
        proxy.heal();
        Ok(())
    };
    let set = |rule: Rule| {
        move |proxy: &Proxy| {
            proxy.set_both(rule);
            Ok(())
        }
    };
    match fault {
        Fault::Pause { slot, time } => pause(cell, *slot, *time),
        Fault::Kill { slot } => kill(cell, *slot),
        // The worker notes it itself, since it knows from when to when.
        Fault::Block { slot, time } => {
            cell.worker(*slot).program.tell(&format!("block {}", time.as_millis())).map_err(text)?;
            std::thread::sleep(*time);
            Ok(())
        }
        Fault::Cut { slot, time } => {
            let cut = |proxy: &Proxy| {
                proxy.refuse();
                proxy.close_all();
                Ok(())
            };
            connections(cell, class, *slot, true, *time, cut, |proxy| proxy.accept().map_err(text))
        }
        Fault::Stall { slot, time } => connections(cell, class, *slot, true, *time, set(Rule::Stall), pass),
        Fault::CutOnce { slot, cut } => {
            let armed = |proxy: &Proxy| {
                for _ in 0..3 {
                    proxy.cut_once("", *cut);
                }
                Ok(())
            };
            let soon = Duration::from_millis(200);
            connections(cell, class, *slot, false, soon, armed, |_| Ok(()))
        }
        Fault::Delay { slot, time, by } => {
            let jitter = if by.as_millis() % 2 == 0 { Rule::Delay(*by) } else { Rule::Jitter(*by) };
            connections(cell, class, *slot, false, *time, set(jitter), pass)
        }
        Fault::OneWay { slot, time, way } => {
            let way: Way = *way;
            let mute = move |proxy: &Proxy| {
                proxy.set(way, Rule::Swallow);
                Ok(())
            };
            connections(cell, class, *slot, false, *time, mute, pass)
        }
        Fault::HalfOpen { slot, time } => {
            connections(cell, class, *slot, false, *time, set(Rule::Swallow), pass)
        }
        Fault::StepWorker { slot, by } => step(cell, *slot, *by),
        _ => servers::inject(cell, fault),
    }
}

fn step(cell: &Cell, slot: usize, by: i64) -> Result {
    let worker = cell.worker(slot);
    let fault = cell.log.fault(Class::ClientClockStep, Target::Process(worker.number));
    fault.is(Phase::Begin);
    worker.wall.set(by).map_err(text)?;
    fault.is(Phase::Healed);
    Ok(())
}

fn pause(cell: &Cell, slot: usize, time: Duration) -> Result {
    let worker = cell.worker(slot);
    let fault = cell.log.fault(Class::ClientPaused, Target::Process(worker.number));
    fault.is(Phase::Begin);
    worker.program.stop().map_err(text)?;
    fault.is(Phase::InEffect);
    std::thread::sleep(time);
    fault.is(Phase::Healing);
    worker.program.resume().map_err(text)?;
    fault.is(Phase::Healed);
    Ok(())
}

fn kill(cell: &Cell, slot: usize) -> Result {
    let fault = cell.log.fault(Class::ClientKilled, Target::Process(cell.worker(slot).number));
    fault.is(Phase::Begin);
    cell.replace(slot, || fault.is(Phase::Healed))
}

/// A fault of all connections of a worker.
fn connections(
    cell: &Cell,
    class: Class,
    slot: usize,
    is_certain: bool,
    time: Duration,
    cause: impl Fn(&Proxy) -> Result,
    heal: impl Fn(&Proxy) -> Result,
) -> Result {
    let number = cell.worker(slot).number;
    let proxies = cell.deployment.proxies(slot);
    let fault = cell.log.fault(class, Target::Process(number));
    fault.is(Phase::Begin);
    proxies.iter().try_for_each(&cause)?;
    if is_certain {
        fault.is(Phase::InEffect);
    }
    std::thread::sleep(time);
    if is_certain {
        fault.is(Phase::Healing);
    }
    proxies.iter().try_for_each(&heal)?;
    fault.is(Phase::Healed);
    Ok(())
}
