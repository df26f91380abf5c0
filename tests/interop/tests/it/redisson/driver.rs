//! The peer's driver by itself: Redisson with Redisson.

use interop::{Address, Error, Jvm, Options};
use testbed::until_true;

use crate::driver::{assert_loop_reports, is_running};
use crate::redisson::case::{Case, Direction};
use crate::redisson::environment::WATCHDOG;
use crate::redisson::fixture::Fixture;

macro_rules! cases {
    ($($name:ident)*) => { vec![$(Case::new("driver", stringify!($name), Direction::Alone, $name)),*] };
}

pub(crate) fn cases() -> Vec<Case> {
    cases! {
        two_processes_exclude_each_other_and_wake_by_message
        threads_are_owners_and_wait_at_once
        each_kind_of_lock_has_its_verbs
        semaphores_and_latches_have_their_verbs
        a_number_kept_by_two_processes_loses_nothing
        a_closed_loop_says_what_it_did
        the_watchdog_is_as_told_and_renews
        a_killed_process_answers_no_more_and_its_lease_stays
        a_dropped_process_is_gone
        a_store_that_is_down_is_an_error
    }
}

async fn two_processes_exclude_each_other_and_wake_by_message(fixture: Fixture) {
    let (a, b) = (fixture.jvm(0).await, fixture.jvm(1).await);
    let owner = b.call("t1", "owner").await;
    // Not a write lock: Redisson forgets its message where the thread has subscribed but does not sleep yet.
    for (kind, channel) in [
        ("plain", "redisson_lock__channel:{@plain}".to_owned()),
        ("fair", format!("redisson_lock__channel:{{@fair}}:{owner}")),
        ("fenced", "redisson_lock__channel:{@fenced}".to_owned()),
    ] {
        let on = format!("{kind} @{kind}");
        a.call("t1", &format!("lock {on} 1800000")).await;
        b.expect_answer("t1", &format!("try {on}"), "false").await;
        let waiting = b.spawn("t1", &format!("lock {on} 1800000"));
        fixture.wait_for_subscribers(&channel, 1).await;
        assert!(waiting.is_open());
        a.call("t1", &format!("unlock {on}")).await;
        waiting.answer().await.unwrap();
        b.expect_answer("t1", &format!("is-held {on}"), "true").await;
        b.call("t1", &format!("unlock {on}")).await;
    }
}

async fn threads_are_owners_and_wait_at_once(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    let (t1, t2) = (jvm.call("t1", "owner").await, jvm.call("t2", "owner").await);
    assert_ne!(t1, t2);
    assert_eq!(t1.split_once(':').unwrap().0, t2.split_once(':').unwrap().0);
    jvm.expect_answers("t1", "lock plain @ →\n lock plain @ →\n holds plain @ → 2").await;
    assert_eq!(fixture.number(&format!("HGET @ {t1}")), 2);
    let waiting = [jvm.spawn("t2", "lock plain @"), jvm.spawn("t3", "lock plain @")];
    fixture.wait_for_subscribers("redisson_lock__channel:{@}", 1).await;
    jvm.expect_answers("t1", "unlock plain @ →\n unlock plain @ →").await;
    let [second, third] = waiting;
    let first_in = tokio::select! {
        done = second.answer() => { done.unwrap(); "t2" }
        done = third.answer() => { done.unwrap(); "t3" }
    };
    jvm.call(first_in, "unlock plain @").await;
    let other = if first_in == "t2" { "t3" } else { "t2" };
    // This request is executed after the lock request of the same thread.
    jvm.expect_answer(other, "is-held plain @", "true").await;
    jvm.call(other, "unlock plain @").await;
}

async fn each_kind_of_lock_has_its_verbs(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    for kind in ["plain", "fair", "read", "write", "fenced"] {
        let lines = "
            is-locked K → false
            try K → true
            is-locked K → true
            is-held K → true
            holds K → 1
            unlock K →
            unlock K → IllegalMonitorStateException
            try K 10 1800000 → true
            force-unlock K → true
            force-unlock K → false
            ttl K → -2
            lock K 1800000 →
            unlock K →";
        // Redisson unlocks an absent fair lock without an error.
        let error = if kind == "fair" { "" } else { "IllegalMonitorStateException" };
        let lines = lines.replace("IllegalMonitorStateException", error);
        jvm.expect_answers("t1", &lines.replace('K', &format!("{kind} @{kind}"))).await;
        jvm.call("t1", &format!("lock {kind} @{kind} 1800000")).await;
        let ttl: i64 = jvm.call("t1", &format!("ttl {kind} @{kind}")).await.parse().unwrap();
        assert!((900_000..=1_800_000).contains(&ttl), "{kind}: {ttl}");
    }
    jvm.expect_answers(
        "t1",
        "
        fenced.lock @f → 1
        fenced.token @f → 1
        fenced.try @f 100 1800000 → 2
        holds fenced @f → 2
        multi.lock @a,@b 1800000 →
        is-held plain @a → true
        is-held plain @b → true
        multi.unlock @a,@b →
        multi.try @a,@b 120000 → true
        multi.unlock @a,@b →
        try nothing @ → IllegalArgumentException
        sing plain @ → IllegalArgumentException",
    )
    .await;
}

