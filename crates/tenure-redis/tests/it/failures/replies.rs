//! C5–C13. What the server says instead of an answer: each error has its class, and what it did not execute is tried
//! again until it does.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Backend, Renewal};
use tenure_core::{Claim, Client, Error, Kind};
use testbed::{FAR, Redis, RedisOptions, done, free_port, until_true, wait_until, within};

use crate::harness::{
    Harness, LONG, SHORT, claim, granted, hasty, leasing, open, options, renewed, settings, take, templates,
    warm, warmed,
};

/// Of every kind: certainly not executed, in the server's own words; and once the server is well again, granted.
async fn refuses_with(code: &str, client: &Client, heal: impl FnOnce()) {
    for (name, lock) in templates(client, code) {
        let error = match lock.try_acquire().await {
            Err(error) => error,
            // Memory is not looked at any more once a script has written something, be it that it took something away.
            Ok(Some(guard)) if code == "OOM" && !name.starts_with("lock") && !name.starts_with("fair") => {
                guard.release().await.unwrap();
                continue;
            }
            Ok(other) => panic!("{name}: {other:?}"),
        };
        assert!(matches!(error, Error::Unavailable { .. }), "{name}: {error}");
        assert!(error.to_string().contains(code), "{name}: {error}");
    }
    let error = client.latch(format!("latch-{code}")).try_set_count(2).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains(code), "{error}");
    // Whoever waits is not told of an error that passes.
    let patient = Client::with(client.backend().clone(), settings());
    let lock = patient.lock("patient");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    heal();
    done("granted in the end", waiting).await.unwrap().release().await.unwrap();
    for (name, lock) in templates(&patient, code) {
        let guard = lock.try_acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
        guard.unwrap_or_else(|| panic!("{name}: the refused one holds it")).release().await.unwrap();
    }
}

/// C5. A server that is out of memory takes nothing new, and goes on renewing and releasing what is held.
#[tokio::test(flavor = "multi_thread")]
async fn out_of_memory_is_unavailable() {
    let harness = Harness::start();
    let client = warmed(harness.options(), hasty()).await;
    let held = client.lock("held").acquire().await.unwrap();
    harness.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    refuses_with("OOM", &client, || drop(harness.cmd(&["CONFIG", "SET", "maxmemory", "0"]))).await;
    harness.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    renewed([&held]).await;
    held.release().await.unwrap();
    assert!(!harness.exists("held"));
}

/// C5. What is there needs no memory to be kept: permits are renewed and places in queues stamped.
#[tokio::test]
async fn out_of_memory_permits_are_renewed_and_places_kept() {
    let harness = Harness::start();
    let backend = harness.backend().await;
    let permits = claim("permits", Kind::Permit { n: 2, limit: 3 });
    assert!(granted(&*backend, &permits).await);
    let mut claims = vec![Arc::new(Claim { lease: LONG * 2, ..permits })];
    for (name, kind) in [("fair", Kind::FairLock), ("write", Kind::Write), ("lock", Kind::Lock)] {
        assert!(granted(&*backend, &claim(name, kind)).await);
        let place = Claim { wait: Some(FAR), ..claim(name, kind) };
        assert!(!granted(&*backend, &place).await);
        claims.push(Arc::new(place));
    }
    harness.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    for one in &claims {
        let answer =
            backend.renew(std::slice::from_ref(one)).await.unwrap_or_else(|e| panic!("{}: {e}", one.name));
        let kept = matches!(answer[..], [Renewal::Held { .. } | Renewal::Queued]);
        assert!(kept, "{}: {answer:?}", one.name);
        // Those in front of a gate are stamped by their attempts.
        if one.wait.is_some() {
            assert!(!granted(&*backend, one).await);
        }
    }
    let end: f64 = harness
        .cmd(&["ZSCORE", "tenure_permits:{permits}", &claims[0].id.to_string()])
        .text()
        .parse()
        .unwrap();
    assert!(end - harness.time() > LONG.as_millis() as f64, "renewed for twice as long");
    let error = backend.try_acquire(&claim("new", Kind::Lock)).await.unwrap_err();
    assert!(error.to_string().contains("OOM"), "the test itself: {error}");
}

