//! B. Network and connection: a proxy between the client and the server does what networks do.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Backend, Client, Error, HoldId, Kind, LostReason};
use tenure_redis::{Redis, Tls};
use testbed::{
    Certificates, Cut, FAR, Proxy, RedisOptions, Rule, Way, done, io_cause, until, until_true, within,
};

use crate::harness::{
    CALL, Harness, SHORT, about, all_held, claim, hasty, leasing, open, options, polling, renewed, settings,
    take, templates, waiting, warm, warmed, woken_only,
};

/// How a connection that was cut ends, depending on what was in flight.
const CUT: [ErrorKind; 3] = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];

/// B1. Nobody listens: certainly not executed, told as such, and it works again when the server does.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_leave_is_unavailable() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let (client, patient) = (Client::with(backend.clone(), hasty()), Client::with(backend, settings()));
    patient.lock("x").acquire().await.unwrap().release().await.unwrap();
    harness.redis.kill().unwrap();
    for lock in [client.lock("x"), client.lock("y").fair()] {
        let error = lock.try_acquire().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_eq!(io_cause(&error), ErrorKind::ConnectionRefused);
    }
    harness.redis.restart_empty().unwrap();
    until("it works again", || async { client.lock("x").try_acquire().await.is_ok_and(|g| g.is_some()) })
        .await;
}

/// B21. As without a leader, or behind a balancer that has nobody to pass it on to.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_closes_at_once_is_tried_again_within_the_call() {
    let harness = Harness::start();
    let network = harness.network();
    network.proxy.set(Way::ToServer, Rule::CutAfter(0));
    let error = Redis::open(network.options()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(CUT.contains(&io_cause(&error)), "{error:?}");
    let mut patient = settings();
    (patient.call_timeout, patient.outage) = (FAR, FAR);
    let client = Client::with(Arc::new(Redis::new(network.options()).unwrap()), patient);
    let (tries, waits) = (client.lock("x"), client.lock("y"));
    let tries = tokio::spawn(async move { tries.try_acquire().await });
    let waits = tokio::spawn(async move { waits.acquire().await });
    let before = network.proxy.accepted();
    until_true("it was tried again", || network.proxy.accepted() >= before + 5).await;
    assert!(!tries.is_finished() && !waits.is_finished());
    network.proxy.heal();
    assert!(done("the try", tries).await.unwrap().is_some());
    drop(done("the wait", waits).await.unwrap());
}

/// B1. It left and never arrived: nobody can know, and the repeat has the same id.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_lost_on_the_way_is_unknown_and_repeated_under_its_id() {
    let harness = Harness::start();
    let network = harness.network();
    let (backend, client) = (open(network.options()).await, network.client().await);
    network.proxy.cut_once("never-arrives", Cut::BeforeRequest);
    let error = backend.try_acquire(&claim("never-arrives", Kind::Lock)).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(CUT.contains(&io_cause(&error)), "{error:?}");
    assert!(!harness.exists("never-arrives"));

    network.proxy.cut_once("comes-again", Cut::BeforeRequest);
    let guard = client.lock("comes-again").acquire().await.unwrap();
    assert_eq!(network.proxy.cuts_left(), 0);
    let fields = harness.holders("comes-again");
    assert_eq!(fields, [guard.id().to_string()]);
}

/// B2. The repeat finds what the first one got, of every kind; a repeated release is a release; and the server keeps
/// the key for at least as long as the guard believes.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_and_a_release_whose_replies_are_lost_count() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    let look = harness.client().await;
    let mut releases = Vec::new();
    for (n, cut) in [Cut::AfterRequest, Cut::InReply(3)].into_iter().enumerate() {
        for (name, lock) in templates(&client, &n.to_string()) {
            network.proxy.cut_once(&name, cut);
            let guard = lock.acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(network.proxy.cuts_left(), 0, "{name}");
            let shown = look.show(&name).await.unwrap().expect("in use");
            let holders: Vec<_> = shown.holders.iter().map(|h| (h.id.clone(), h.fence)).collect();
            assert_eq!(
                holders,
                [(guard.id().to_string(), guard.fence())],
                "{name}: one hold, with its own fence"
            );
            if name.starts_with("permits") {
                assert_eq!(harness.number(&["GET", &name]), 2, "three of five, once");
            } else {
                assert!(harness.covers(&name, &guard), "{name}");
            }
            network.proxy.cut_once(&name, cut);
            let releasing = tokio::spawn(guard.release());
            until_true("it is cut", || network.proxy.cuts_left() == 0).await;
            releases.push((name, releasing));
        }
    }
    // Each lasts until nothing can be left of the attempt that was cut: all of them at a time.
    for (name, releasing) in releases {
        done(&name, releasing).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        let left = look.show(&name).await.unwrap();
        assert!(left.is_none_or(|s| s.holders.is_empty()), "{name} is free");
    }
}

