//! The peer's driver by itself: Curator with Curator.

use std::time::Instant;

use interop::trials::TrialProcess;
use interop::{Curator, CuratorOptions, Error};

use crate::curator::environment::{LONG, SHORT};
use crate::curator::fixture::Fixture;
use crate::curator::{Case, Direction};
use crate::driver::{assert_loop_reports, is_running};

macro_rules! cases {
    ($($name:ident)*) => { vec![$(Case::new("driver", stringify!($name), Direction::Alone, $name)),*] };
}

pub(crate) fn cases() -> Vec<Case> {
    cases! {
        two_processes_exclude_each_other
        a_thread_enters_again_what_it_has
        a_read_under_ones_own_write_keeps_the_place
        permits_are_as_many_as_are_said
        leaders_say_who_they_are
        whoever_is_revocable_is_asked
        an_interrupted_waiter_leaves_nothing_behind
        a_number_kept_by_two_processes_loses_nothing
        a_closed_loop_says_what_it_did
        holds_of_a_killed_process_end_with_its_session
        holds_of_a_closed_client_are_free_at_once
        a_store_that_is_down_is_an_error
    }
}

/// Waits until the driver reports `n` children of a node, and returns them.
async fn children(jvm: &TrialProcess, name: &str, n: usize) -> Vec<String> {
    let look = || async {
        let all = jvm.call("looks", &format!("node.children {name}")).await;
        all.split(',').filter(|child| !child.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    testbed::until(&format!("{n} children of {name}"), || async { look().await.len() == n }).await;
    look().await
}

async fn two_processes_exclude_each_other(fixture: Fixture) {
    let (a, b) = (fixture.jvm(0).await, fixture.jvm(1).await);
    for kind in ["plain", "fair", "write", "semaphore-mutex", "permit", "leader:b", "selector:b", "multi"] {
        let name = if kind == "multi" { "@.m1,@.m2".to_owned() } else { format!("@.{kind}") };
        let on = format!("{kind} {name}");
        a.call("t1", &format!("lock {on}")).await;
        a.expect_answer("t1", &format!("is-held {on}"), "true").await;
        b.expect_answer("t1", &format!("try {on} 100"), "false").await;
        let waiting = b.spawn("t1", &format!("lock {on}"));
        let queue = match kind {
            "permit" | "semaphore-mutex" => format!("{name}/leases"),
            "multi" => "@.m1".to_owned(),
            _ => name,
        };
        children(&a, &queue, 2).await;
        assert!(waiting.is_open(), "{kind}");
        a.call("t1", &format!("unlock {on}")).await;
        waiting.answer().await.unwrap();
        a.expect_answer("t1", &format!("is-held {on}"), "false").await;
        b.call("t1", &format!("unlock {on}")).await;
        children(&a, &queue, 0).await;
    }
}

async fn a_thread_enters_again_what_it_has(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    jvm.expect_answers(
        "t1",
        "
        lock plain @/b →
        lock plain @/b →
        unlock plain @/b →
        is-held plain @/b → true
        unlock plain @/b →
        unlock plain @/b → IllegalMonitorStateException
        unlock permit @ → IllegalMonitorStateException
        lock nothing @ → IllegalArgumentException
        sing plain @ → IllegalArgumentException
        participants permit @ → IllegalArgumentException",
    )
    .await;
    assert!(children(&jvm, "@/b", 0).await.is_empty());
}

async fn a_read_under_ones_own_write_keeps_the_place(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    jvm.expect_answers("t1", "lock write @ →").await;
    let writer = jvm.spawn("t2", "lock write @");
    children(&jvm, "@", 2).await;
    jvm.expect_answers("t1", "lock read @ →").await;
    let queue = children(&jvm, "@", 3).await;
    let digits: Vec<_> = queue.iter().map(|child| &child[child.len() - 10..]).collect();
    assert_eq!(digits, ["0000000000", "0000000000", "0000000001"]);
    jvm.expect_answers("t1", "unlock write @ →").await;
    jvm.expect_answer("t3", "try read @", "false").await;
    assert!(writer.is_open());
    jvm.expect_answers("t1", "unlock read @ →").await;
    writer.answer().await.unwrap();
    jvm.call("t2", "unlock write @").await;
}

async fn permits_are_as_many_as_are_said(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    jvm.expect_answers(
        "t1",
        "
        lock permit:4:3 @.s →
        try permit:4:2 @.s → false
        try permit:4 @.s → true
        try permit:4 @.s 50 → false
        unlock permit:4:3 @.s →
        unlock permit:4 @.s →
        shared.set @.size 2 →
        shared.get @.size → 2
        lock permit:=@.size @.t →
        try permit:=@.size:2 @.t → false
        try permit:=@.size @.t → true
        try permit:=@.size @.t → false",
    )
    .await;
    let waiting = jvm.spawn("t2", "lock permit:=@.size @.t");
    children(&jvm, "@.t/leases", 3).await;
    jvm.expect_answers("t1", "shared.set @.size 3 →").await;
    waiting.answer().await.unwrap();
}

async fn leaders_say_who_they_are(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    jvm.expect_answers("t1", "leader.who @ →\n leader.all @ →\n lock leader:one @ →").await;
    let waiting = jvm.spawn("t2", "lock leader:two @");
    let queue = children(&jvm, "@", 2).await;
    jvm.expect_answers("t1", &format!("node.data @/{} → one", queue[0])).await;
    jvm.expect_answers("t1", "leader.who @ → one\n leader.all @ → one,two\n unlock leader:one @ →").await;
    waiting.answer().await.unwrap();
    jvm.expect_answers("t1", "leader.who @ → two").await;
    jvm.call("t2", "unlock leader:two @").await;
}

async fn whoever_is_revocable_is_asked(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    jvm.expect_answers("t1", "revocable plain @ →\n lock plain @ →").await;
    let paths = jvm.call("t1", "participants plain @").await;
    let path = paths.strip_prefix('/').unwrap();
    jvm.expect_answers(
        "t1",
        &format!(
            "
            node.data {path} →
            revoked plain @ → false
            revoke plain @ 0 →
            revoked plain @ 1800000 → true
            node.data {path} → __REVOKE__
            node.write {path} __REVOKE__ →
            revoked plain @ 1800000 → true
            is-held plain @ → true
            node.delete {path} →
            node.owner {path} → gone"
        ),
    )
    .await;
}

async fn an_interrupted_waiter_leaves_nothing_behind(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    for (kind, queue, before) in [
        ("plain", "@.plain", 2),
        ("read", "@.read", 2),
        ("semaphore-mutex", "@.semaphore-mutex/locks", 1),
        ("permit", "@.permit/locks", 1),
        ("leader:a", "@.leader:a", 2),
        ("selector:a", "@.selector:a", 2),
    ] {
        let held = kind.replace("read", "write");
        jvm.call("t1", &format!("lock {held} @.{kind}")).await;
        let waiting = jvm.spawn("t2", &format!("lock {kind} @.{kind}"));
        children(&jvm, queue, before).await;
        jvm.interrupt("t2").await;
        assert_eq!(waiting.answer().await.unwrap_err().class(), Some("InterruptedException"), "{kind}");
        children(&jvm, queue, before - 1).await;
        jvm.call("t1", &format!("unlock {held} @.{kind}")).await;
        jvm.call("t2", &format!("lock {kind} @.{kind}")).await;
        jvm.call("t2", &format!("unlock {kind} @.{kind}")).await;
    }
}

async fn a_number_kept_by_two_processes_loses_nothing(fixture: Fixture) {
    let (a, b) = (fixture.jvm(0).await, fixture.jvm(1).await);
    for (kind, name) in [
        ("plain", "@.plain"),
        ("write", "@.write"),
        ("semaphore-mutex", "@.sm"),
        ("permit", "@.permit"),
        ("leader:me", "@.leader"),
        ("selector:me", "@.selector"),
        ("multi", "@.m1,@.m2"),
    ] {
        let number = format!("@.{kind}.number");
        let request = format!("count {number} 20 {kind} {name}");
        let loops = [a.spawn("t1", &request), a.spawn("t2", &request), b.spawn("t1", &request)];
        for one in loops {
            assert_eq!(one.answer().await.unwrap(), "20");
        }
        assert_eq!(fixture.counted(&number), 60, "{kind}");
    }
}

async fn a_closed_loop_says_what_it_did(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    for scope in ["own", "shared"] {
        assert_loop_reports(&jvm, &format!("bench.turns plain @.{scope} {scope} 3 200 0 0")).await;
    }
    children(&jvm, "@.shared", 0).await;
}

async fn holds_of_a_killed_process_end_with_its_session(fixture: Fixture) {
    let (a, b) = (fixture.jvm(0).await, fixture.own_jvm(SHORT).await);
    b.call("t1", "lock plain @").await;
    let own = b.call("t1", "session").await;
    let child = children(&a, "@", 1).await.remove(0);
    a.expect_answer("t1", &format!("node.owner @/{child}"), &own).await;
    let waiting = a.spawn("t1", "lock plain @");
    children(&a, "@", 2).await;
    let pid = b.pid();
    b.kill().await;
    assert!(!is_running(pid));
    assert!(matches!(b.try_call("t1", "session").await, Err(Error::Ended { .. })));
    waiting.answer().await.unwrap();
    a.call("t1", "unlock plain @").await;
}

async fn holds_of_a_closed_client_are_free_at_once(fixture: Fixture) {
    let (a, b) = (fixture.jvm(0).await, fixture.own_jvm(LONG).await);
    b.call("t1", "lock plain @").await;
    let waiting = a.spawn("t1", "lock plain @");
    children(&a, "@", 2).await;
    let begin = Instant::now();
    b.call("t2", "close").await;
    waiting.answer().await.unwrap();
    assert!(begin.elapsed() < LONG / 2, "only after {:?}: by the end of the session", begin.elapsed());
    children(&a, "@", 1).await;
    a.call("t1", "unlock plain @").await;
}

async fn a_store_that_is_down_is_an_error(_: Fixture) {
    let error = Curator::start("127.0.0.1:1", &CuratorOptions::default()).await.unwrap_err();
    assert_eq!(error.class(), Some("IllegalStateException"), "{error}");
}
