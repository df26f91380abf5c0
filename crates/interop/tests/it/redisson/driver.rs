//! The peer's driver by itself: Redisson with Redisson.

use std::path::Path;
use std::time::{Duration, Instant};

use interop::{Address, Error, Jvm, Options, PATIENCE};
use testbed::{Redis, RedisOptions, Value};

fn address(server: &Redis) -> Address {
    Address::Single(format!("127.0.0.1:{}", server.port()))
}

/// One command, its words separated by spaces.
fn ask(server: &Redis, command: &str) -> Value {
    server.cmd(&command.split(' ').collect::<Vec<_>>()).unwrap()
}

/// Waits until so many wait for messages on a channel. Without blocking: requests are on their way meanwhile.
async fn subscribers(server: &Redis, channel: &str, n: i64) {
    let begin = Instant::now();
    while ask(server, &format!("PUBSUB NUMSUB {channel}")).items()[1].int() != Some(n) {
        assert!(begin.elapsed() < PATIENCE, "{channel}: not {n} subscribers");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn two() -> (Redis, Jvm, Jvm) {
    let server = Redis::start(RedisOptions::default()).unwrap();
    let (address, options) = (address(&server), Options::small());
    let (a, b) = tokio::join!(Jvm::start(&address, &options), Jvm::start(&address, &options));
    (server, a.unwrap(), b.unwrap())
}

async fn one() -> (Redis, Jvm) {
    let server = Redis::start(RedisOptions::default()).unwrap();
    let jvm = Jvm::start(&address(&server), &Options::small()).await.unwrap();
    (server, jvm)
}

/// Asks one after the other; each line is a request and its answer.
async fn converse(jvm: &Jvm, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, expected) = line.split_once(" →").expect("an arrow");
        let answer = match jvm.call("t1", request).await {
            Ok(value) => value,
            Err(e) => e.class().unwrap_or_else(|| panic!("{e}")).to_owned(),
        };
        assert_eq!(answer, expected.trim(), "{request}");
    }
}

fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[tokio::test]
async fn two_processes_exclude_each_other_and_wake_by_message() {
    let (server, a, b) = two().await;
    let owner = b.call("t1", "owner").await.unwrap();
    for (kind, channel) in [
        ("plain", "redisson_lock__channel:{plain}".to_owned()),
        ("fair", format!("redisson_lock__channel:{{fair}}:{owner}")),
        ("write", "redisson_rwlock:{write}".to_owned()),
        ("fenced", "redisson_lock__channel:{fenced}".to_owned()),
    ] {
        let on = format!("{kind} {kind}");
        a.call("t1", &format!("lock {on} 20000")).await.unwrap();
        assert_eq!(b.call("t1", &format!("try {on}")).await.unwrap(), "false");
        let waiting = b.spawn("t1", &format!("lock {on} 20000"));
        subscribers(&server, &channel, 1).await;
        assert!(waiting.is_open());
        let released = Instant::now();
        a.call("t1", &format!("unlock {on}")).await.unwrap();
        waiting.answer().await.unwrap();
        assert!(released.elapsed() < Duration::from_secs(5), "{kind}: by its lease, not by a message");
        assert_eq!(b.call("t1", &format!("is-held {on}")).await.unwrap(), "true");
        b.call("t1", &format!("unlock {on}")).await.unwrap();
    }
}

#[tokio::test]
async fn threads_are_owners_and_wait_at_once() {
    let (server, jvm) = one().await;
    let (t1, t2) = (jvm.call("t1", "owner").await.unwrap(), jvm.call("t2", "owner").await.unwrap());
    assert_ne!(t1, t2);
    assert_eq!(t1.split_once(':').unwrap().0, t2.split_once(':').unwrap().0);
    converse(&jvm, "lock plain a →\n lock plain a →\n holds plain a → 2").await;
    assert_eq!(ask(&server, &format!("HGET a {t1}")).int(), Some(2));
    let waiting = [jvm.spawn("t2", "lock plain a"), jvm.spawn("t3", "lock plain a")];
    subscribers(&server, "redisson_lock__channel:{a}", 1).await;
    converse(&jvm, "unlock plain a →\n unlock plain a →").await;
    let [second, third] = waiting;
    let first_in = tokio::select! {
        done = second.answer() => { done.unwrap(); "t2" }
        done = third.answer() => { done.unwrap(); "t3" }
    };
    jvm.call(first_in, "unlock plain a").await.unwrap();
    let other = if first_in == "t2" { "t3" } else { "t2" };
    // Behind the lock that it still waits for.
    assert_eq!(jvm.call(other, "is-held plain a").await.unwrap(), "true");
}

#[tokio::test]
async fn each_kind_of_lock_has_its_verbs() {
    let (_server, jvm) = one().await;
    for kind in ["plain", "fair", "read", "write", "fenced"] {
        let lines = "
            is-locked K → false
            try K → true
            is-locked K → true
            is-held K → true
            holds K → 1
            unlock K →
            unlock K → IllegalMonitorStateException
            try K 10 20000 → true
            force-unlock K → true
            force-unlock K → false
            ttl K → -2
            lock K 20000 →
            unlock K →";
        // A fair lock that is not there is unlocked without a word.
        let error = if kind == "fair" { "" } else { "IllegalMonitorStateException" };
        let lines = lines.replace("IllegalMonitorStateException", error);
        converse(&jvm, &lines.replace('K', &format!("{kind} {kind}"))).await;
        jvm.call("t1", &format!("lock {kind} {kind} 20000")).await.unwrap();
        let ttl: i64 = jvm.call("t1", &format!("ttl {kind} {kind}")).await.unwrap().parse().unwrap();
        assert!((15_000..=20_000).contains(&ttl), "{kind}: {ttl}");
    }
    converse(
        &jvm,
        "
        fenced.lock f → 1
        fenced.token f → 1
        fenced.try f 100 20000 → 2
        holds fenced f → 2
        multi.lock a,b 20000 →
        is-held plain a → true
        is-held plain b → true
        multi.unlock a,b →
        multi.try a,b 5000 → true
        multi.unlock a,b →
        try nothing a → IllegalArgumentException
        sing plain a → IllegalArgumentException",
    )
    .await;
}