/// B3. An answer that took longer than the lease does not count, and what it granted is given back.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_lease_is_no_grant() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    let mut monitor = harness.redis.monitor().unwrap();
    let lease = Duration::from_millis(300);
    network.proxy.set(Way::ToClient, Rule::Delay(lease * 2));
    let error = client.lock("late").lease(lease).try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let mut all = Vec::new();
    until_true("an undo was sent", || {
        all.extend(monitor.drain().unwrap());
        let kinds: BTreeSet<_> = about(&all, "late").iter().map(|s| s.words[1].clone()).collect();
        kinds.len() == 2
    })
    .await;
    assert!(!harness.exists("late"));
}

/// B4. What the network delivers twice has the effect of once: each command of each kind is sent again as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_executed_twice_changes_nothing() {
    let harness = Harness::start();
    let client = harness.client().await;
    warm(&client).await;
    let mut monitor = harness.redis.monitor().unwrap();
    let mut twice = async |what: &str| {
        let before = state(&harness);
        let seen = monitor.drain().unwrap();
        let mut again = harness.redis.client().unwrap();
        for command in crate::harness::scripts(&seen) {
            again.cmd(&command.words).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
        assert_eq!(state(&harness), before, "{what}");
        // What was sent again is not sent a third time.
        monitor.drain().unwrap();
    };
    let me = tenure_core::Owner::new();
    for (name, lock) in templates(&client, "twice") {
        let outer = lock.clone().owner(&me).lease(FAR).acquire().await.unwrap();
        twice(&format!("{name}: acquire")).await;
        if !name.starts_with("permits") {
            let inner = lock.clone().owner(&me).lease(FAR).acquire().await.unwrap();
            twice(&format!("{name}: enter again")).await;
            inner.release().await.unwrap();
            twice(&format!("{name}: inner release")).await;
        }
        outer.release().await.unwrap();
        twice(&format!("{name}: release")).await;
    }
    let (latch, seats) = (client.latch("latch-twice"), client.counting_semaphore("seats-twice"));
    assert!(latch.try_set_count(3).await.unwrap());
    twice("set a latch").await;
    latch.count_down().await.unwrap();
    twice("count down").await;
    assert!(seats.try_set(5).await.unwrap());
    twice("set a semaphore").await;
    assert!(seats.try_acquire(2).await.unwrap());
    twice("take").await;
    seats.release(2).await.unwrap();
    twice("give back").await;
    assert_eq!(seats.drain().await.unwrap(), 5);
    twice("drain").await;
}

/// The attempts on `x` that the server has executed, in their order.
struct Attempts {
    monitor: testbed::Monitor,
    seen: Vec<(HoldId, Vec<String>)>,
}

impl Attempts {
    fn new(harness: &Harness) -> Self {
        Self { monitor: harness.redis.monitor().unwrap(), seen: Vec::new() }
    }

    fn all(&mut self) -> &[(HoldId, Vec<String>)] {
        // The first one on a plain lock is no script.
        let drained = self.monitor.drain().unwrap();
        let set = |s: &&testbed::Seen| s.name() == "SET" && !s.is_in_script();
        let sets = drained.iter().filter(set).filter(|s| s.words.iter().any(|w| w == "x"));
        let mut attempts: Vec<_> = about(&drained, "x").into_iter().chain(sets).collect();
        attempts.sort_by(|a, b| a.at.total_cmp(&b.at));
        for attempt in attempts {
            let id = attempt.words.iter().find_map(|w| w.parse().ok()).expect("an id");
            self.seen.push((id, attempt.words.clone()));
        }
        &self.seen
    }

    /// Until there are `n`; the last one of them.
    async fn until(&mut self, n: usize) -> (HoldId, Vec<String>) {
        until_true("that many attempts", || self.all().len() >= n).await;
        self.seen[n - 1].clone()
    }
}

