//! C4, C6, C7, C19–C22. A server that forgets, stands still, is in a hurry, forbids, or is written to by others.

use tenure_core::{Client, Error, Kind, LostReason, Owner, Settings};
use tenure_redis::Options;
use testbed::{FAR, RedisOptions, done, io_cause, until_true, within};

use crate::harness::{
    Harness, LEASE, LONG, SHORT, all_held, claim, leasing, open, renewed, take, templates, waiting, warm,
    woken_only,
};

/// C4. A lock that the server threw out to make room is lost at its next renewal; the next fence is larger.
#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_lock_is_lost_at_its_next_renewal() {
    let harness = Harness::configured(&["maxmemory-policy volatile-ttl"]);
    let client = harness.client().await;
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(harness.exists("tenure_fence:{x}"));
    // Less than it has: the keys that end soonest go first, the last fence too.
    harness.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    until_true("thrown out", || {
        let _ = harness.redis.cmd(&["SET", "more", "x"]);
        !harness.exists("x") && !harness.exists("tenure_fence:{x}")
    })
    .await;
    harness.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    let lost = within("its next renewal", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert!(!harness.exists("x"), "a renewal creates nothing");
    let next = client.lock("x").try_acquire().await.unwrap().expect("free");
    assert!(next.fence() > guard.fence());
}

/// A41. Nobody asked to wait: a server that is not there is told at once, not after the call timeout.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_listens_and_no_call_waits_for_that() {
    let harness = Harness::start();
    let mut settings = Settings::default();
    (settings.lease, settings.call_timeout, settings.outage) = (FAR, FAR, FAR);
    let client = harness.client_with(settings).await;
    let (mine, seats) = (client.lock("mine").owner(&Owner::new()), client.counting_semaphore("seats"));
    let guard = mine.acquire().await.unwrap();
    harness.redis.kill().unwrap();
    let refused =
        |error: Error| assert_eq!(io_cause(&error), std::io::ErrorKind::ConnectionRefused, "{error}");
    // The first may have been written before the end of the connection was noticed.
    refused(within("the try ends", client.lock("x").try_acquire()).await.unwrap_err());
    refused(within("a take", seats.try_acquire(1)).await.unwrap_err());
    refused(within("a re-entry", mine.try_acquire()).await.unwrap_err());
    refused(within("a look", client.lock("x").is_locked()).await.unwrap_err());
    refused(within("a number", client.latch("latch").count()).await.unwrap_err());
    refused(within("a list", client.list("", 10)).await.unwrap_err());
    guard.detach();
}

/// C6. A TTL that a clock or somebody else has shortened is put right by the next renewal; one that was lengthened
/// lengthens no guard.
#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_changed_behind_its_back_is_put_right_and_believed_by_nobody() {
    let harness = Harness::start();
    let client = harness.client().await;
    let mut held = all_held(&client, "clock").await;
    held.retain(|(name, ..)| !name.starts_with("permits"));
    for (name, ..) in &held {
        harness.cmd(&["PEXPIRE", name, &(LEASE * 8 / 9).as_millis().to_string()]);
    }
    for (name, _, guard) in &held {
        until_true("put right", || harness.left(name) > LEASE * 8 / 9).await;
        assert!(guard.is_held());
        harness.cmd(&["PEXPIRE", name, "600000"]);
    }
    renewed(held.iter().map(|(.., guard)| guard)).await;
    for (_, _, guard) in held {
        assert!(guard.remaining() <= LEASE);
        guard.release().await.unwrap();
    }
}

/// C6. A clock that jumps past a lease takes the lock away: the guard is lost at its next renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_a_clock_ended_is_lost() {
    let harness = Harness::start();
    let client = harness.client().await;
    let held = all_held(&client, "ended").await;
    for (name, ..) in &held {
        if name.starts_with("permits") {
            harness.cmd(&["DEL", &format!("{{{name}}}:timeout"), &format!("tenure_permits:{{{name}}}")]);
        } else {
            harness.cmd(&["PEXPIRE", name, "1"]);
        }
    }
    for (name, _, guard) in held {
        let lost = within(&name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
    }
}

