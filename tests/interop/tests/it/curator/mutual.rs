//! Cases for every exclusive kind, each with its own commands.

use std::time::Duration;

use interop::trials::SharedVictim;

use crate::curator::fixture::Fixture;
use crate::curator::side::Side;
use crate::curator::{Case, Direction};
use crate::fixture::wait_for_grant;

/// The commands of a kind. `@` is the name.
#[derive(Clone, Copy)]
pub(crate) struct KindCommands {
    pub(crate) kind: &'static str,
    pub(crate) jvm: &'static str,
    pub(crate) rust: &'static str,
    /// The wait of a try by Curator, in milliseconds.
    wait: &'static str,
    /// The node whose children are the queue.
    pub(crate) queue: &'static str,
    /// Whether the holder has a child there, too.
    holder_queues: bool,
}

const LOCK: KindCommands = KindCommands {
    kind: "lock",
    jvm: "plain @",
    rust: "plain @",
    wait: "0",
    queue: "@",
    holder_queues: true,
};

pub(crate) const KINDS: [KindCommands; 8] = [
    LOCK,
    KindCommands { kind: "fair", jvm: "fair @", rust: "fair @", ..LOCK },
    KindCommands { kind: "read/write", jvm: "write @", rust: "write @", ..LOCK },
    KindCommands {
        kind: "semaphore",
        jvm: "permit @",
        rust: "permit @",
        queue: "@/locks",
        holder_queues: false,
        ..LOCK
    },
    KindCommands {
        kind: "semaphore-mutex",
        jvm: "semaphore-mutex @",
        rust: "permit @",
        queue: "@/locks",
        holder_queues: false,
        ..LOCK
    },
    KindCommands { kind: "leader", jvm: "leader:jvm @", rust: "leader:rust @", wait: "300", ..LOCK },
    KindCommands { kind: "selector", jvm: "selector:jvm @", rust: "plain @", wait: "300", ..LOCK },
    KindCommands { kind: "multi", jvm: "multi @1,@2", rust: "multi @1,@2", queue: "@1", ..LOCK },
];

impl KindCommands {
    /// The kind of this name.
    pub(crate) fn of(kind: &str) -> Self {
        KINDS.into_iter().find(|commands| commands.kind == kind).expect("a kind")
    }

    pub(crate) async fn jvm(&self, fixture: &Fixture, n: usize) -> Side {
        Side::new(fixture.jvm(n).await, self.jvm, self.wait)
    }

    pub(crate) async fn tenure(&self, fixture: &Fixture, n: usize) -> Side {
        Side::new(fixture.worker(n).await, self.rust, "0")
    }

    pub(crate) async fn own_jvm(&self, fixture: &Fixture, session: Duration) -> Side {
        Side::new(fixture.own_jvm(session).await, self.jvm, self.wait)
    }

    pub(crate) async fn own_tenure(&self, fixture: &Fixture, session: Duration) -> Side {
        Side::new(fixture.own_worker(session).await, self.rust, "0")
    }

    /// For a part of a trial: the process that is killed, and one of the other side.
    pub(crate) async fn victim_and_other(
        &self,
        fixture: &Fixture,
        shared_victim: &SharedVictim,
        ours: bool,
    ) -> [Side; 2] {
        let victim = shared_victim.process(fixture.name());
        match ours {
            true => [Side::new(victim, self.rust, "0"), self.jvm(fixture, 0).await],
            false => [Side::new(victim, self.jvm, self.wait), self.tenure(fixture, 0).await],
        }
    }

    /// Waits until the lock is held and `n` clients wait.
    pub(crate) async fn wait_for_waiters(&self, fixture: &Fixture, n: usize) {
        fixture.wait_for_queue(self.queue, n + usize::from(self.holder_queues)).await;
    }

    /// Waits until there are no holders and no waiters.
    pub(crate) async fn wait_until_empty(&self, fixture: &Fixture) {
        fixture.wait_for_children(self.queue, 0).await;
        if !self.holder_queues {
            fixture.wait_for_children("@/leases", 0).await;
        }
        if self.kind == "multi" {
            fixture.wait_for_children("@2", 0).await;
        }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for commands in KINDS {
        let kind = commands.kind;
        cases.push(Case::new(
            kind,
            "curator_holds_tenure_waits",
            Direction::FromPeer,
            move |fixture| async move {
                let (jvm, rust) = (commands.jvm(&fixture, 0).await, commands.tenure(&fixture, 0).await);
                hand_over(&fixture, commands, &jvm, &rust).await;
            },
        ));
        cases.push(Case::new(
            kind,
            "tenure_holds_curator_waits",
            Direction::FromTenure,
            move |fixture| async move {
                let (jvm, rust) = (commands.jvm(&fixture, 0).await, commands.tenure(&fixture, 0).await);
                hand_over(&fixture, commands, &rust, &jvm).await;
            },
        ));
        cases.push(Case::new(kind, "a_number_kept_by_both_loses_nothing", Direction::Both, move |fixture| {
            keep_a_number(fixture, commands)
        }));
    }
    cases
}

async fn hand_over(fixture: &Fixture, commands: KindCommands, holder: &Side, waiter: &Side) {
    holder.acquire("holder").await;
    // A failed try leaves nothing in the queue.
    assert!(!waiter.try_acquire("waiter").await, "two are in");
    commands.wait_for_waiters(fixture, 0).await;
    let waiting = waiter.spawn_acquire("waiter");
    commands.wait_for_waiters(fixture, 1).await;
    assert!(!holder.try_acquire("other").await, "two are in");
    commands.wait_for_waiters(fixture, 1).await;
    assert!(waiting.is_open(), "two are in");
    holder.release("holder").await;
    wait_for_grant(waiting).await;
    assert!(waiter.is_held("waiter").await);
    assert!(!holder.try_acquire("holder").await, "two are in");
    commands.wait_for_waiters(fixture, 0).await;
    waiter.release("waiter").await;
    commands.wait_until_empty(fixture).await;
    holder.acquire("holder").await;
    holder.release("holder").await;
    commands.wait_until_empty(fixture).await;
}

/// By two processes of each side, with two threads each.
async fn keep_a_number(fixture: Fixture, commands: KindCommands) {
    let n = 12;
    let sides = [
        commands.jvm(&fixture, 0).await,
        commands.jvm(&fixture, 1).await,
        commands.tenure(&fixture, 0).await,
        commands.tenure(&fixture, 1).await,
    ];
    let mut loops = Vec::new();
    for thread in ["loop-0", "loop-1"] {
        loops.extend(sides.iter().map(|side| side.count(thread, n)));
    }
    let all = n * loops.len() as i64;
    for one in loops {
        assert_eq!(one.answer_while(|| fixture.progress()).await.expect("all counted"), n.to_string());
    }
    assert_eq!(fixture.number(), all, "two were in at once");
    commands.wait_until_empty(&fixture).await;
}