/// B4. The first attempt of one who waits now comes a second time, late, when the name is free: it is granted to an id at
/// the back of its gate. The busy answer to whoever is in front says who has it, and it gets what is its own.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_executed_late_is_found_by_who_is_in_front() {
    let harness = Harness::start();
    let hash = Client::with(harness.backend().await, woken_only());
    let mut options = harness.options();
    options.layout = tenure_redis::Layout::Plain;
    let plain = Client::with(open(options).await, woken_only());
    // From now on the server knows the script of those who wait, too.
    plain.lock("warm").note("n").acquire().await.unwrap().release().await.unwrap();
    let own = |name: &str| format!("{name}:{{x}}");
    for (lock, keys, channel) in [
        (hash.lock("x"), vec![], own("redisson_lock__channel")),
        (
            hash.semaphore("x", 1).permits(1),
            vec!["{x}:timeout".to_owned(), own("tenure_permits")],
            own("redisson_sc"),
        ),
        (plain.lock("x"), vec![], own("tenure_lock")),
    ] {
        let held = lock.acquire().await.unwrap();
        let mut attempts = Attempts::new(&harness);
        // With a limit, so that each looks for itself before it waits behind others.
        let waits = || {
            let lock = lock.clone();
            tokio::spawn(async move { lock.try_acquire_for(FAR).await.unwrap().unwrap() })
        };
        // Once for itself, and once at the gate, when it listens.
        let front = waits();
        attempts.until(2).await;
        let back = waits();
        let (id, again) = attempts.until(3).await;
        // The holder is gone, and before anybody hears of it the old attempt comes.
        harness.cmd(&["DEL", "x"]);
        keys.iter().for_each(|key| drop(harness.cmd(&["DEL", key])));
        let again: Vec<&str> = again.iter().map(String::as_str).collect();
        let answer = harness.cmd(&again);
        let granted = answer.is_nil() || answer.items()[0].int() == Some(1);
        assert!(granted, "granted to one who does not know");
        harness.cmd(&["PUBLISH", &channel, "1"]);
        let guard = done("it gets what is its own", back).await;
        assert_eq!(guard.id(), id);
        guard.release().await.unwrap();
        done("and then the first", front).await.release().await.unwrap();
        drop(held);
        harness.cmd(&["FLUSHALL"]);
    }
}

/// B4. An attempt comes a second time while its first answer is still on the way: whoever is in front has looked before
/// the claim comes to the gate.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_executed_late_is_found_when_it_comes_to_wait() {
    let harness = Harness::start();
    let network = harness.network();
    let client = Client::with(open(network.options()).await, woken_only());
    let held = client.lock("x").acquire().await.unwrap();
    let mut attempts = Attempts::new(&harness);
    // With a limit, so that each looks for itself before it waits behind others.
    let waits = || {
        let lock = client.lock("x");
        tokio::spawn(async move { lock.try_acquire_for(FAR).await.unwrap().unwrap() })
    };
    let front = waits();
    attempts.until(2).await;
    // The connection of this runtime; the gate has others.
    network.proxy.set_for(0, Way::ToClient, Rule::Stall);
    let back = waits();
    let (id, again) = attempts.until(3).await;
    harness.cmd(&["DEL", "x"]);
    let again: Vec<&str> = again.iter().map(String::as_str).collect();
    assert_eq!(harness.cmd(&again).items()[0].int(), Some(1), "granted to one who does not know");
    harness.cmd(&["PUBLISH", "redisson_lock__channel:{x}", "0"]);
    // What was sent again, and then the one in front.
    assert_ne!(attempts.until(5).await.0, id);
    network.proxy.heal();
    let guard = done("it gets what is its own", back).await;
    assert_eq!(guard.id(), id);
    guard.release().await.unwrap();
    done("and then the first", front).await.release().await.unwrap();
    drop(held);
}

/// All that is stored, but for how long, and for what is remembered in order to know a repeat.
fn state(harness: &Harness) -> Vec<(String, String)> {
    let mut client = harness.redis.client().unwrap();
    let kept = |key: &String| !key.starts_with("tenure_operations");
    let keys = harness.keys().into_iter().filter(kept);
    keys.map(|key| {
        let dump = match client.cmd(&["TYPE", &key]).unwrap().text().as_str() {
            "hash" => client.cmd(&["HGETALL", &key]),
            "zset" => client.cmd(&["ZRANGE", &key, "0", "-1"]),
            "list" => client.cmd(&["LRANGE", &key, "0", "-1"]),
            _ => client.cmd(&["GET", &key]),
        };
        let mut items = dump.unwrap();
        if let testbed::Value::Array(items) = &mut items {
            items.sort_by_key(testbed::Value::text);
        }
        (key, format!("{items:?}"))
    })
    .collect()
}