/// C7. FLUSHALL: lost at the next renewal, never created anew; the next fence is larger.
#[tokio::test(flavor = "multi_thread")]
async fn holds_are_lost_by_a_flush() {
    let harness = Harness::start();
    let client = harness.client().await;
    let held = all_held(&client, "flushed").await;
    harness.cmd(&["FLUSHALL"]);
    for (name, lock, guard) in held {
        let lost = within(&name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
        assert!(!harness.exists(&name), "{name}: created anew");
        let next = lock.try_acquire().await.unwrap().expect("free");
        assert!(next.fence() > guard.fence(), "{name}");
        next.release().await.unwrap();
    }
}

/// C7. A server that comes back empty: lost, and the next fence is larger.
#[tokio::test(flavor = "multi_thread")]
async fn holds_are_lost_by_a_restart_without_data() {
    let harness = Harness::start();
    let client = harness.client().await;
    let held = all_held(&client, "restart").await;
    harness.redis.restart_empty().unwrap();
    for (name, lock, guard) in held {
        let lost = within(&name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
        let next = lock.try_acquire().await.unwrap().expect("free");
        assert!(next.fence() > guard.fence(), "{name}");
        next.release().await.unwrap();
    }
}

/// A client that looks after its idle connections as often as by default, which goes by how long a call may take.
async fn idle(harness: &Harness, settings: Settings) -> Client {
    let mut options = harness.options();
    options.timeout = Options::new(options.topology.clone()).timeout;
    Client::with(open(options).await, settings)
}

/// C7. Who holds for long need not wait for the next renewal: another run of the server is noticed, and all is proved.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_is_noticed_at_once() {
    let harness = Harness::start();
    let client = idle(&harness, leasing(FAR)).await;
    let guard = client.lock("x").acquire().await.unwrap();
    harness.redis.restart_empty().unwrap();
    let lost = within("proved again", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
}

/// C7. What a server kept over its restart is still held.
#[tokio::test(flavor = "multi_thread")]
async fn holds_survive_a_restart_with_data() {
    let harness = Harness::with(RedisOptions { append_only: true, ..RedisOptions::default() });
    let client = idle(&harness, leasing(LONG)).await;
    let guard = client.lock("x").acquire().await.unwrap();
    harness.redis.restart().unwrap();
    renewed([&guard]).await;
    assert_eq!(harness.holders("x"), [guard.id().to_string()]);
    guard.release().await.unwrap();
}

/// C19. A pause that is shorter than what a hold has left is a delay and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_pause_of_the_server_is_a_delay() {
    let harness = Harness::configured(&["enable-debug-command yes"]);
    let client = harness.client().await;
    warm(&client).await;
    for pause in [["CLIENT", "PAUSE", "500"], ["DEBUG", "SLEEP", "0.5"]] {
        let held = client.lock("held").acquire().await.unwrap();
        let mut other = harness.redis.client().unwrap();
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
    let harness = Harness::start();
    let (client, other) = (harness.client_with(leasing(SHORT * 2)).await, harness.client().await);
    let guard = take(&client.lock("x")).await;
    harness.redis.stop().unwrap();
    let lost = within("its own clock", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
    harness.redis.resume().unwrap();
    let next = within("the next one", other.lock("x").acquire()).await.unwrap();
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
    let harness = Harness::with(RedisOptions { users, ..RedisOptions::default() });
    let client = async |user: &str| {
        let mut options = harness.options();
        (options.user, options.password) = (Some(user.to_owned()), Some("x".into()));
        // Neither a poll nor the end of a lease helps who does not look.
        Client::with(open(options).await, woken_only())
    };
    let (deaf, other) = (client("deaf").await, client("deaf").await);
    for ((name, first), (_, second)) in templates(&deaf, "deaf").into_iter().zip(templates(&other, "deaf")) {
        let second = if name.starts_with("read") { other.rwlock(&name).write() } else { second };
        let held = first.acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let waiter = tokio::spawn(async move { second.acquire().await });
        waiting(&deaf, &name, 1).await;
        held.release().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let next = done(&name, waiter).await.unwrap_or_else(|e| panic!("{name}: {e}"));
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
    let harness = Harness::start();
    let client = harness.client().await;
    for (name, lock) in templates(&client, "typed") {
        if name.starts_with("permits") {
            harness.cmd(&["HSET", &name, "a", "1"])
        } else {
            harness.cmd(&["SET", &name, "word"])
        };
        let error = within(&name, lock.acquire()).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{name}: {error}");
        assert!(error.to_string().contains(&name) && !error.to_string().contains("WRONGTYPE"), "{error}");
    }
    harness.cmd(&["HSET", "latch-typed", "a", "1"]);
    let error = client.latch("latch-typed").try_set_count(1).await.unwrap_err();
    assert!(matches!(error, Error::Config(_)) && error.to_string().contains("latch-typed"), "{error}");
}

/// C22. A string that somebody's `SET NX PX` made is a lock that is held: it is named and shown as what it is, and
/// nobody is told to remove it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_the_plain_layout_is_named() {
    let harness = Harness::start();
    let client = harness.client().await;
    for (name, lock) in templates(&client, "plain") {
        if name.starts_with("permits") {
            continue;
        }
        harness.cmd(&["SET", &name, "worker-7", "NX", "PX", "600000"]);
        let said = within(&name, lock.acquire()).await.unwrap_err().to_string();
        assert!(said.contains("SET NX PX") && said.contains("layout=plain"), "{said}");
        assert!(!said.contains("remove"), "{said}");
        let seen = client.show(&name).await.unwrap().expect("what is there is shown");
        let holder = &seen.holders[0];
        assert_eq!((holder.id.as_str(), holder.foreign), ("worker-7", true));
        assert!(holder.left.is_some() && holder.note.as_deref().is_some_and(|n| n.contains("layout=plain")));
        assert_eq!(harness.cmd(&["GET", &name]).text(), "worker-7");
    }
    assert!(client.list("", 10).await.unwrap().is_empty(), "a value is not taken for a lock");
}

/// A key of another program that looks like a lock of many readers: all others wait while it is looked at.
#[tokio::test]
async fn a_listing_does_not_dwell_on_one_key() {
    let harness = Harness::start();
    let client = harness.client().await;
    let fill = "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', KEYS[1], 'field-' .. i, 1000) end
        return redis.call('HSET', KEYS[1], 'mode', 'read')";
    for fields in ["300", "5000"] {
        harness.cmd(&["EVAL", fill, "1", "x", fields]);
        let before = harness.executed();
        client.list("", 10).await.unwrap();
        let cost = harness.executed() - before;
        assert!(cost < 5_000, "{cost} commands to look at {fields} fields");
    }
}

/// C22. A key without a TTL is nobody's lease: it is named at once instead of being waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_without_a_ttl_is_named() {
    let harness = Harness::start();
    let client = harness.client().await;
    for (name, lock) in templates(&client, "endless") {
        if name.starts_with("permits") {
            continue;
        }
        harness.cmd(&["HSET", &name, "mode", "write", "somebody:1:write", "1"]);
        if name.starts_with("lock") || name.starts_with("fair") {
            harness.cmd(&["HDEL", &name, "mode"]);
        }
        let error = within(&name, lock.acquire()).await.unwrap_err();
        assert!(matches!(error, Error::Config(_)), "{name}: {error}");
        assert!(error.to_string().contains("TTL") && error.to_string().contains(&name), "{error}");
    }
}

/// C22. A key that was overwritten while it was held is a lost lock, and says so at the release too.
#[tokio::test(flavor = "multi_thread")]
async fn an_overwritten_key_is_a_lost_lock() {
    let harness = Harness::start();
    let client = harness.client().await;
    let mut held = all_held(&client, "overwritten").await;
    held.retain(|(name, ..)| !name.starts_with("permits"));
    for (name, ..) in &held {
        harness.cmd(&["SET", name, "mine now"]);
    }
    for (name, _, guard) in held {
        let lost = within(&name, guard.lost()).await;
        assert_eq!(lost.reason, LostReason::Gone, "{name}");
        assert_eq!(harness.cmd(&["GET", &name]).text(), "mine now");
    }
}

/// Who has not the id of a hold releases nothing, and is shown who has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_somebody_else_changes_nothing() {
    let harness = Harness::start();
    let (client, other) = (harness.client().await, harness.client().await);
    for (name, lock) in templates(&client, "owned") {
        let guard = lock.acquire().await.unwrap();
        let stranger = claim(&name, Kind::Lock);
        let theirs = templates(&other, "owned").into_iter().find(|(n, _)| *n == name).unwrap().1;
        assert!(!theirs.release_by(stranger.id).await.unwrap(), "{name}");
        assert_eq!(theirs.holder().await.unwrap().and_then(|h| h.hold_id()), Some(guard.id()), "{name}");
        guard.release().await.unwrap();
    }
}
