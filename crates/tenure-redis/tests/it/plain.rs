//! The plain layout: a string that most of the world can read.

use std::sync::Arc;

use tenure_core::backend::{Attempt, Backend, Released, Renewal};
use tenure_core::{Claim, Client, ClientId, Error, Guard, HoldId, Kind, Lock, LostReason, Name};
use tenure_redis::{Layout, Options};
use testbed::{FAR, Redis, RedisOptions, done, retry, until, until_true, within};

use crate::harness::{self, LEASE, LONG, SHORT, open, renewed, settings, woken_only};

fn options(server: &Redis) -> Options {
    let mut options = harness::options(server.port());
    options.layout = Layout::Plain;
    options
}

async fn client(server: &Redis) -> Client {
    Client::with(open(options(server)).await, settings())
}

fn server() -> Redis {
    Redis::start(RedisOptions::default()).expect("a server")
}

fn text(server: &Redis, words: &[&str]) -> String {
    server.cmd(words).unwrap_or_else(|e| panic!("{words:?}: {e}")).text()
}

/// A string with a TTL, and nothing in its way: what `SET key token NX PX ms` makes.
#[tokio::test]
async fn a_lock_is_a_string_with_a_token_and_a_ttl() {
    let server = server();
    let client = client(&server).await;
    let guard = client.lock("x").acquire().await.unwrap();
    assert_eq!(text(&server, &["TYPE", "x"]), "string");
    assert_eq!(text(&server, &["GET", "x"]), guard.id().to_string());
    assert!(guard.fence().is_none());
    let left = server.cmd(&["PTTL", "x"]).unwrap().int().unwrap();
    assert!((1..=LEASE.as_millis() as i64).contains(&left), "{left}");
    assert!(server.cmd(&["SET", "x", "me", "NX", "PX", "1000"]).unwrap().is_nil(), "others are kept out");
    guard.release().await.unwrap();
    assert_eq!(server.cmd(&["EXISTS", "x"]).unwrap().int(), Some(0));
}

/// What everybody sends, and a message for those of ours who wait.
#[tokio::test]
async fn a_pair_is_five_commands() {
    let server = server();
    let client = client(&server).await;
    client.lock("warm").acquire().await.unwrap().release().await.unwrap();
    let mut monitor = server.monitor().unwrap();
    client.lock("x").acquire().await.unwrap().release().await.unwrap();
    let seen: Vec<_> = monitor.drain().unwrap().iter().map(testbed::Seen::name).collect();
    assert_eq!(seen, ["SET", "EVALSHA", "GET", "DEL", "PUBLISH"]);
    assert_eq!(server.cmd(&["DBSIZE"]).unwrap().int(), Some(0), "nothing is left");
}

/// A renewal is a script with two commands. The first one also writes who holds it, for people to see; the release
/// removes that.
#[tokio::test(flavor = "multi_thread")]
async fn who_holds_long_is_described() {
    let server = server();
    let mut settings = settings();
    settings.lease = LEASE / 3;
    let client = Client::with(open(options(&server)).await, settings);
    let held = client.lock("x").acquire().await.unwrap();
    let holder = client.lock("x").holder().await.unwrap().unwrap();
    let seen = (holder.hold_id(), holder.pid, holder.foreign);
    assert_eq!(seen, (Some(held.id()), None, false), "its id is all there is");
    assert_eq!(client.list("", 10).await.unwrap().len(), 1);
    renewed([&held]).await;
    let holder = client.lock("x").holder().await.unwrap().unwrap();
    assert_eq!(holder.pid, Some(std::process::id()));
    assert!(holder.host.is_some() && !holder.foreign);
    let time = server.cmd(&["TIME"]).unwrap().texts()[0].parse::<u64>().unwrap() * 1_000_000;
    let since = holder.since.unwrap();
    assert!(since < time && time - since < 600_000_000, "{since} of {time}");
    let mut monitor = server.monitor().unwrap();
    renewed([&held]).await;
    let mut seen: Vec<_> = monitor.drain().unwrap().iter().map(testbed::Seen::name).collect();
    seen.retain(|name| !matches!(&**name, "CLIENT" | "INFO"));
    let version: u32 =
        server.info("server").unwrap()["redis_version"].split('.').next().unwrap().parse().unwrap();
    // Older ones cannot compare.
    let wanted = ["EVALSHA", "GET", "PEXPIRE"];
    assert!(version < 7 || seen.chunks(wanted.len()).all(|one| one == wanted), "{seen:?}");
    held.release().await.unwrap();
    assert_eq!(server.cmd(&["DBSIZE"]).unwrap().int(), Some(0), "nothing is left");
}

