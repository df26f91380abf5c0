//! What holds for everything that lets one in at a time, each kind in its own words.

use std::time::Duration;

use interop::trials::Doomed;

use crate::curator::side::{Side, granted};
use crate::curator::stage::Stage;
use crate::curator::{Case, Way};

/// How a kind is spoken of. `@` is the name.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) kind: &'static str,
    pub(crate) jvm: &'static str,
    pub(crate) rust: &'static str,
    /// How long an attempt of Curator takes.
    wait: &'static str,
    /// The node below which those who wait stand.
    pub(crate) queue: &'static str,
    /// Whether whoever is in stands there too.
    holder_queues: bool,
}

const LOCK: Words =
    Words { kind: "lock", jvm: "plain @", rust: "plain @", wait: "0", queue: "@", holder_queues: true };

pub(crate) const KINDS: [Words; 8] = [
    LOCK,
    Words { kind: "fair", jvm: "fair @", rust: "fair @", ..LOCK },
    Words { kind: "read/write", jvm: "write @", rust: "write @", ..LOCK },
    Words {
        kind: "semaphore",
        jvm: "permit @",
        rust: "permit @",
        queue: "@/locks",
        holder_queues: false,
        ..LOCK
    },
    Words {
        kind: "semaphore-mutex",
        jvm: "semaphore-mutex @",
        rust: "permit @",
        queue: "@/locks",
        holder_queues: false,
        ..LOCK
    },
    Words { kind: "leader", jvm: "leader:jvm @", rust: "leader:rust @", wait: "300", ..LOCK },
    Words { kind: "selector", jvm: "selector:jvm @", rust: "plain @", wait: "300", ..LOCK },
    Words { kind: "multi", jvm: "multi @1,@2", rust: "multi @1,@2", queue: "@1", ..LOCK },
];

impl Words {
    /// The kind of this name.
    pub(crate) fn of(kind: &str) -> Self {
        KINDS.into_iter().find(|words| words.kind == kind).expect("a kind")
    }

    pub(crate) async fn jvm(&self, stage: &Stage, n: usize) -> Side {
        Side::new(stage.jvm(n).await, self.jvm, self.wait)
    }

    pub(crate) async fn rust(&self, stage: &Stage, n: usize) -> Side {
        Side::new(stage.worker(n).await, self.rust, "0")
    }

    pub(crate) async fn own_jvm(&self, stage: &Stage, session: Duration) -> Side {
        Side::new(stage.own_jvm(session).await, self.jvm, self.wait)
    }

    pub(crate) async fn own_rust(&self, stage: &Stage, session: Duration) -> Side {
        Side::new(stage.own_worker(session).await, self.rust, "0")
    }

    /// For a part of a trial: the one that is killed, and another of the other side.
    pub(crate) async fn victim_and_other(&self, stage: &Stage, doomed: &Doomed, ours: bool) -> [Side; 2] {
        let victim = doomed.party(stage.name());
        match ours {
            true => [Side::new(victim, self.rust, "0"), self.jvm(stage, 0).await],
            false => [Side::new(victim, self.jvm, self.wait), self.rust(stage, 0).await],
        }
    }

    /// Waits until one is in and so many wait.
    pub(crate) async fn waiting(&self, stage: &Stage, n: usize) {
        stage.lined_up(self.queue, n + usize::from(self.holder_queues)).await;
    }

    /// Waits until nothing is left of anybody.
    pub(crate) async fn nobody(&self, stage: &Stage) {
        stage.queued(self.queue, 0).await;
        if !self.holder_queues {
            stage.queued("@/leases", 0).await;
        }
        if self.kind == "multi" {
            stage.queued("@2", 0).await;
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for words in KINDS {
        let kind = words.kind;
        cases.push(Case::new(kind, "curator_holds_tenure_waits", Way::FromPeer, move |stage| async move {
            let (jvm, rust) = (words.jvm(&stage, 0).await, words.rust(&stage, 0).await);
            hand_over(&stage, words, &jvm, &rust).await;
        }));
        cases.push(Case::new(kind, "tenure_holds_curator_waits", Way::FromTenure, move |stage| async move {
            let (jvm, rust) = (words.jvm(&stage, 0).await, words.rust(&stage, 0).await);
            hand_over(&stage, words, &rust, &jvm).await;
        }));
        cases.push(Case::new(kind, "a_number_kept_by_both_loses_nothing", Way::Both, move |stage| {
            keep_a_number(stage, words)
        }));
    }
    cases
}

async fn hand_over(stage: &Stage, words: Words, holder: &Side, waiter: &Side) {
    holder.enter("holder").await;
    // Whoever gives up leaves nothing behind.
    assert!(!waiter.attempt("waiter").await, "two are in");
    words.waiting(stage, 0).await;
    let waiting = waiter.wait("waiter");
    words.waiting(stage, 1).await;
    assert!(!holder.attempt("other").await, "two are in");
    words.waiting(stage, 1).await;
    assert!(waiting.is_open(), "two are in");
    holder.leave("holder").await;
    granted(waiting).await;
    assert!(waiter.is_in("waiter").await);
    assert!(!holder.attempt("holder").await, "two are in");
    words.waiting(stage, 0).await;
    waiter.leave("waiter").await;
    words.nobody(stage).await;
    holder.enter("holder").await;
    holder.leave("holder").await;
    words.nobody(stage).await;
}

/// By two processes of each side, with two threads each.
async fn keep_a_number(stage: Stage, words: Words) {
    let n = 12;
    let sides = [
        words.jvm(&stage, 0).await,
        words.jvm(&stage, 1).await,
        words.rust(&stage, 0).await,
        words.rust(&stage, 1).await,
    ];
    let mut loops = Vec::new();
    for thread in ["loop-0", "loop-1"] {
        loops.extend(sides.iter().map(|side| side.count(thread, n)));
    }
    let all = n * loops.len() as i64;
    for one in loops {
        assert_eq!(one.answer_while(|| stage.progress()).await.expect("all counted"), n.to_string());
    }
    assert_eq!(stage.number(), all, "two were in at once");
    words.nobody(&stage).await;
}
