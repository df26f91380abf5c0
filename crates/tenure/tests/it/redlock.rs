//! A quorum of real servers, of which some stop, die and forget: table D of `docs/failure-modes.md`.

mod slow;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tenure::backend::{Claim, Kind};
use tenure::{Client, ClientId, Error, HoldId, LostReason, Name, Settings};
use testbed::{FAR, PATIENCE, Redis, RedisOptions, done, io_cause, retry, until, within};

const LEASE: Duration = Duration::from_secs(9);
/// Servers made just now have granted nothing that they could have forgotten. And those that are well may be slow.
const FRESH: &str = "restart_delay=off&node_timeout=5s";

struct Servers(Vec<Redis>);

impl Servers {
    fn start(n: usize) -> Self {
        Self((0..n).map(|_| Redis::start(RedisOptions::default()).expect("a server")).collect())
    }

    fn address(&self, options: &str) -> String {
        let hosts: Vec<String> = self.0.iter().map(|s| format!("127.0.0.1:{}", s.port())).collect();
        format!("redlock://{}?{options}", hosts.join(","))
    }

    async fn client(&self, options: &str) -> Client {
        self.client_for(Duration::from_secs(60), options).await
    }

    /// With a lease whose renewal is waited for.
    async fn renewing(&self, options: &str) -> Client {
        self.client_for(LEASE, options).await
    }

    async fn client_for(&self, lease: Duration, options: &str) -> Client {
        let mut settings = Settings::default();
        settings.lease = lease;
        tenure::connect_with(&self.address(options), settings).await.expect("a majority answers")
    }

    /// Whose calls have little time to be answered.
    async fn hasty_client(&self, options: &str) -> Client {
        let address = self.address(options);
        retry("a majority answers", Error::is_transient, || tenure::connect(&address)).await
    }

    /// On how many of the servers that answer a key is there.
    fn having(&self, key: &str) -> usize {
        self.0.iter().filter(|s| s.cmd(&["EXISTS", key]).is_ok_and(|v| v.int() == Some(1))).count()
    }
}

/// Waits until some of its time has passed, and then until it has more.
async fn renewed(guard: &tenure::Guard) {
    let much = LEASE * 4 / 5;
    until("some time passes", || async { guard.remaining() < much }).await;
    until("renewed", || async { guard.remaining() > much }).await;
}

/// In either layout: held on all, free on all.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_stands_on_every_node() {
    let servers = Servers::start(5);
    for layout in ["redisson", "plain"] {
        let client = servers.client(&format!("{FRESH}&layout={layout}")).await;
        let guard = client.lock(layout).acquire().await.unwrap();
        assert!(guard.fence().is_none());
        until("all have it", || async { servers.having(layout) == 5 }).await;
        let holder = client.lock(layout).holder().await.unwrap().expect("held");
        assert_eq!(holder.hold_id(), Some(guard.id()));
        assert!(client.lock(layout).try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        until("none has it", || async { servers.having(layout) == 0 }).await;
    }
}

/// D1. Two of five stand still, or are gone: the others decide, and nobody waits for those, which have half an hour.
#[tokio::test(flavor = "multi_thread")]
async fn two_of_five_may_stand_still_or_die() {
    let servers = Servers::start(5);
    let client = servers.renewing("restart_delay=off&node_timeout=30m").await;
    let held = client.lock("held").acquire().await.unwrap();
    for gone in ["stopped", "killed"] {
        for server in &servers.0[3..] {
            if gone == "stopped" { server.stop().unwrap() } else { server.kill().unwrap() }
        }
        within(gone, async {
            for i in 0..20 {
                let guard = client.lock(format!("{gone}{i}")).acquire().await.unwrap();
                guard.release().await.unwrap();
            }
        })
        .await;
        renewed(&held).await;
    }
    assert!(held.is_held());
    // One that was down when it began is no obstacle either.
    let other = servers.client(FRESH).await;
    assert!(other.lock("x").try_acquire().await.unwrap().is_some());
}

