//! What holds for everything that lets one in at a time, each kind in its own words.

use std::time::Duration;

use interop::trials::Party;

use crate::redisson::case::{Case, Way};
use crate::redisson::stage::{QUIET, Stage};

/// How a kind is spoken of. `@` is the name; `%` is what entering answered.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) kind: &'static str,
    /// Said once, to begin with.
    pub(crate) setup: Option<&'static str>,
    pub(crate) enter: &'static str,
    pub(crate) attempt: &'static str,
    pub(crate) leave: &'static str,
    /// How the counting loop names it: on Redisson's side, and on ours.
    pub(crate) counted: [&'static str; 2],
    /// Where waiters listen; nothing if each has a place of its own in a queue.
    pub(crate) channel: Option<&'static str>,
    /// Of the address of Tenure.
    pub(crate) options: &'static str,
}

pub(crate) const KINDS: [Words; 7] = [
    Words {
        kind: "lock",
        setup: None,
        enter: "lock plain @ 1800000",
        attempt: "try plain @",
        leave: "unlock plain @",
        counted: ["plain @", "plain @"],
        channel: Some("redisson_lock__channel:{@}"),
        options: QUIET,
    },
    Words {
        kind: "fair",
        setup: None,
        enter: "lock fair @ 1800000",
        attempt: "try fair @",
        leave: "unlock fair @",
        counted: ["fair @", "fair @"],
        channel: None,
        options: QUIET,
    },
    Words {
        kind: "read/write",
        setup: None,
        enter: "lock write @ 1800000",
        attempt: "try write @",
        leave: "unlock write @",
        counted: ["write @", "write @"],
        channel: Some("redisson_rwlock:{@}"),
        options: QUIET,
    },
    Words {
        kind: "fenced",
        setup: None,
        enter: "lock fenced @ 1800000",
        attempt: "try fenced @",
        leave: "unlock fenced @",
        counted: ["fenced @", "fenced @"],
        channel: Some("redisson_lock__channel:{@}"),
        options: "poll=30m&lease=30m&fence=redisson",
    },
    Words {
        kind: "semaphore",
        setup: Some("sem.set @ 1"),
        enter: "sem.acquire @ 1",
        attempt: "sem.try @ 1",
        leave: "sem.release @ 1",
        counted: ["semaphore @", "semaphore @"],
        channel: Some("redisson_sc:{@}"),
        options: QUIET,
    },
    Words {
        kind: "permits",
        setup: Some("permit.set @ 1"),
        enter: "permit.acquire @ 1800000",
        attempt: "permit.try @ 0 1800000",
        leave: "permit.release @ %",
        counted: ["permit @", "permit @"],
        channel: Some("redisson_sc:{@}"),
        options: "poll=30m&lease=30m&permit_slack=1s",
    },
    Words {
        kind: "multi",
        setup: None,
        enter: "multi.lock @1,@2 1800000",
        attempt: "multi.try @1,@2",
        leave: "multi.unlock @1,@2",
        // In opposite orders, on purpose.
        counted: ["multi @1,@2", "multi @2,@1"],
        channel: Some("redisson_lock__channel:{@1}"),
        options: QUIET,
    },
];

impl Words {
    pub(crate) fn leave(&self, ticket: &str) -> String {
        self.leave.replace('%', ticket)
    }

    /// The request to enter with another lease, where the kind has one.
    pub(crate) fn enter_for(&self, lease: Duration) -> String {
        self.enter.replace("1800000", &lease.as_millis().to_string())
    }

    /// Waits until so many wait, each in a process of its own.
    pub(crate) async fn waiting(&self, stage: &Stage, n: usize) {
        match self.channel {
            Some(channel) => stage.listening(channel, n as i64).await,
            None => drop(stage.queued(n).await),
        }
    }

    /// What trying answered: the ticket, unless it was busy.
    pub(crate) async fn attempt(&self, party: &Party, thread: &str) -> Option<String> {
        let answer = party.call(thread, self.attempt).await;
        (answer != "false" && answer != "none").then_some(answer)
    }

    pub(crate) async fn set_up(&self, party: &Party) {
        if let Some(setup) = self.setup {
            party.says("setup", setup, "true").await;
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for words in KINDS {
        let kind = words.kind;
        cases.push(Case::new(kind, "redisson_holds_tenure_waits", Way::FromPeer, move |stage| async move {
            let (jvm, rust) = (stage.jvm(0).await, stage.worker_with(0, words.options).await);
            hand_over(&stage, words, &jvm, &rust).await;
        }));
        cases.push(Case::new(
            kind,
            "tenure_holds_redisson_waits",
            Way::FromTenure,
            move |stage| async move {
                let (jvm, rust) = (stage.jvm(0).await, stage.worker_with(0, words.options).await);
                hand_over(&stage, words, &rust, &jvm).await;
            },
        ));
        cases.push(Case::new(kind, "a_number_kept_by_both_loses_nothing", Way::Both, move |stage| {
            keep_a_number(stage, words)
        }));
    }
    cases
}

async fn hand_over(stage: &Stage, words: Words, holder: &Party, waiter: &Party) {
    words.set_up(holder).await;
    let ticket = holder.call("holder", words.enter).await;
    assert_eq!(words.attempt(waiter, "waiter").await, None, "two are in");
    let waiting = waiter.spawn("waiter", words.enter);
    words.waiting(stage, 1).await;
    waiter.parked("waiter").await;
    assert!(waiting.is_open(), "two are in");
    holder.call("holder", &words.leave(&ticket)).await;
    let ticket = waiting.answer().await.expect("granted");
    assert_eq!(words.attempt(holder, "holder").await, None, "two are in");
    waiter.call("waiter", &words.leave(&ticket)).await;
    let ticket = words.attempt(holder, "holder").await.expect("free again");
    holder.call("holder", &words.leave(&ticket)).await;
}

/// By two processes of each side.
async fn keep_a_number(stage: Stage, words: Words) {
    let n = 25;
    let jvms = [stage.jvm(0).await, stage.jvm(1).await];
    let workers = [stage.worker_with(0, words.options).await, stage.worker_with(1, words.options).await];
    words.set_up(&jvms[0]).await;
    let mut loops = Vec::new();
    for (side, parties) in [jvms, workers].iter().enumerate() {
        let request = format!("count @:number {n} {}", words.counted[side]);
        loops.extend(parties.iter().map(|party| party.spawn("loop", &request)));
    }
    for one in loops {
        let counted = one.answer_while(|| stage.ask("GET @:number").int()).await;
        let state = || format!("counted {:?}: {:?}", stage.ask("GET @:number"), stage.ask("HGETALL @"));
        assert_eq!(counted.unwrap_or_else(|e| panic!("{e}: {}", state())), n.to_string());
    }
    assert_eq!(stage.number("GET @:number"), 4 * n, "two were in at once");
}