/// B5. Connections that nobody tells of their end are found out by the clock, and the lock is renewed over others.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_renewed_although_its_connections_are_half_open() {
    let harness = Harness::start();
    let network = harness.network();
    let mut options = network.options();
    options.timeout = Duration::from_secs(3);
    let client = warmed(options, leasing(Duration::from_secs(30))).await;
    let guard = client.lock("x").acquire().await.unwrap();
    let before = network.proxy.accepted();
    for connection in 0..before {
        network.proxy.set_for(connection, Way::ToClient, Rule::Swallow);
        network.proxy.set_for(connection, Way::ToServer, Rule::Swallow);
    }
    renewed([&guard]).await;
    assert!(network.proxy.accepted() > before, "over a new connection");
    assert!(harness.covers("x", &guard));
    guard.release().await.unwrap();
}

/// B5. A waiter that listens at a dead connection looks for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_with_a_half_open_subscription_gets_in_by_its_poll() {
    let harness = Harness::start();
    let network = harness.network();
    let poll = Duration::from_millis(700);
    let (holder, client) =
        (harness.client_with(leasing(FAR)).await, network.hasty_client(polling(poll)).await);
    let held = holder.lock("x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { client.lock("x").acquire().await });
    waiting(&holder, "x", 1).await;
    for connection in 0..network.proxy.accepted() {
        network.proxy.set_for(connection, Way::ToClient, Rule::Swallow);
    }
    // Once it might look because it has found out how silent its connection is; more often only by its poll.
    let mut monitor = harness.redis.monitor().unwrap();
    let mut looks = 0;
    until_true("it looks again and again", || {
        looks += about(&monitor.drain().unwrap(), "x").len();
        looks > 3
    })
    .await;
    held.release().await.unwrap();
    drop(done("its next look", waiter).await.unwrap());
}

/// B6. A holder whose commands do not arrive has ended by its own clock before the next one enters, and the fence of
/// the next is larger: what is protected refuses the old one. Also A1 and A8, as seen from outside.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_not_heard_ends_before_the_next_begins() {
    let harness = Harness::start();
    let network = harness.network();
    let (client, other) = (network.client_with(leasing(SHORT * 2)).await, harness.client().await);
    let held = all_held(&client, "one-way").await;
    network.proxy.set(Way::ToServer, Rule::Stall);
    for (name, _, old) in held {
        let heir = templates(&other, "one-way").into_iter().find(|(n, _)| *n == name).unwrap().1;
        let heir = if name.starts_with("read") { other.rwlock(&name).write() } else { heir };
        let new = within(&name, heir.acquire()).await.unwrap();
        assert!(!old.is_held(), "{name}: two holders");
        assert_eq!(old.lost().await.reason, LostReason::Expired);
        assert!(new.fence() > old.fence(), "{name}");
        new.release().await.unwrap();
    }
}

/// B6. A holder that hears nothing, though it is heard, ends as well; and afterwards it frees what its last renewals
/// have kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_hears_nothing_ends_and_frees_the_name() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client_with(leasing(SHORT * 2)).await;
    let guard = take(&client.lock("x")).await;
    network.proxy.set(Way::ToClient, Rule::Stall);
    let lost = within("its own clock", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Expired);
    network.proxy.heal();
    until_true("free", || !harness.exists("x")).await;
    assert!(harness.client().await.lock("x").try_acquire().await.unwrap().is_some());
}

/// B6. A waiter whose answers do not come disturbs neither the holder nor, for longer than its lease, those who wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_hears_nothing_does_not_disturb() {
    let harness = Harness::start();
    let network = harness.network();
    let (client, other) = (network.hasty_client(leasing(SHORT)).await, harness.client().await);
    let held = other.lock("x").acquire().await.unwrap();
    let deaf = tokio::spawn(async move { client.lock("x").acquire().await.map(drop) });
    waiting(&other, "x", 1).await;
    network.proxy.set(Way::ToClient, Rule::Stall);
    renewed([&held]).await;
    assert_eq!(harness.holders("x"), [held.id().to_string()]);
    held.release().await.unwrap();
    // Whether or not its last attempt arrived just then: it cannot renew what it does not know of.
    assert!(harness.left("x") <= SHORT);
    within("one lease at most", other.lock("x").acquire()).await.unwrap().release().await.unwrap();
    deaf.abort();
}