/// D2. Without a majority it says so in time, and leaves nothing behind: also not on those that did not answer.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_nothing_is_granted_and_nothing_left() {
    let servers = Servers::start(5);
    let mut settings = Settings::default();
    settings.lease = FAR;
    let address = servers.address("restart_delay=off&node_timeout=20s&max_lease=1h");
    let client = tenure::connect_with(&address, settings).await.unwrap();
    servers.0[2..].iter().for_each(|s| s.stop().unwrap());
    let error = within("an answer", client.lock("x").try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(io_cause(&error), ErrorKind::TimedOut);
    let said = error.to_string();
    assert!(said.contains("2 of 5 nodes granted it, 3 needed"), "{said}");
    let silent = format!("node 127.0.0.1:{}: ", servers.0[4].port());
    assert!(said.contains(&silent), "{said}");
    until("given back at once where there was an answer", || async {
        servers.0[..2].iter().all(|s| s.cmd(&["EXISTS", "x"]).unwrap().int() == Some(0))
    })
    .await;
    servers.0[2..].iter().for_each(|s| s.resume().unwrap());
    until("given back where there was none", || async { servers.having("x") == 0 }).await;
    let guard = within("goes on", client.lock("x").acquire()).await.unwrap();
    guard.release().await.unwrap();
}

/// D3. Twenty clients, one name: each gets in, and never two.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_clients_get_in_one_by_one() {
    let servers = Arc::new(Servers::start(5));
    let (inside, most, entries) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (servers, inside, most, entries) =
            (servers.clone(), inside.clone(), most.clone(), entries.clone());
        tasks.push(tokio::spawn(async move {
            let client = servers.client(FRESH).await;
            for _ in 0..3 {
                let guard = client.lock("x").acquire().await.unwrap();
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, SeqCst);
                guard.release().await.unwrap();
                entries.fetch_add(1, SeqCst);
            }
        }));
    }
    for task in tasks {
        done("each gets in", task).await;
    }
    assert_eq!((most.load(SeqCst), entries.load(SeqCst)), (1, 60));
    until("nothing is left", || async { servers.having("x") == 0 }).await;
}

/// D4, S13. Nodes that were restarted keep out until nothing that they forgot can be held any more.
#[tokio::test(flavor = "multi_thread")]
async fn restarted_nodes_keep_out_for_a_while() {
    let servers = Servers::start(3);
    // They have just been started, and nobody knows what they have forgotten.
    let patient = tenure::connect(&servers.address("max_lease=1h")).await.unwrap();
    let error = patient.lock("x").try_acquire().await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("restarted ") && said.contains(" s ago, votes in "), "{said}");
    assert!(error.retry_after().is_some_and(|d| d <= Duration::from_secs(3601)), "{error:?}");
    let client = tenure::connect(&servers.address("max_lease=2s&lease=2s&node_timeout=5s")).await.unwrap();
    drop(within("waits until they may vote", client.lock("x").acquire()).await.unwrap());
    // Two of three forget: nobody is let in although both are free.
    let forget = || {
        servers.0[..2].iter().for_each(|s| {
            s.kill().unwrap();
            s.restart_empty().unwrap();
        });
    };
    forget();
    let error = within("an answer", async {
        loop {
            match client.lock("y").try_acquire().await {
                Err(error) if error.retry_after().is_some() => return error,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                // On a slow machine they may be old enough by now.
                Ok(_) if servers.0[..2].iter().any(|s| seconds_up(s) < 3) => {
                    panic!("granted by those who may have forgotten")
                }
                Ok(_) => forget(),
            }
        }
    })
    .await;
    assert!(error.to_string().contains("of 3 nodes granted it, 2 needed"), "{error}");
    assert!(within("in the end", client.lock("y").acquire()).await.is_ok());
}

fn seconds_up(server: &Redis) -> i64 {
    let info = server.cmd(&["INFO", "server"]).unwrap().text();
    let up = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")).unwrap();
    up.trim().parse().unwrap()
}