/// The attempt of a claim that has the lock already, as after a lost answer.
#[tokio::test]
async fn a_repeat_finds_its_own_and_extends_it() {
    let server = server();
    let store = open(options(&server)).await;
    let id = HoldId { client: ClientId::new(), n: 1 };
    let claim = Claim { lease: LONG, ..Claim::of(id, Name::new("x").unwrap(), Kind::Lock) };
    for _ in 0..2 {
        assert!(matches!(store.try_acquire(&claim).await.unwrap(), Attempt::Granted { .. }));
        assert!(server.cmd(&["PTTL", "x"]).unwrap().int().unwrap() > LONG.as_millis() as i64 / 2);
        server.cmd(&["PEXPIRE", "x", "5000"]).unwrap();
    }
    let other = Claim { id: HoldId { n: 2, ..id }, ..claim.clone() };
    assert!(
        matches!(store.try_acquire(&other).await.unwrap(), Attempt::Busy { behind: Some(of), .. } if of == id)
    );
}

/// The caller's own word, and the two functions of a lock written by hand.
#[tokio::test]
async fn a_token_of_ones_own_is_enough_to_release_and_renew() {
    let server = server();
    let (one, other) = (client(&server).await, client(&server).await);
    let token = "10.0.0.7:worker-3";
    let guard = one.lock("x").lease(LONG).token(token).acquire().await.unwrap();
    assert_eq!(text(&server, &["GET", "x"]), token);
    let lock = other.lock("x").lease(LONG * 10);
    assert!(!lock.renew_by("somebody else").await.unwrap());
    assert!(!lock.release_by("somebody else").await.unwrap());
    assert!(lock.renew_by(token).await.unwrap());
    let left = server.cmd(&["PTTL", "x"]).unwrap().int().unwrap();
    assert!(left > LONG.as_millis() as i64, "{left}");
    assert!(lock.release_by(token).await.unwrap());
    assert!(!lock.release_by(token).await.unwrap(), "it is gone already");
    assert!(!lock.renew_by(token).await.unwrap());
    assert_eq!(server.cmd(&["EXISTS", "x"]).unwrap().int(), Some(0), "a renewal makes nothing");
    assert!(matches!(guard.release().await, Err(Error::Lost(_))));
    // Of a lock that somebody else wrote, too.
    server.cmd(&["SET", "x", "by hand", "NX", "PX", "60000"]).unwrap();
    assert!(lock.renew_by("by hand").await.unwrap());
    assert!(lock.release_by(String::from("by hand")).await.unwrap());
    for bad in ["", &"x".repeat(1025)] {
        let error = one.lock("x").token(bad).try_acquire().await.unwrap_err();
        assert!(error.to_string().contains("1 to 1024 bytes"), "{error}");
    }
}

/// I31, I32. Without a guard nobody renews a lock, and it ends with its lease. Of two requests with one token the second
/// is refused, and yet it can release what the first holds.
#[tokio::test]
async fn a_token_without_a_guard_ends_with_its_lease() {
    let server = server();
    let mut settings = settings();
    settings.lease = SHORT;
    let client = Client::with(open(options(&server)).await, settings);
    let lock = client.lock("x").token("request-7");
    // An answer that comes after a short lease is none: it is asked for again.
    let try_get = async |lock: &Lock| {
        let got = retry("an answer", Error::is_transient, || lock.try_acquire()).await;
        got.map(Guard::detach).is_some()
    };
    let lasting = lock.clone().lease(LONG);
    assert!(try_get(&lasting).await);
    assert!(!try_get(&lasting).await, "one token for two requests");
    assert!(lock.release_by("request-7").await.unwrap());
    // A guard of this lock would renew it for as long as it exists.
    assert!(try_get(&lock).await);
    until_true("its lease ends", || server.cmd(&["EXISTS", "x"]).unwrap().int() == Some(0)).await;
    assert!(!lock.renew_by("request-7").await.unwrap(), "it is too late");
}