/// A script that has no end, until the test kills it.
struct Endless<'a> {
    harness: &'a Harness,
    client: testbed::Resp,
}

impl<'a> Endless<'a> {
    async fn start(harness: &'a Harness) -> Self {
        let mut client = harness.redis.client().unwrap();
        client.send(&["EVAL", "while true do end", "0"]).unwrap();
        let is_busy = |e: testbed::Error| e.reply().is_some_and(|r| r.starts_with("BUSY"));
        until_true("busy", || harness.redis.cmd(&["GET", "x"]).is_err_and(is_busy)).await;
        Self { harness, client }
    }

    /// Fails if somebody else has killed it.
    fn kill(mut self) {
        assert_eq!(self.client.receive_within(Duration::from_millis(1)).unwrap(), None, "it runs");
        self.harness.cmd(&["SCRIPT", "KILL"]);
        assert!(self.client.receive().is_err());
    }
}

/// C9. A long script of somebody else is waited for, and never killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_server_is_waited_for() {
    let harness = Harness::configured(&["busy-reply-threshold 20"]);
    let (client, hasty) = (harness.client_with(leasing(LONG)).await, harness.client_with(hasty()).await);
    warm(&client).await;
    let held = client.lock("held").acquire().await.unwrap();
    let script = Endless::start(&harness).await;
    let waiting = {
        let lock = client.lock("x");
        tokio::spawn(async move { lock.acquire().await })
    };
    let error = hasty.lock("x").try_acquire().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }) && error.to_string().contains("BUSY"), "{error}");
    script.kill();
    let guard = done("the script is over", waiting).await.unwrap();
    assert!(held.is_held());
    guard.release().await.unwrap();
    held.release().await.unwrap();
}

/// C9. Its validity runs on meanwhile: a hold that could not be renewed in time ends by its own clock.
#[tokio::test(flavor = "multi_thread")]
async fn validity_runs_while_the_server_is_busy() {
    let harness = Harness::configured(&["busy-reply-threshold 20"]);
    let client = warmed(harness.options(), leasing(SHORT * 2)).await;
    let guard = take(&client.lock("x")).await;
    let script = Endless::start(&harness).await;
    let lost = within("its own clock", guard.lost()).await;
    assert_eq!(lost.reason, tenure_core::LostReason::Expired);
    script.kill();
    until_true("free", || !harness.exists("x")).await;
}

/// C10. Scripts forgotten every ten milliseconds, under load: nobody notices.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_flushed_all_the_time_change_nothing() {
    let harness = Harness::start();
    let client = harness.client().await;
    let kept = client.lock("kept").acquire().await.unwrap();
    let mut flusher = harness.redis.client().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let flushing = std::thread::spawn(move || {
        let mut flushes = 0;
        while stopped.recv_timeout(Duration::from_millis(10)).is_err() {
            flusher.cmd(&["SCRIPT", "FLUSH"]).unwrap();
            flushes += 1;
        }
        flushes
    });
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (client, inside) = (client.clone(), inside.clone());
            tokio::spawn(async move {
                for _ in 0..25 {
                    for (name, lock) in templates(&client, "flushed") {
                        let guard = lock.acquire().await.unwrap_or_else(|e| panic!("{name}: {e}"));
                        if name.starts_with("lock") {
                            assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                            tokio::task::yield_now().await;
                            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        }
                        guard.release().await.unwrap_or_else(|e| panic!("{name}: {e}"));
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        done("all are done", task).await;
    }
    renewed([&kept]).await;
    stop.send(()).unwrap();
    assert!(flushing.join().unwrap() > 10);
    kept.release().await.unwrap();
}

/// C11. LOADING: a server that reads its files is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_loading_server_is_waited_for() {
    // Each key takes its time to load, until the test has seen enough, and clients are answered in between.
    let lines = ["key-load-delay 20000", "loading-process-events-interval-bytes 1024", "rdbcompression no"];
    let harness = Harness::with(RedisOptions {
        save: Some("3600 1000000".into()),
        lines: lines.map(str::to_owned).to_vec(),
        ..RedisOptions::default()
    });
    let mut fill = harness.redis.client().unwrap();
    for n in 0..6000 {
        fill.cmd(&["SET", &format!("filler-{n}"), &"x".repeat(100)]).unwrap();
    }
    let client = harness.client_with(hasty()).await;
    let patient = harness.client().await;
    fill.cmd(&["SAVE"]).unwrap();
    harness.redis.kill().unwrap();
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| harness.redis.restart());
        let loading = || {
            let reply = harness.redis.cmd(&["PING"]).err()?;
            reply.reply().is_some_and(|r| r.starts_with("LOADING")).then_some(())
        };
        wait_until("it loads", loading);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            runtime.block_on(async {
                let error = client.lock("x").try_acquire().await.unwrap_err();
                assert!(
                    matches!(error, Error::Unavailable { .. }) && error.to_string().contains("LOADING"),
                    "{error}"
                );
                let lock = patient.lock("x");
                let waiting = tokio::spawn(async move { lock.acquire().await });
                harness.cmd(&["CONFIG", "SET", "key-load-delay", "0"]);
                done("loaded", waiting).await.unwrap().release().await.unwrap();
            })
        });
        restart.join().unwrap().unwrap();
    });
}