/// D4. One of three forgets: the two others decide, and give it back when it is of age.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_is_given_back_what_is_held() {
    let servers = Servers::start(3);
    let client = tenure::connect(&servers.address("max_lease=6s&lease=6s&node_timeout=5s")).await.unwrap();
    let guard = within("waits until they may vote", client.lock("x").acquire()).await.unwrap();
    servers.0[0].kill().unwrap();
    servers.0[0].restart_empty().unwrap();
    until("given back", || async { servers.having("x") == 3 }).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// D4. Nodes killed and restarted empty one after another, under load: never two who believe to hold.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_forget_one_after_another_never_let_two_in() {
    let servers = Arc::new(Servers::start(5));
    let address = servers.address("max_lease=1s&lease=1s");
    // Until when somebody holds, by its own clock.
    let held: Arc<Mutex<Option<Instant>>> = Arc::default();
    let (stop, grants) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    let begun = Instant::now();
    for _ in 0..4 {
        let (address, held, stop, grants) = (address.clone(), held.clone(), stop.clone(), grants.clone());
        tasks.push(tokio::spawn(async move {
            let client = tenure::connect(&address).await.unwrap();
            while !stop.load(SeqCst) {
                let Ok(Some(guard)) = client.lock("x").try_acquire_for(Duration::from_secs(1)).await else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                let mut mine = None;
                for _ in 0..20 {
                    // Looked at first: this task may stand still in between.
                    let until = Instant::now() + guard.remaining();
                    {
                        let mut held = held.lock().unwrap();
                        let now = Instant::now();
                        if until <= now {
                            break;
                        }
                        if *held != mine {
                            assert!(held.is_none_or(|other| other <= now), "two hold");
                        }
                        *held = Some(until);
                    }
                    mine = Some(until);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                grants.fetch_add(1, SeqCst);
                {
                    let mut held = held.lock().unwrap();
                    if *held == mine {
                        *held = None;
                    }
                }
                let _ = guard.release().await;
            }
        }));
    }
    for (n, at) in (0..5).cycle().enumerate() {
        if n >= 15 && grants.load(SeqCst) >= 10 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{grants:?} grants in {n} restarts");
        servers.0[at].kill().unwrap();
        servers.0[at].restart_empty().unwrap();
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    stop.store(true, SeqCst);
    for task in tasks {
        done("ends", task).await;
    }
}

/// D5. What a minority forgot it is given back under the same token; what most forgot is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_minority_is_repaired_and_a_majority_is_a_loss() {
    let servers = Servers::start(5);
    let client = servers.renewing(FRESH).await;
    let guard = client.lock("x").acquire().await.unwrap();
    until("all have it", || async { servers.having("x") == 5 }).await;
    let token = servers.0[4].cmd(&["GET", "x"]).unwrap().text();
    for server in &servers.0[..2] {
        server.cmd(&["DEL", "x"]).unwrap();
    }
    until("given back", || async { servers.having("x") == 5 }).await;
    for server in &servers.0 {
        assert_eq!(server.cmd(&["GET", "x"]).unwrap().text(), token);
    }
    for server in &servers.0[..3] {
        server.cmd(&["DEL", "x"]).unwrap();
    }
    let lost = within("told", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
    until("what was left of it is gone", || async { servers.having("x") == 0 }).await;
}

/// D6. Votes that come when the lease is over are none.
#[tokio::test(flavor = "multi_thread")]
async fn votes_after_the_lease_do_not_count() {
    let servers = Servers::start(3);
    let client = servers.client(FRESH).await;
    assert!(client.lock("warm").try_acquire().await.unwrap().is_some());
    servers.0.iter().for_each(|s| s.stop().unwrap());
    let lease = Duration::from_millis(300);
    let id = HoldId { client: ClientId::new(), n: 1 };
    let claim = Claim { lease, ..Claim::of(id, Name::new("x").unwrap(), Kind::Lock) };
    // Without a client, which would begin anew.
    let backend = client.backend().clone();
    let mut acquiring = backend.try_acquire(&claim);
    // Its time has begun.
    assert!(futures_util::poll!(&mut acquiring).is_pending());
    tokio::time::sleep(lease * 2).await;
    servers.0.iter().for_each(|s| s.resume().unwrap());
    let error = within("an answer", acquiring).await.unwrap_err();
    assert!(error.to_string().contains("of a lease of 300ms"), "{error}");
    until("nothing is left", || async { servers.having("x") == 0 }).await;
}

/// D7. The same server under two names is found out by its run id.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_server_twice_is_refused() {
    let servers = Servers::start(2);
    let (a, b) = (servers.0[0].port(), servers.0[1].port());
    let twice = format!("redlock://127.0.0.1:{a},127.0.0.1:{b},localhost:{a}?{FRESH}");
    let said = within("refused", async {
        loop {
            match tenure::connect(&twice).await {
                Err(error) => return error.to_string(),
                // On a busy machine one of the two may be slower than most. It has no vote all the same.
                Ok(client) => {
                    servers.0[1].stop().unwrap();
                    assert!(client.lock("x").try_acquire().await.is_err(), "one server has two votes");
                    servers.0[1].resume().unwrap();
                }
            }
        }
    })
    .await;
    assert!(said.contains("are the same server"), "{said}");
    let said =
        tenure::connect(&format!("redlock://127.0.0.1:{a},127.0.0.1:{a}")).await.unwrap_err().to_string();
    assert!(said.contains("listed twice"), "{said}");
}