/// One token for several holds, one after the other: what is left of the first cannot touch the second.
#[tokio::test]
async fn a_late_release_by_the_same_token_frees_nothing() {
    let server = server();
    let store = open(options(&server)).await;
    let client = ClientId::new();
    let claim = |n| Claim {
        lease: LONG,
        token: Some("me".into()),
        ..Claim::of(HoldId { client, n }, Name::new("x").unwrap(), Kind::Lock)
    };
    let granted = async |n| matches!(store.try_acquire(&claim(n)).await.unwrap(), Attempt::Granted { .. });
    assert!(granted(1).await);
    assert!(granted(1).await, "a repeat finds its own");
    assert!(!granted(2).await, "another hold of the same token does not");
    assert_eq!(store.release(&claim(1), 0).await.unwrap(), Released::Freed);
    assert!(granted(2).await);
    assert_eq!(store.release(&claim(1), 0).await.unwrap(), Released::Gone);
    assert_eq!(store.renew(&[Arc::new(claim(1))]).await.unwrap(), [Renewal::Gone]);
    assert_eq!(text(&server, &["GET", "x"]), "me");
}

/// A holder with a token of its own dies, and one without gets in: the id of the first frees nothing.
#[tokio::test]
async fn the_id_of_a_dead_hold_does_not_free_the_next() {
    let server = server();
    let store = open(options(&server)).await;
    let client = ClientId::new();
    let claim = |n| Claim {
        lease: LONG,
        stamp: LONG,
        brief: false,
        ..Claim::of(HoldId { client, n }, Name::new("x").unwrap(), Kind::Lock)
    };
    let named = Claim { token: Some("me".into()), ..claim(1) };
    assert!(matches!(store.try_acquire(&named).await.unwrap(), Attempt::Granted { .. }));
    let next = Claim { wait: Some(FAR), ..claim(2) };
    assert!(matches!(store.try_acquire(&next).await.unwrap(), Attempt::Busy { .. }));
    // Its lease ends. What is known of the name stays, since somebody waits.
    server.cmd(&["DEL", "x"]).unwrap();
    assert!(matches!(store.try_acquire(&next).await.unwrap(), Attempt::Granted { .. }));
    assert_eq!(store.release(&claim(1), 0).await.unwrap(), Released::Gone);
    assert_eq!(store.renew(&[Arc::new(claim(1))]).await.unwrap(), [Renewal::Gone]);
    assert_eq!(text(&server, &["GET", "x"]), next.id.to_string());
}

/// A stranger's lock without an end does not get one by being renewed; a hold with a token can be named by its id.
#[tokio::test]
async fn a_renewal_shortens_nothing_and_an_id_is_as_good_as_a_token() {
    let server = server();
    let client = client(&server).await;
    server.cmd(&["SET", "x", "stranger"]).unwrap();
    assert!(client.lock("x").renew_by("stranger").await.unwrap());
    assert_eq!(server.cmd(&["PTTL", "x"]).unwrap().int(), Some(-1));
    let guard = client.lock("y").lease(LONG).token("me").acquire().await.unwrap();
    assert!(client.lock("y").lease(LONG * 5).renew_by(guard.id()).await.unwrap());
    assert!(server.cmd(&["PTTL", "y"]).unwrap().int().unwrap() > LONG.as_millis() as i64);
    let other = HoldId { n: guard.id().n + 1, ..guard.id() };
    assert!(!client.lock("y").release_by(other).await.unwrap());
    assert!(client.lock("y").release_by(guard.id()).await.unwrap());
    assert_eq!(server.cmd(&["EXISTS", "y", "tenure_about:{y}"]).unwrap().int(), Some(0), "nothing is left");
    // What only looks like an id is a token.
    let token = "4F3C2B1A-0000-4000-8000-000000000001:007";
    server.cmd(&["SET", "z", token, "PX", "60000"]).unwrap();
    assert!(client.lock("z").release_by(token).await.unwrap());
    // And raw bytes are a holder, too.
    server.cmd(&[&b"SET"[..], b"raw", b"\xff\xfe\x00", b"PX", b"60000"]).unwrap();
    assert!(client.lock("raw").is_locked().await.unwrap());
}