#[tokio::test]
async fn semaphores_and_latches_have_their_verbs() {
    let (_server, jvm) = one().await;
    converse(
        &jvm,
        "
        sem.set s 5 → true
        sem.set s 6 → false
        sem.acquire s 2 →
        sem.try s 4 → false
        sem.try s 4 20 → false
        sem.try s 3 20 → true
        sem.release s 1 →
        sem.add s 2 →
        sem.available s → 3
        sem.drain s → 3
        permit.set p 2 → true
        permit.available p → 2
        permit.resize p 3 →
        permit.size p → 3
        latch.set l 2 → true
        latch.set l 2 → false
        latch.await l 20 → false
        latch.down l →
        latch.count l → 1
        latch.down l →
        latch.await l → true
        latch.delete l → false",
    )
    .await;
    let id = jvm.call("t1", "permit.try p 0 20000").await.unwrap();
    assert_eq!(id.len(), 32, "{id}");
    let two = jvm.call("t1", "permit.try-many p 2 0 20000").await.unwrap();
    converse(
        &jvm,
        &format!(
            "
            permit.acquired p → 3
            permit.try p 20 20000 → none
            permit.extend p {id} 60000 → true
            permit.release p {two} →
            permit.try-release p {id} → true
            permit.try-release p {id} → false
            permit.available p → 3"
        ),
    )
    .await;
}

#[tokio::test]
async fn a_number_kept_by_two_processes_loses_nothing() {
    let (server, a, b) = two().await;
    converse(&a, "sem.set semaphore 1 → true \n permit.set permit 1 → true").await;
    for (kind, name) in [
        ("plain", "plain"),
        ("fair", "fair"),
        ("write", "write"),
        ("fenced", "fenced"),
        ("semaphore", "semaphore"),
        ("permit", "permit"),
        ("multi", "m1,m2"),
    ] {
        let request = format!("count number:{kind} 50 {kind} {name}");
        let loops = [a.spawn("t1", &request), a.spawn("t2", &request), b.spawn("t1", &request)];
        for one in loops {
            assert_eq!(one.within(Duration::from_secs(90)).await.unwrap(), "50");
        }
        let sum = ask(&server, &format!("GET number:{kind}"));
        assert_eq!(sum.int(), Some(150), "{kind}");
    }
}

#[tokio::test]
async fn a_closed_loop_says_what_it_did() {
    let (server, jvm) = one().await;
    for place in ["own", "shared"] {
        let said = jvm.call("t1", &format!("bench plain {place} 1 3 {place}")).await.unwrap();
        let numbers: Vec<u64> = said.split(' ').map(|word| word.parse().unwrap()).collect();
        let [pairs, longest, middle] = numbers[..] else { panic!("{said}") };
        // Each of the three at least once.
        assert!(pairs >= 3 && longest > 0 && middle <= longest, "{said}");
    }
    let left = ask(&server, "KEYS *").texts();
    assert!(left.iter().all(|key| key.starts_with("redisson_unlock_latch:")), "{left:?}");
}

#[tokio::test]
async fn the_watchdog_is_as_told_and_renews() {
    let server = Redis::start(RedisOptions::default()).unwrap();
    let options = Options::small().watchdog(Duration::from_secs(2));
    let jvm = Jvm::start(&address(&server), &options).await.unwrap();
    jvm.call("t1", "lock plain a").await.unwrap();
    let ttl = || ask(&server, "PTTL a").int().unwrap();
    let mut last = ttl();
    assert!((1..=2000).contains(&last), "{last}");
    let begin = Instant::now();
    loop {
        let left = ttl();
        assert!(left > 0, "not renewed");
        if left > last {
            break;
        }
        last = left;
        assert!(begin.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_killed_process_answers_no_more_and_its_lease_stays() {
    let (server, a, b) = two().await;
    a.call("t1", "lock plain a 20000").await.unwrap();
    b.call("t1", "lock plain b 20000").await.unwrap();
    let waiting = b.spawn("t1", "lock plain a");
    subscribers(&server, "redisson_lock__channel:{a}", 1).await;
    let pid = b.pid();
    assert!(is_running(pid));
    b.kill().await;
    assert!(!is_running(pid));
    assert!(matches!(waiting.answer().await, Err(Error::Ended { .. })));
    assert_eq!(ask(&server, "EXISTS b").int(), Some(1));
    subscribers(&server, "redisson_lock__channel:{a}", 0).await;
}

#[tokio::test]
async fn a_dropped_process_is_gone() {
    let (_server, jvm) = one().await;
    let pid = jvm.pid();
    drop(jvm);
    let begin = Instant::now();
    // The runtime collects it in its own time.
    while is_running(pid) {
        assert!(begin.elapsed() < Duration::from_secs(10), "{pid} still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn nobody_to_connect_to_is_an_error() {
    let address = Address::Single("127.0.0.1:1".into());
    let error = Jvm::start(&address, &Options::small()).await.unwrap_err();
    assert_eq!(error.class(), Some("RedisConnectionException"), "{error}");
}