/// D8, D9. What a quorum cannot keep it does not promise.
#[tokio::test(flavor = "multi_thread")]
async fn other_kinds_are_refused() {
    let servers = Servers::start(3);
    let client = servers.client(FRESH).await;
    for (error, says) in [
        (client.semaphore("x", 3).permits(1).try_acquire().await.unwrap_err(), "does not limit their number"),
        (client.election("x").campaign().await.unwrap_err(), "no fencing token"),
        (client.lock("x").fair().try_acquire().await.unwrap_err(), "a queue of its own"),
    ] {
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Too few nodes at the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_does_not_open_without_a_majority() {
    let servers = Servers::start(3);
    servers.0[..2].iter().for_each(|s| s.kill().unwrap());
    let error = tenure::connect(&servers.address(FRESH)).await.unwrap_err();
    assert!(error.to_string().contains("1 of 3 nodes answer, 2 needed"), "{error}");
    assert_eq!(io_cause(&error), ErrorKind::ConnectionRefused);
}

/// A node that cannot vote does not make a busy name unavailable.
#[tokio::test(flavor = "multi_thread")]
async fn busy_is_busy_though_a_node_is_gone() {
    let servers = Servers::start(3);
    let (client, other) = (servers.client(FRESH).await, servers.client(FRESH).await);
    let held = other.lock("x").acquire().await.unwrap();
    servers.0[0].kill().unwrap();
    for _ in 0..50 {
        assert!(client.lock("x").try_acquire().await.unwrap().is_none());
    }
    held.release().await.unwrap();
    let guard = within("free", client.lock("x").acquire()).await.unwrap();
    guard.release().await.unwrap();
}

/// A node that stood still for longer than a call may take holds up no releases when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_holds_nobody_up() {
    let servers = Servers::start(3);
    // What is held up ends with its lease.
    let options = "restart_delay=off&node_timeout=5s&timeout=1s&lease=30m&max_lease=1h";
    let client = servers.hasty_client(options).await;
    let pair = async |name: String| client.lock(name).acquire().await.unwrap().release().await.unwrap();
    pair("warm".into()).await;
    servers.0[2].stop().unwrap();
    for i in 0..50 {
        pair(format!("away{i}")).await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    servers.0[2].resume().unwrap();
    until("it votes again", || async {
        let guard = client.lock("probe").acquire().await.unwrap();
        let there = servers.0[2].cmd(&["EXISTS", "probe"]).unwrap().int() == Some(1);
        guard.release().await.unwrap();
        there
    })
    .await;
    for i in 0..20 {
        let name = format!("back{i}");
        let guard = client.lock(&name).acquire().await.unwrap();
        guard.release().await.unwrap();
        until("free everywhere", || async { servers.having(&name) == 0 }).await;
    }
}

/// A hold can be released by its id from another process, and a lease that is too long is refused there, too.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_enough_to_release_from_elsewhere() {
    let servers = Servers::start(3);
    let (client, other) = (servers.renewing(FRESH).await, servers.client(FRESH).await);
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(other.lock("x").renew_by(guard.id()).await.unwrap());
    let error = other.lock("x").lease(Duration::from_secs(600)).renew_by(guard.id()).await.unwrap_err();
    assert!(error.to_string().contains("longer than max_lease"), "{error}");
    assert!(other.lock("x").release_by(guard.id()).await.unwrap());
    assert!(!other.lock("x").release_by(guard.id()).await.unwrap());
    let lost = within("told", guard.lost()).await;
    assert_eq!(lost.reason, LostReason::Gone);
}

/// Told how often to try, `acquire` gives up after so many rounds; who says how long waits that long.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_gives_up_after_its_tries() {
    let servers = Servers::start(3);
    let client = servers.client(&format!("{FRESH}&tries=3&retry_delay=1ms-5ms&call_timeout=60s")).await;
    let other = servers.client(FRESH).await;
    let held = other.lock("x").acquire().await.unwrap();
    let error = within("an end", client.lock("x").acquire()).await.unwrap_err();
    assert!(matches!(error, Error::GaveUp { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("after 3 rounds") && said.matches("held by another").count() >= 2, "{said}");
    let wait = Duration::from_secs(3);
    let begun = Instant::now();
    assert!(client.lock("x").try_acquire_for(wait).await.unwrap().is_none());
    assert!(begun.elapsed() >= wait);
    held.release().await.unwrap();
    until("no places are left", || async { other.show("x").await.unwrap().is_none() }).await;
}

/// The words of `doctor`.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_knows_a_quorum() {
    let servers = Servers::start(4);
    let client = servers.client(FRESH).await;
    servers.0[3].kill().unwrap();
    let findings = client.diagnose().await.unwrap();
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let text = text.join("\n");
    for words in
        ["4 nodes, of which 3 must agree and 1 may fail", "does not answer", "may grant a lock twice"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}