/// Who waits for one of ours is told of its release; who waits for a stranger looks now and then.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_told_and_a_stranger_is_looked_at() {
    let server = server();
    let patient = Client::with(open(options(&server)).await, woken_only());
    let waits = || {
        let lock = patient.lock("x");
        tokio::spawn(async move { lock.acquire().await })
    };
    let listening = async || {
        until_true("it listens", || text(&server, &["PUBSUB", "NUMSUB", "tenure_lock:{x}"]).ends_with('1'))
            .await;
    };
    let held = client(&server).await.lock("x").lease(FAR).acquire().await.unwrap();
    let waiting = waits();
    listening().await;
    held.release().await.unwrap();
    let guard = done("told", waiting).await.unwrap();
    guard.release().await.unwrap();

    // One without a TTL, as redis-py makes by default: waited for, too.
    for ttl in [Some("600000"), None] {
        server.cmd(&["SET", "x", "stranger"]).unwrap();
        if let Some(ttl) = ttl {
            server.cmd(&["PEXPIRE", "x", ttl]).unwrap();
        }
        assert!(patient.lock("x").try_acquire().await.unwrap().is_none());
        let waiting = waits();
        until("it waits", || async { !patient.lock("x").waiters().await.unwrap().is_empty() }).await;
        server.cmd(&["DEL", "x"]).unwrap();
        let guard = done("found", waiting).await.unwrap();
        guard.release().await.unwrap();
    }
}

/// What is there is seen for what it is, and taken away by its token.
#[tokio::test]
async fn people_see_ours_and_strangers() {
    let server = server();
    let client = client(&server).await;
    let guard = client.lock("ours").note("nightly").acquire().await.unwrap();
    server.cmd(&["SET", "redsync", "MDEyMzQ1Njc4OWFiY2RlZg==", "PX", "60000"]).unwrap();
    server.cmd(&["SET", "redlock", "0123456789abcdef0123456789abcdef", "PX", "60000"]).unwrap();
    server.cmd(&["SET", "cache", "just some value", "PX", "60000"]).unwrap();
    server.cmd(&["HSET", "hash", "a", "b"]).unwrap();
    let names: Vec<String> = client.list("", 100).await.unwrap().iter().map(|s| s.name.to_string()).collect();
    assert_eq!(names, ["ours", "redlock", "redsync"], "a value is not taken for a lock");
    let ours = client.lock("ours").holder().await.unwrap().unwrap();
    assert_eq!(
        (ours.note.as_deref(), ours.foreign, ours.hold_id()),
        (Some("nightly"), false, Some(guard.id()))
    );
    let stranger = client.lock("cache").holder().await.unwrap().expect("asked for by name");
    assert!(stranger.foreign && stranger.id == "just some value");
    assert!(client.lock("redsync").force_release().await.unwrap());
    assert_eq!(server.cmd(&["EXISTS", "redsync"]).unwrap().int(), Some(0));
}

