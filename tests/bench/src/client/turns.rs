//! Tasks that acquire and release over and over.

use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

use super::{Gate, Library};
use crate::Result;
use crate::stats::Waits;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    pub(crate) kind: String,
    name: String,
    pub(crate) own: bool,
    pub(crate) tasks: usize,
    pub(crate) time: Duration,
    hold: u64,
    pause: u64,
}

impl Turns {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let [kind, name, scope, tasks, millis, hold, pause] = words else {
            return Err(format!("no turns {words:?}").into());
        };
        Ok(Self {
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
            own: *scope == "own",
            tasks: tasks.parse()?,
            time: Duration::from_millis(millis.parse()?),
            hold: hold.parse()?,
            pause: pause.parse()?,
        })
    }

    pub(crate) fn name_of(&self, task: usize) -> String {
        if self.own { format!("{}{task}", self.name) } else { self.name.clone() }
    }
}

/// What was done, as the answer says it.
pub(crate) fn answer(took: Duration, tasks: &[Waits]) -> String {
    let tasks: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    format!("{} {}", took.as_nanos(), tasks.join(";"))
}

pub(crate) async fn by_tasks<L: Library>(library: &L, turns: Turns) -> Result<String> {
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for task in 0..turns.tasks {
        let gate = library.gate(&turns.kind, &turns.name_of(task))?;
        tasks.push(tokio::spawn(one(gate, begin + turns.time, turns.hold, turns.pause)));
    }
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await??);
    }
    Ok(answer(begin.elapsed(), &done))
}

async fn one<G: Gate>(mut gate: G, end: Instant, hold: u64, pause: u64) -> Result<Waits> {
    let mut waits = Waits::default();
    // At least one: on a busy machine a task may begin when the time is over.
    loop {
        let asked = Instant::now();
        let held = gate.enter().await?;
        waits.record(asked.elapsed());
        work(hold).await?;
        gate.leave(held).await?;
        work(pause).await?;
        if Instant::now() >= end {
            return Ok(waits);
        }
    }
}

/// Waits for so many µs, and as long as a thread of a peer sleeps, whose sleep the kernel makes longer by its slack. The
/// runtime's own timer has a resolution of a millisecond, and may take two for one.
pub(crate) async fn work(micros: u64) -> std::io::Result<()> {
    const SLACK: Duration = Duration::from_micros(50);
    if micros == 0 {
        return Ok(());
    }
    let time = Timespec::try_from(Duration::from_micros(micros) + SLACK).map_err(std::io::Error::other)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let once = Itimerspec { it_interval: Timespec::default(), it_value: time };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    // A timer is read as a pipe is.
    Receiver::from_owned_fd_unchecked(timer)?.readable().await
}
