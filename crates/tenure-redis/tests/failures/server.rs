//! C4, C6, C7, C19–C22. A server that forgets, stands still, is in a hurry, forbids, or is written to by others.

use std::time::Duration;

use tenure_core::{Error, Kind, LostReason};
use tenure_redis::Redis;
use testbed::RedisOptions;

use crate::bench::{Bench, LEASE, PATIENCE, claim, eventually, settings, templates, warm, within};

/// C4. A lock that the server threw out to make room is lost at its next renewal; the next fence is larger.
#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_lock_is_lost_at_its_next_renewal() {
    let bench = Bench::configured(&["maxmemory-policy volatile-ttl"]);
    let client = bench.client().await;
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(bench.exists("tenure_fence:{x}"));
    // Less than it has: the keys that end soonest go first, the last fence too.
    bench.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("thrown out", async || {
        let _ = bench.redis.cmd(&["SET", "more", "x"]);
        !bench.exists("x") && !bench.exists("tenure_fence:{x}")
    })
    .await;
    bench.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    let lost = within(LEASE, "its next renewal", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(!bench.exists("x"), "a renewal creates nothing");
    let next = client.lock("x").try_acquire().await.unwrap().expect("free");
    assert!(next.fence() > guard.fence());
}

/// C6. A TTL that a clock or somebody else has shortened is put right by the next renewal; one that was lengthened
/// lengthens no guard.
#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_changed_behind_its_back_is_put_right_and_believed_by_nobody() {
    let bench = Bench::start();
    let client = bench.client().await;
    for (name, lock) in templates(&client, "clock") {
        if name.starts_with("permits") {
            continue;
        }
        let guard = lock.acquire().await.unwrap();
        bench.cmd(&["PEXPIRE", &name, "1000"]);
        eventually("put right", async || bench.left(&name) > LEASE * 8 / 10).await;
        assert!(guard.is_held());
        bench.cmd(&["PEXPIRE", &name, "600000"]);
        eventually("renewed", async || guard.remaining() < LEASE * 8 / 10).await;
        eventually("renewed", async || guard.remaining() > LEASE * 9 / 10).await;
        assert!(guard.remaining() <= LEASE);
        guard.release().await.unwrap();
    }
}

/// C6. A clock that jumps past a lease takes the lock away: the guard is lost at its next renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_a_clock_ended_is_lost() {
    let bench = Bench::start();
    let client = bench.client().await;
    for (name, lock) in templates(&client, "ended") {
        let guard = lock.acquire().await.unwrap();
        if name.starts_with("permits") {
            bench.cmd(&["DEL", &format!("{{{name}}}:timeout"), &format!("tenure_permits:{{{name}}}")]);
        } else {
            bench.cmd(&["PEXPIRE", &name, "1"]);
        }
        let lost = within(LEASE, &name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
    }
}

/// C7. FLUSHALL: lost at the next renewal, never created anew; the next fence is larger.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_flushed_is_lost() {
    let bench = Bench::start();
    let client = bench.client().await;
    for (name, lock) in templates(&client, "flushed") {
        let guard = lock.acquire().await.unwrap();
        bench.cmd(&["FLUSHALL"]);
        let lost = within(LEASE, &name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
        assert!(!bench.exists(&name), "{name}: created anew");
        let next = lock.try_acquire().await.unwrap().expect("free");
        assert!(next.fence() > guard.fence(), "{name}");
        next.release().await.unwrap();
    }
}

/// C7. A server that comes back empty: lost, and the next fence is larger.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_restart_forgot_is_lost() {
    let bench = Bench::start();
    let client = bench.client().await;
    let guards: Vec<_> = {
        let mut guards = Vec::new();
        for (name, lock) in templates(&client, "restart") {
            guards.push((name, lock.clone(), lock.acquire().await.unwrap()));
        }
        guards
    };
    bench.redis.restart_empty().unwrap();
    for (name, lock, guard) in guards {
        let lost = within(LEASE, &name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
        let next = lock.try_acquire().await.unwrap().expect("free");
        assert!(next.fence() > guard.fence(), "{name}");
        next.release().await.unwrap();
    }
}

/// C7. Who holds for long need not wait for the next renewal: another run of the server is noticed, and all is proved.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_noticed_at_once() {
    let bench = Bench::start();
    let mut long = settings();
    long.lease = PATIENCE * 6;
    let client = bench.client_with(long).await;
    let guard = client.lock("x").acquire().await.unwrap();
    bench.redis.restart_empty().unwrap();
    let lost = within(PATIENCE / 2, "proved again", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
}

/// C7. What a server kept over its restart is still held.
#[tokio::test(flavor = "multi_thread")]
async fn what_survives_a_restart_stays_held() {
    let bench = Bench::with(RedisOptions { append_only: true, ..RedisOptions::default() });
    let mut long = settings();
    long.lease = Duration::from_secs(6);
    let client = bench.client_with(long).await;
    let guard = client.lock("x").acquire().await.unwrap();
    bench.redis.restart().unwrap();
    eventually("renewed", async || guard.remaining() < Duration::from_millis(5000)).await;
    eventually("renewed", async || guard.remaining() > Duration::from_millis(5500)).await;
    assert_eq!(bench.cmd(&["HKEYS", "x"]).texts(), [guard.id().to_string()]);
    guard.release().await.unwrap();
}