async fn semaphores_and_latches_have_their_verbs(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    jvm.expect_answers(
        "t1",
        "
        sem.set @s 5 → true
        sem.set @s 6 → false
        sem.acquire @s 2 →
        sem.try @s 4 → false
        sem.try @s 4 20 → false
        sem.try @s 3 20 → true
        sem.release @s 1 →
        sem.add @s 2 →
        sem.available @s → 3
        sem.drain @s → 3
        permit.set @p 2 → true
        permit.available @p → 2
        permit.resize @p 3 →
        permit.size @p → 3
        latch.set @l 2 → true
        latch.set @l 2 → false
        latch.await @l 20 → false
        latch.down @l →
        latch.count @l → 1
        latch.down @l →
        latch.await @l → true
        latch.delete @l → false",
    )
    .await;
    let id = jvm.call("t1", "permit.try @p 0 1800000").await;
    assert_eq!(id.len(), 32, "{id}");
    let two = jvm.call("t1", "permit.try-many @p 2 0 1800000").await;
    jvm.expect_answers(
        "t1",
        &format!(
            "
            permit.acquired @p → 3
            permit.try @p 20 1800000 → none
            permit.extend @p {id} 60000 → true
            permit.release @p {two} →
            permit.try-release @p {id} → true
            permit.try-release @p {id} → false
            permit.available @p → 3"
        ),
    )
    .await;
}

async fn a_number_kept_by_two_processes_loses_nothing(fixture: Fixture) {
    let (a, b) = (fixture.jvm(0).await, fixture.jvm(1).await);
    a.expect_answers("t1", "sem.set @semaphore 1 → true \n permit.set @permit 1 → true").await;
    for (kind, name) in [
        ("plain", "@plain"),
        ("fair", "@fair"),
        ("write", "@write"),
        ("fenced", "@fenced"),
        ("semaphore", "@semaphore"),
        ("permit", "@permit"),
        ("multi", "@m1,@m2"),
    ] {
        let request = format!("count @number:{kind} 50 {kind} {name}");
        let loops = [a.spawn("t1", &request), a.spawn("t2", &request), b.spawn("t1", &request)];
        for one in loops {
            assert_eq!(one.answer().await.unwrap(), "50");
        }
        assert_eq!(fixture.number(&format!("GET @number:{kind}")), 150, "{kind}");
    }
}

async fn a_closed_loop_says_what_it_did(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    for scope in ["own", "shared"] {
        assert_loop_reports(&jvm, &format!("bench.turns plain @{scope} {scope} 3 200 0 0")).await;
    }
    let left = fixture.command("KEYS *@*").texts();
    assert!(left.iter().all(|key| key.starts_with("redisson_unlock_latch:")), "{left:?}");
}

async fn the_watchdog_is_as_told_and_renews(fixture: Fixture) {
    let jvm = fixture.jvm(0).await;
    jvm.call("t1", "lock plain @").await;
    let life = fixture.number("PTTL @");
    assert!((1..=WATCHDOG.as_millis() as i64).contains(&life), "{life}");
    fixture.wait_for_renewal("@").await;
    jvm.call("t1", "unlock plain @").await;
}

async fn a_killed_process_answers_no_more_and_its_lease_stays(fixture: Fixture) {
    let (a, b) = (fixture.jvm(0).await, fixture.own_jvm(Options::small()).await);
    a.call("t1", "lock plain @a 1800000").await;
    b.call("t1", "lock plain @b 1800000").await;
    let waiting = b.spawn("t1", "lock plain @a");
    fixture.wait_for_subscribers("redisson_lock__channel:{@a}", 1).await;
    let pid = b.pid();
    assert!(is_running(pid));
    b.kill().await;
    assert!(!is_running(pid));
    assert!(matches!(waiting.answer().await, Err(Error::Ended { .. })));
    assert_eq!(fixture.number("EXISTS @b"), 1);
    until_true("nobody listens", || fixture.subscribers("redisson_lock__channel:{@a}") == 0).await;
}

async fn a_dropped_process_is_gone(fixture: Fixture) {
    let jvm = fixture.own_jvm(Options::small()).await;
    let pid = jvm.pid();
    drop(jvm);
    // The runtime reaps it in the background.
    until_true("it is gone", || !is_running(pid)).await;
}

async fn a_store_that_is_down_is_an_error(_: Fixture) {
    let address = Address::Single("127.0.0.1:1".into());
    let error = Jvm::start(&address, &Options::small()).await.unwrap_err();
    assert_eq!(error.class(), Some("RedisConnectionException"), "{error}");
}
