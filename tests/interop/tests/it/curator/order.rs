//! One queue with waiters of both sides in it, served in the order of coming.

use tokio::sync::mpsc;

use crate::curator::mutual::Words;
use crate::curator::side::{Side, granted};
use crate::curator::stage::Stage;
use crate::curator::{Case, Way};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["fair", "read/write", "semaphore", "leader"] {
        let words = Words::of(kind);
        cases.push(Case::new(kind, "all_are_served_in_the_order_of_coming", Way::Both, move |stage| {
            order(stage, words)
        }));
    }
    for kind in ["fair", "read/write", "semaphore", "leader"] {
        let words = Words::of(kind);
        cases.push(Case::new(kind, "who_leaves_early_changes_no_order", Way::Both, move |stage| {
            leaving_early(stage, words)
        }));
    }
    cases
}

/// The numbers of those who get in come out; each leaves at once.
fn pass_through(side: &Side, n: usize, entered: &mpsc::UnboundedSender<usize>) {
    let (side, entered, thread) = (side.clone(), entered.clone(), format!("waiter-{n}"));
    let waiting = side.wait(&thread);
    tokio::spawn(async move {
        granted(waiting).await;
        entered.send(n).expect("somebody counts");
        side.leave(&thread).await;
    });
}

/// The next `n` who get in.
async fn served(mut order: mpsc::UnboundedReceiver<usize>, n: usize) -> Vec<usize> {
    let mut all = Vec::new();
    while all.len() < n {
        all.push(order.recv().await.expect("everybody gets in"));
    }
    all
}

async fn order(stage: Stage, words: Words) {
    let jvms = [words.jvm(&stage, 0).await, words.jvm(&stage, 1).await];
    // Those of one process that wait for the same stand in the queue as one, unless it is a fair lock.
    let rusts = [words.rust(&stage, 0).await, words.rust(&stage, 1).await, words.rust(&stage, 2).await];
    jvms[0].enter("holder").await;
    words.waiting(&stage, 0).await;
    let (entered, order) = mpsc::unbounded_channel();
    let all = [&jvms[1], &rusts[0], &rusts[1], &jvms[0], &rusts[2], &jvms[1]];
    for (n, side) in all.into_iter().enumerate() {
        pass_through(side, n, &entered);
        words.waiting(&stage, n + 1).await;
    }
    jvms[0].leave("holder").await;
    assert_eq!(served(order, all.len()).await, [0, 1, 2, 3, 4, 5]);
    words.nobody(&stage).await;
}

/// One of each side gives up in the middle of the queue.
async fn leaving_early(stage: Stage, words: Words) {
    let jvm = words.jvm(&stage, 0).await;
    let rusts = [words.rust(&stage, 0).await, words.rust(&stage, 1).await, words.rust(&stage, 2).await];
    rusts[0].enter("holder").await;
    words.waiting(&stage, 0).await;
    let (entered, order) = mpsc::unbounded_channel();
    pass_through(&jvm, 0, &entered);
    words.waiting(&stage, 1).await;
    let leaving = [(&rusts[1], rusts[1].wait("leaving")), (&jvm, jvm.wait("leaving"))];
    words.waiting(&stage, 3).await;
    pass_through(&rusts[2], 1, &entered);
    words.waiting(&stage, 4).await;
    pass_through(&jvm, 2, &entered);
    words.waiting(&stage, 5).await;
    for (side, waiting) in leaving {
        side.party.interrupt("leaving").await;
        waiting.answer().await.expect_err("interrupted");
    }
    words.waiting(&stage, 3).await;
    rusts[0].leave("holder").await;
    assert_eq!(served(order, 3).await, [0, 1, 2]);
    words.nobody(&stage).await;
}