/// A hash of Redisson under the same name.
#[tokio::test]
async fn a_lock_of_the_other_layout_is_named() {
    let server = server();
    let client = client(&server).await;
    server.cmd(&["HSET", "x", "somebody:1", "1"]).unwrap();
    let said = client.lock("x").try_acquire().await.unwrap_err().to_string();
    assert!(
        said.contains("a hash, as created by Redisson") && said.contains("without layout=plain"),
        "{said}"
    );
    assert!(!said.contains("remove"), "{said}");
    let holder = client.lock("x").holder().await.unwrap().expect("what is there is shown");
    assert_eq!((holder.id.as_str(), holder.foreign), ("somebody:1", true));
    // Overwritten while it is held: lost.
    let guard = client.lock("y").acquire().await.unwrap();
    server.cmd(&["SET", "y", "stranger", "PX", "60000"]).unwrap();
    let lost = within("told", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(text(&server, &["GET", "y"]), "stranger", "what another holds is not touched");
}

#[tokio::test]
async fn other_kinds_are_refused() {
    let server = server();
    let client = client(&server).await;
    for (error, says) in [
        (client.lock("x").fair().try_acquire().await.unwrap_err(), "no queue"),
        (client.rwlock("x").read().try_acquire().await.unwrap_err(), "one holder"),
        (client.semaphore("x", 2).permits(1).try_acquire().await.unwrap_err(), "one holder"),
        (client.election("x").campaign().await.unwrap_err(), "no fencing token"),
        (client.latch("x").try_set_count(1).await.unwrap_err(), "a latch is not supported"),
        (
            client.counting_semaphore("x").try_set(1).await.unwrap_err(),
            "a counting semaphore is not supported",
        ),
    ] {
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// A user who may not run scripts does without where the server can compare by itself, and is told where it cannot.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_done_without_or_asked_for() {
    let server = server();
    server.cmd(&["ACL", "SETUSER", "u", "on", "nopass", "~*", "&*", "+@all", "-eval", "-evalsha"]).unwrap();
    let mut options = options(&server);
    (options.user, options.password) = (Some("u".into()), Some("any".into()));
    let opened = tenure_redis::Redis::open(options).await;
    let can = !server.cmd(&["COMMAND", "INFO", "DELIFEQ"]).unwrap().items()[0].is_nil();
    if !can {
        let said = opened.unwrap_err().to_string();
        assert!(said.contains("may not run scripts") && said.contains("allow EVAL"), "{said}");
        return;
    }
    let client = Client::with(Arc::new(opened.unwrap()), settings());
    let fixed = client.lock("fixed").lease(FAR).acquire().await.unwrap();
    server.cmd(&["DEL", "fixed"]).unwrap();
    client.backend().info().suspicion.raise();
    let lost = within("told", fixed.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone, "proved, though it is never renewed");
    let error = client.lock("x").token("me").try_acquire().await.unwrap_err();
    assert!(error.to_string().contains("may not run scripts"), "{error}");
    let guard = client.lock("x").acquire().await.unwrap();
    assert_eq!(text(&server, &["GET", "x"]), guard.id().to_string());
    assert!(client.lock("x").try_acquire().await.unwrap().is_none());
    assert!(!client.lock("x").release_by("somebody else").await.unwrap());
    renewed([&guard]).await;
    let patient = Client::with(client.backend().clone(), woken_only());
    let mut monitor = server.monitor().unwrap();
    let waiting = tokio::spawn(async move { patient.lock("x").acquire().await });
    let mut looks = 0;
    until_true("it looks, and looks again", || {
        let taking = |s: &&testbed::Seen| s.name() == "SET" && s.words[1] == "x";
        looks += monitor.drain().unwrap().iter().filter(taking).count();
        looks > 2
    })
    .await;
    guard.release().await.unwrap();
    let next = done("found by looking", waiting).await.unwrap();
    server.cmd(&["SET", "x", "stranger", "PX", "60000"]).unwrap();
    let lost = within("told", next.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    assert_eq!(text(&server, &["GET", "x"]), "stranger", "what another holds is not touched");
    assert!(client.lock("x").release_by("stranger").await.unwrap());
    let owner = tenure_core::Owner::new();
    let lock = client.lock("x").owner(&owner);
    let (outer, inner) = (lock.acquire().await.unwrap(), lock.acquire().await.unwrap());
    inner.release().await.unwrap();
    outer.release().await.unwrap();
    assert_eq!(server.cmd(&["EXISTS", "x"]).unwrap().int(), Some(0));
}