/// B7. A deadline counts for the whole of a call, however slowly its answer trickles in.
#[tokio::test(flavor = "multi_thread")]
async fn a_trickling_answer_ends_at_the_deadline() {
    let harness = Harness::start();
    let network = harness.network();
    let backend = open(network.hasty()).await;
    until("warm", || async { backend.try_acquire(&claim("warm", Kind::Lock)).await.is_ok() }).await;
    // The whole answer would take far longer. A deadline that each byte puts off would let it come.
    network.proxy.set(Way::ToClient, Rule::Trickle(CALL / 2));
    let begin = Instant::now();
    let attempt = claim("x", Kind::Lock);
    let error = within("the deadline", backend.try_acquire(&attempt)).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(begin.elapsed() > CALL / 2, "{:?}", begin.elapsed());
}

/// B7. So it does for connecting, logging in and the handshake of an encryption.
#[tokio::test(flavor = "multi_thread")]
async fn a_trickling_handshake_ends_at_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let files = Certificates::generate(folder.path()).unwrap();
    let plain = Harness::start();
    let encrypted = Harness::with(RedisOptions { tls: Some(files.clone()), ..RedisOptions::default() });
    let ca = Some(files.ca);
    for (harness, tls) in [(plain, None), (encrypted, Some(Tls { ca, ..Tls::default() }))] {
        let proxy = Proxy::start_raw(harness.redis.port()).unwrap();
        let mut through = options(proxy.port());
        (through.timeout, through.tls) = (CALL, tls);
        // Opens while the network is well.
        open(through.clone()).await;
        proxy.set(Way::ToClient, Rule::Trickle(CALL / 4));
        let error = within("the deadline", Redis::open(through)).await.expect_err("too slow");
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        assert_eq!(io_cause(&error), ErrorKind::TimedOut);
    }
}

/// B9. A certificate of an unknown issuer is a wrong configuration, not a bad day; and nothing is sent in the clear.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = Certificates::generate(folder.path()).unwrap();
    let other = Certificates::generate(elsewhere.path()).unwrap();
    let harness = Harness::with(RedisOptions { tls: Some(files.clone()), ..RedisOptions::default() });
    let with = |ca| {
        let mut options = harness.options();
        options.tls = Some(Tls { ca: Some(ca), ..Tls::default() });
        options
    };
    Redis::open(with(files.ca.clone())).await.expect("a known issuer");
    let error = Redis::open(with(other.ca)).await.expect_err("an unknown issuer");
    assert!(matches!(error, Error::Config(_)), "{error}");
    // A client that speaks TLS to a server that does not.
    let clear = Harness::start();
    let mut options = clear.options();
    options.timeout = CALL;
    options.tls = Some(Tls { ca: Some(files.ca), ..Tls::default() });
    let error = Redis::open(options).await.expect_err("no TLS there");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!([ErrorKind::InvalidData, ErrorKind::TimedOut].contains(&io_cause(&error)), "{error:?}");
}

/// B10. However many wait, a server that comes back meets a handful of connections, not one for each.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_meets_no_storm_of_connections() {
    const WAITERS: usize = 500;
    let harness = Harness::with(RedisOptions { append_only: true, ..RedisOptions::default() });
    let network = harness.network();
    let client = network.client_with(polling(Duration::from_secs(1))).await;
    let held = client.lock("x").acquire().await.unwrap();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = client.lock("x");
            tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    waiting(&client, "x", 1).await;
    let before = network.proxy.accepted();
    // However long it is away: what is counted is what it meets when it is back.
    network.proxy.refuse();
    harness.redis.kill().unwrap();
    network.proxy.close_all();
    harness.redis.restart().unwrap();
    network.proxy.accept().unwrap();
    // The hold may have outlived the restart or not: what counts is that all get in.
    drop(held);
    for waiter in waiters {
        done("all get in", waiter).await;
    }
    let new = network.proxy.accepted() - before;
    assert!(new <= 30, "{new} connections for {WAITERS} waiters");
}

/// B11. Renewal has connections of its own: calls that hang do not hold it up.
#[tokio::test(flavor = "multi_thread")]
async fn renewal_does_not_wait_behind_acquires() {
    let harness = Harness::start();
    let network = harness.network();
    let client = network.client().await;
    let guard = client.lock("x").acquire().await.unwrap();
    // The first connection is that of the callers.
    network.proxy.set_for(0, Way::ToServer, Rule::Stall);
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let lock = client.lock(format!("y{n}"));
            tokio::spawn(async move { lock.try_acquire().await.map(drop) })
        })
        .collect();
    renewed([&guard]).await;
    for call in calls {
        call.abort();
    }
}
