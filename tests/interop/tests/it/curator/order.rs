//! One queue with waiters of both sides, served in order of arrival.

use tokio::sync::mpsc;

use crate::curator::fixture::Fixture;
use crate::curator::mutual::KindCommands;
use crate::curator::side::Side;
use crate::curator::{Case, Direction};
use crate::fixture::receive_order;
use crate::fixture::wait_for_grant;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["fair", "read/write", "semaphore", "leader"] {
        let commands = KindCommands::of(kind);
        cases.push(Case::new(
            kind,
            "all_are_served_in_the_order_of_coming",
            Direction::Both,
            move |fixture| order(fixture, commands),
        ));
    }
    for kind in ["fair", "read/write", "semaphore", "leader"] {
        let commands = KindCommands::of(kind);
        cases.push(Case::new(kind, "who_leaves_early_changes_no_order", Direction::Both, move |fixture| {
            leaving_early(fixture, commands)
        }));
    }
    cases
}

/// Sends `n` once the lock is granted, and releases it at once.
fn pass_through(side: &Side, n: usize, entered: &mpsc::UnboundedSender<usize>) {
    let (side, entered, thread) = (side.clone(), entered.clone(), format!("waiter-{n}"));
    let waiting = side.spawn_acquire(&thread);
    tokio::spawn(async move {
        wait_for_grant(waiting).await;
        entered.send(n).expect("somebody counts");
        side.release(&thread).await;
    });
}

async fn order(fixture: Fixture, commands: KindCommands) {
    let jvms = [commands.jvm(&fixture, 0).await, commands.jvm(&fixture, 1).await];
    // Waiters of one process share one queue position, except for a fair lock.
    let rusts = [
        commands.tenure(&fixture, 0).await,
        commands.tenure(&fixture, 1).await,
        commands.tenure(&fixture, 2).await,
    ];
    jvms[0].acquire("holder").await;
    commands.wait_for_waiters(&fixture, 0).await;
    let (entered, order) = mpsc::unbounded_channel();
    let all = [&jvms[1], &rusts[0], &rusts[1], &jvms[0], &rusts[2], &jvms[1]];
    for (n, side) in all.into_iter().enumerate() {
        pass_through(side, n, &entered);
        commands.wait_for_waiters(&fixture, n + 1).await;
    }
    jvms[0].release("holder").await;
    assert_eq!(receive_order(order, all.len()).await, [0, 1, 2, 3, 4, 5]);
    commands.wait_until_empty(&fixture).await;
}

/// One of each side gives up in the middle of the queue.
async fn leaving_early(fixture: Fixture, commands: KindCommands) {
    let jvm = commands.jvm(&fixture, 0).await;
    let rusts = [
        commands.tenure(&fixture, 0).await,
        commands.tenure(&fixture, 1).await,
        commands.tenure(&fixture, 2).await,
    ];
    rusts[0].acquire("holder").await;
    commands.wait_for_waiters(&fixture, 0).await;
    let (entered, order) = mpsc::unbounded_channel();
    pass_through(&jvm, 0, &entered);
    commands.wait_for_waiters(&fixture, 1).await;
    let leaving = [(&rusts[1], rusts[1].spawn_acquire("leaving")), (&jvm, jvm.spawn_acquire("leaving"))];
    commands.wait_for_waiters(&fixture, 3).await;
    pass_through(&rusts[2], 1, &entered);
    commands.wait_for_waiters(&fixture, 4).await;
    pass_through(&jvm, 2, &entered);
    commands.wait_for_waiters(&fixture, 5).await;
    for (side, waiting) in leaving {
        side.process.interrupt("leaving").await;
        waiting.answer().await.expect_err("interrupted");
    }
    commands.wait_for_waiters(&fixture, 3).await;
    rusts[0].release("holder").await;
    assert_eq!(receive_order(order, 3).await, [0, 1, 2]);
    commands.wait_until_empty(&fixture).await;
}