/// C11. READONLY: a replica writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_replica_is_unavailable() {
    let harness = Harness::start();
    let client = warmed(harness.options(), hasty()).await;
    let master = Redis::start(RedisOptions::default()).unwrap();
    harness.cmd(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    wait_until("linked", || {
        (harness.redis.info("replication").ok()?["master_link_status"] == "up").then_some(())
    });
    refuses_with("READONLY", &client, || drop(harness.cmd(&["REPLICAOF", "NO", "ONE"]))).await;
}

/// C11. MASTERDOWN: nor does a replica that has lost its master.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_its_master_is_unavailable() {
    let harness = Harness::configured(&["replica-serve-stale-data no"]);
    let client = warmed(harness.options(), hasty()).await;
    harness.cmd(&["REPLICAOF", "127.0.0.1", &free_port().unwrap().to_string()]);
    refuses_with("MASTERDOWN", &client, || drop(harness.cmd(&["REPLICAOF", "NO", "ONE"]))).await;
}

/// C11. NOREPLICAS: too few replicas for a write.
#[tokio::test(flavor = "multi_thread")]
async fn too_few_replicas_are_unavailable() {
    let harness = Harness::start();
    let client = warmed(harness.options(), hasty()).await;
    harness.cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    refuses_with("NOREPLICAS", &client, || {
        drop(harness.cmd(&["CONFIG", "SET", "min-replicas-to-write", "0"]))
    })
    .await;
}

/// C11. MISCONF: a server that could not save refuses to write.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_save_is_unavailable() {
    let harness =
        Harness::with(RedisOptions { save: Some("3600 1000000".into()), ..RedisOptions::default() });
    let client = warmed(harness.options(), hasty()).await;
    std::fs::remove_dir_all(harness.redis.instance().data()).unwrap();
    harness.cmd(&["BGSAVE"]);
    let failed =
        || (harness.redis.info("persistence").ok()?["rdb_last_bgsave_status"] == "err").then_some(());
    wait_until("the save fails", failed);
    refuses_with("MISCONF", &client, || {
        drop(harness.cmd(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]))
    })
    .await;
}

/// C11. CLUSTERDOWN: a node that serves no slots.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_slots_is_unavailable() {
    let bus = format!("cluster-port {}", free_port().unwrap());
    let harness = Harness::configured(&["cluster-enabled yes", &bus]);
    let client = Client::with(open(options(harness.redis.port())).await, hasty());
    refuses_with("CLUSTERDOWN", &client, || {
        harness.cmd(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        wait_until("served", || harness.redis.cmd(&["GET", "x"]).ok().map(drop));
    })
    .await;
}
