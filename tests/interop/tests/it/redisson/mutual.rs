//! Cases for every exclusive kind, each with its own commands.

use std::time::Duration;

use interop::trials::TrialProcess;

use crate::redisson::case::{Case, Direction};
use crate::redisson::fixture::{Fixture, QUIET};

/// The commands of a kind. `@` is the name; `%` is the answer to the acquire.
#[derive(Clone, Copy)]
pub(crate) struct KindCommands {
    pub(crate) kind: &'static str,
    /// A request to send once, before the first acquire.
    pub(crate) setup: Option<&'static str>,
    pub(crate) acquire: &'static str,
    pub(crate) try_acquire: &'static str,
    pub(crate) release: &'static str,
    /// Kind and name in requests of the counting loop: for Redisson, and for Tenure.
    pub(crate) counted: [&'static str; 2],
    /// The channel of waiters; none for a kind with a queue.
    pub(crate) channel: Option<&'static str>,
    /// Options of Tenure's URL.
    pub(crate) options: &'static str,
}

pub(crate) const KINDS: [KindCommands; 7] = [
    KindCommands {
        kind: "lock",
        setup: None,
        acquire: "lock plain @ 1800000",
        try_acquire: "try plain @",
        release: "unlock plain @",
        counted: ["plain @", "plain @"],
        channel: Some("redisson_lock__channel:{@}"),
        options: QUIET,
    },
    KindCommands {
        kind: "fair",
        setup: None,
        acquire: "lock fair @ 1800000",
        try_acquire: "try fair @",
        release: "unlock fair @",
        counted: ["fair @", "fair @"],
        channel: None,
        options: QUIET,
    },
    KindCommands {
        kind: "read/write",
        setup: None,
        acquire: "lock write @ 1800000",
        try_acquire: "try write @",
        release: "unlock write @",
        counted: ["write @", "write @"],
        channel: Some("redisson_rwlock:{@}"),
        options: QUIET,
    },
    KindCommands {
        kind: "fenced",
        setup: None,
        acquire: "lock fenced @ 1800000",
        try_acquire: "try fenced @",
        release: "unlock fenced @",
        counted: ["fenced @", "fenced @"],
        channel: Some("redisson_lock__channel:{@}"),
        options: "poll=30m&lease=30m&fence=redisson",
    },
    KindCommands {
        kind: "semaphore",
        setup: Some("sem.set @ 1"),
        acquire: "sem.acquire @ 1",
        try_acquire: "sem.try @ 1",
        release: "sem.release @ 1",
        counted: ["semaphore @", "semaphore @"],
        channel: Some("redisson_sc:{@}"),
        options: QUIET,
    },
    KindCommands {
        kind: "permits",
        setup: Some("permit.set @ 1"),
        acquire: "permit.acquire @ 1800000",
        try_acquire: "permit.try @ 0 1800000",
        release: "permit.release @ %",
        counted: ["permit @", "permit @"],
        channel: Some("redisson_sc:{@}"),
        options: "poll=30m&lease=30m&permit_slack=1s",
    },
    KindCommands {
        kind: "multi",
        setup: None,
        acquire: "multi.lock @1,@2 1800000",
        try_acquire: "multi.try @1,@2",
        release: "multi.unlock @1,@2",
        // In opposite orders, on purpose.
        counted: ["multi @1,@2", "multi @2,@1"],
        channel: Some("redisson_lock__channel:{@1}"),
        options: QUIET,
    },
];

impl KindCommands {
    pub(crate) fn release(&self, ticket: &str) -> String {
        self.release.replace('%', ticket)
    }

    /// The acquire request with another lease, for kinds that have one.
    pub(crate) fn acquire_for(&self, lease: Duration) -> String {
        self.acquire.replace("1800000", &lease.as_millis().to_string())
    }

    /// Waits until `n` processes wait.
    pub(crate) async fn wait_for_waiters(&self, fixture: &Fixture, n: usize) {
        match self.channel {
            Some(channel) => fixture.wait_for_subscribers(channel, n as i64).await,
            None => drop(fixture.wait_for_queue(n).await),
        }
    }

    /// Tries to acquire, and returns the ticket unless it was busy.
    pub(crate) async fn try_acquire(&self, process: &TrialProcess, thread: &str) -> Option<String> {
        let answer = process.call(thread, self.try_acquire).await;
        (answer != "false" && answer != "none").then_some(answer)
    }

    pub(crate) async fn set_up(&self, process: &TrialProcess) {
        if let Some(setup) = self.setup {
            process.expect_answer("setup", setup, "true").await;
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for commands in KINDS {
        let kind = commands.kind;
        cases.push(Case::new(
            kind,
            "redisson_holds_tenure_waits",
            Direction::FromPeer,
            move |fixture| async move {
                let (jvm, rust) = (fixture.jvm(0).await, fixture.worker_with(0, commands.options).await);
                hand_over(&fixture, commands, &jvm, &rust).await;
            },
        ));
        cases.push(Case::new(
            kind,
            "tenure_holds_redisson_waits",
            Direction::FromTenure,
            move |fixture| async move {
                let (jvm, rust) = (fixture.jvm(0).await, fixture.worker_with(0, commands.options).await);
                hand_over(&fixture, commands, &rust, &jvm).await;
            },
        ));
        cases.push(Case::new(kind, "a_number_kept_by_both_loses_nothing", Direction::Both, move |fixture| {
            keep_a_number(fixture, commands)
        }));
    }
    cases
}

async fn hand_over(fixture: &Fixture, commands: KindCommands, holder: &TrialProcess, waiter: &TrialProcess) {
    commands.set_up(holder).await;
    let ticket = holder.call("holder", commands.acquire).await;
    assert_eq!(commands.try_acquire(waiter, "waiter").await, None, "two are in");
    let waiting = waiter.spawn("waiter", commands.acquire);
    commands.wait_for_waiters(fixture, 1).await;
    waiter.wait_until_parked("waiter").await;
    assert!(waiting.is_open(), "two are in");
    holder.call("holder", &commands.release(&ticket)).await;
    let ticket = waiting.answer().await.expect("granted");
    assert_eq!(commands.try_acquire(holder, "holder").await, None, "two are in");
    waiter.call("waiter", &commands.release(&ticket)).await;
    let ticket = commands.try_acquire(holder, "holder").await.expect("free again");
    holder.call("holder", &commands.release(&ticket)).await;
}

/// By two processes of each side.
async fn keep_a_number(fixture: Fixture, commands: KindCommands) {
    let n = 25;
    let jvms = [fixture.jvm(0).await, fixture.jvm(1).await];
    let workers =
        [fixture.worker_with(0, commands.options).await, fixture.worker_with(1, commands.options).await];
    commands.set_up(&jvms[0]).await;
    let mut loops = Vec::new();
    for (side, processes) in [jvms, workers].iter().enumerate() {
        let request = format!("count @:number {n} {}", commands.counted[side]);
        loops.extend(processes.iter().map(|process| process.spawn("loop", &request)));
    }
    for one in loops {
        let counted = one.answer_while(|| fixture.command("GET @:number").int()).await;
        let state =
            || format!("counted {:?}: {:?}", fixture.command("GET @:number"), fixture.command("HGETALL @"));
        assert_eq!(counted.unwrap_or_else(|e| panic!("{e}: {}", state())), n.to_string());
    }
    assert_eq!(fixture.number("GET @:number"), 4 * n, "two were in at once");
}