/// C19. A pause that is shorter than what a hold has left is a delay and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_pause_of_the_server_is_a_delay() {
    let bench = Bench::configured(&["enable-debug-command yes"]);
    let client = bench.client().await;
    warm(&client).await;
    for pause in [["CLIENT", "PAUSE", "500"], ["DEBUG", "SLEEP", "0.5"]] {
        let held = client.lock("held").acquire().await.unwrap();
        let mut other = bench.redis.client().unwrap();
        other.send(&pause).unwrap();
        let guard = client.lock("x").acquire().await.unwrap();
        assert!(held.is_held(), "{pause:?}");
        guard.release().await.unwrap();
        held.release().await.unwrap();
        other.receive().unwrap();
    }
}

/// C19. A longer one ends the hold by its own clock, while the server still stands; nobody else is inside before.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_pause_of_the_server_ends_the_hold_by_its_own_clock() {
    let bench = Bench::start();
    let (client, other) = (bench.client().await, bench.client().await);
    let guard = client.lock("x").acquire().await.unwrap();
    bench.redis.stop().unwrap();
    let lost = within(LEASE * 2, "its own clock", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
    bench.redis.resume().unwrap();
    let next = within(PATIENCE, "the next one", other.lock("x").acquire()).await.unwrap();
    assert!(next.fence() > guard.fence());
}

/// C20. Who may not listen looks instead; who may not run scripts or touch a key is told which right is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_named_or_done_without() {
    let users = [
        "deaf on >x ~* resetchannels &elsewhere +@all",
        "mute on >x ~* &* +@all -eval -evalsha",
        "bound on >x ~mine* &* +@all",
    ];
    let users = users.map(str::to_owned).to_vec();
    let bench = Bench::with(RedisOptions { users, ..RedisOptions::default() });
    let client = async |user: &str| {
        let mut options = bench.options();
        (options.user, options.password) = (Some(user.to_owned()), Some("x".into()));
        tenure_core::Client::with(std::sync::Arc::new(Redis::open(options).await.unwrap()), settings())
    };
    let (deaf, other) = (client("deaf").await, client("deaf").await);
    for ((name, first), (_, second)) in templates(&deaf, "deaf").into_iter().zip(templates(&other, "deaf")) {
        let second = if name.starts_with("read") { other.rwlock(&name).write() } else { second };
        let held = first.acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let waiter = tokio::spawn(async move { second.acquire().await });
        crate::bench::waiting(&deaf, &name, 1).await;
        held.release().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let next = within(LEASE, &name, waiter).await.unwrap().unwrap_or_else(|e| panic!("{name}: {e}"));
        next.release().await.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    for user in ["mute", "bound"] {
        let error = client(user).await.lock("x").acquire().await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{user}: {error}");
        assert!(
            error.to_string().contains("NOPERM") || error.to_string().contains("permission"),
            "{user}: {error}"
        );
    }
}

/// C22. A key of another type is named, as what it is: a mistake, and no holder to wait for.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_wrong_type_is_named() {
    let bench = Bench::start();
    let client = bench.client().await;
    for (name, lock) in templates(&client, "typed") {
        if name.starts_with("permits") {
            bench.cmd(&["HSET", &name, "a", "1"])
        } else {
            bench.cmd(&["SET", &name, "word"])
        };
        let error = within(LEASE, &name, lock.acquire()).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{name}: {error}");
        assert!(
            error.to_string().contains(&format!("{name:?}")) && error.to_string().contains("WRONGTYPE"),
            "{error}"
        );
    }
    bench.cmd(&["HSET", "latch-typed", "a", "1"]);
    let error = client.latch("latch-typed").try_set_count(1).await.unwrap_err();
    assert!(matches!(error, Error::Config(_)) && error.to_string().contains("latch-typed"), "{error}");
}

/// C22. A key without a TTL is nobody's lease: it is named at once instead of being waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_ttl_is_named() {
    let bench = Bench::start();
    let client = bench.client().await;
    for (name, lock) in templates(&client, "endless") {
        if name.starts_with("permits") {
            continue;
        }
        bench.cmd(&["HSET", &name, "mode", "write", "somebody:1:write", "1"]);
        if name.starts_with("lock") || name.starts_with("fair") {
            bench.cmd(&["HDEL", &name, "mode"]);
        }
        let error = within(LEASE, &name, lock.acquire()).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{name}: {error}");
        assert!(error.to_string().contains("TTL") && error.to_string().contains(&name), "{error}");
    }
}

/// C22. A key that was overwritten while it was held is a lost lock, and says so at the release too.
#[tokio::test(flavor = "multi_thread")]
async fn an_overwritten_key_is_a_lost_lock() {
    let bench = Bench::start();
    let client = bench.client().await;
    for (name, lock) in templates(&client, "overwritten") {
        if name.starts_with("permits") {
            continue;
        }
        let guard = lock.acquire().await.unwrap();
        bench.cmd(&["SET", &name, "mine now"]);
        let lost = within(LEASE * 3 / 4, &name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
        assert_eq!(bench.cmd(&["GET", &name]).text(), "mine now");
    }
}

/// Who has not the id of a hold releases nothing, and is shown who has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_somebody_else_changes_nothing() {
    let bench = Bench::start();
    let (client, other) = (bench.client().await, bench.client().await);
    for (name, lock) in templates(&client, "owned") {
        let guard = lock.acquire().await.unwrap();
        let stranger = claim(&name, Kind::Lock);
        let theirs = templates(&other, "owned").into_iter().find(|(n, _)| *n == name).unwrap().1;
        assert!(!theirs.release_by(stranger.id).await.unwrap(), "{name}");
        assert_eq!(theirs.holder().await.unwrap().and_then(|h| h.hold_id()), Some(guard.id()), "{name}");
        guard.release().await.unwrap();
    }
}
