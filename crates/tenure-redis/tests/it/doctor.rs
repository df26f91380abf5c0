//! What is found is provoked on real servers, one thing at a time.

use tenure_core::{Admin, Finding, Level};
use tenure_redis::{Address, Options, Sentinels, Topology};
use testbed::{RedisOptions, Replicated, Resp, until, wait_until, within};

use crate::harness::{open, options as at, with};

/// A server that has no fault but what is asked for: it writes to disk, and has users.
fn server(users: &[&str]) -> testbed::Redis {
    let users = users.iter().map(|u| (*u).to_owned()).collect();
    testbed::Redis::start(RedisOptions { append_only: true, users, ..RedisOptions::default() }).unwrap()
}

fn address(port: u16) -> Address {
    Address::tcp("127.0.0.1", port)
}

async fn diagnose(options: Options) -> Vec<Finding> {
    open(options).await.diagnose().await.unwrap()
}

/// What is found once the word of the trial came: on a busy machine it may come too late to be of use.
async fn heard(options: Options) -> Vec<Finding> {
    let store = open(options).await;
    let hearing = async {
        loop {
            let found = store.diagnose().await.unwrap();
            if of(&found, "trial").what.contains("and a subscriber was notified") {
                break found;
            }
        }
    };
    within("the word of it", hearing).await
}

async fn look(server: &testbed::Redis) -> Vec<Finding> {
    diagnose(at(server.port())).await
}

fn set(server: &testbed::Redis, name: &str, value: &str) {
    server.cmd(&["CONFIG", "SET", name, value]).unwrap();
}

/// The only finding of this check.
#[track_caller]
fn of<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let all: Vec<_> = findings.iter().filter(|f| f.check == check).collect();
    assert_eq!(all.len(), 1, "{check}: {findings:#?}");
    all[0]
}

#[track_caller]
fn says(finding: &Finding, level: Level, what: &str, advice: &str) {
    assert_eq!(finding.level, level, "{finding}");
    assert!(finding.what.contains(what), "{what:?} is not in {finding}");
    let given = finding.advice.as_deref().unwrap_or_default();
    assert!(given.contains(advice), "{advice:?} is not in {finding}");
}

#[tokio::test]
async fn a_good_server_is_good_in_all_respects() {
    let server = server(&[]);
    let found = heard(at(server.port())).await;
    let checks: Vec<&str> = found.iter().map(|f| f.check).collect();
    let all = [
        "server",
        "role",
        "eviction",
        "persistence",
        "replicas",
        "rights",
        "clients",
        "idle",
        "keep-alive",
        "messages",
        "clock",
        "trial",
    ];
    assert_eq!(checks, all);
    let place = format!("127.0.0.1:{}", server.port());
    for finding in &found {
        assert_eq!((finding.level, finding.place.as_deref()), (Level::Ok, Some(place.as_str())), "{finding}");
        assert_eq!(finding.advice, None);
    }
    assert_eq!(server.cmd(&["DBSIZE"]).unwrap().int(), Some(0), "nothing is left behind");
}

#[tokio::test]
async fn eviction_takes_locks_away() {
    let server = server(&[]);
    set(&server, "maxmemory-policy", "allkeys-lru");
    says(of(&look(&server).await, "eviction"), Level::Ok, "no memory limit", "");
    set(&server, "maxmemory", "200mb");
    let advice = "CONFIG SET maxmemory-policy noeviction";
    says(
        of(&look(&server).await, "eviction"),
        Level::Warning,
        "at 200 MB it evicts any key (allkeys-lru)",
        advice,
    );
    set(&server, "maxmemory-policy", "volatile-ttl");
    let every = "keys with a TTL, as every lock has (volatile-ttl)";
    says(of(&look(&server).await, "eviction"), Level::Warning, every, advice);
    set(&server, "maxmemory-policy", "noeviction");
    says(of(&look(&server).await, "eviction"), Level::Ok, "nothing is evicted", "");
}

#[tokio::test]
async fn memory_that_is_full_grants_nothing() {
    let server = server(&[]);
    set(&server, "maxmemory", "1mb");
    set(&server, "maxmemory-policy", "noeviction");
    let used: u64 = server.info("memory").unwrap()["used_memory"].parse().unwrap();
    assert!(used < 64 << 20, "an empty server: {used}");
    set(&server, "maxmemory", &(used * 100 / 95).to_string());
    says(
        of(&look(&server).await, "eviction"),
        Level::Warning,
        "when memory is full, no lock is granted",
        "maxmemory",
    );
    set(&server, "maxmemory", "1");
    let found = look(&server).await;
    says(of(&found, "trial"), Level::Error, "no lock could be acquired", "");
    assert!(of(&found, "trial").what.contains("OOM"), "{found:?}");
}

#[tokio::test]
async fn data_that_a_restart_forgets_is_reported() {
    let server = server(&[]);
    says(of(&look(&server).await, "persistence"), Level::Ok, "on disk before the reply is sent", "");
    set(&server, "appendfsync", "everysec");
    says(of(&look(&server).await, "persistence"), Level::Ok, "within a second", "");
    set(&server, "appendfsync", "no");
    says(of(&look(&server).await, "persistence"), Level::Warning, "power failure", "appendfsync everysec");
    set(&server, "appendonly", "no");
    let advice = "CONFIG SET appendonly yes";
    says(of(&look(&server).await, "persistence"), Level::Warning, "nothing is written to disk", advice);
    set(&server, "save", "3600 1");
    says(of(&look(&server).await, "persistence"), Level::Warning, "snapshots only", advice);

    let store = open(at(server.port())).await;
    std::fs::remove_dir_all(server.instance().data()).unwrap();
    server.cmd(&["BGSAVE"]).unwrap();
    wait_until("the snapshot fails", || {
        (server.info("persistence").ok()?["rdb_last_bgsave_status"] == "err").then_some(())
    });
    let found = store.diagnose().await.unwrap();
    says(of(&found, "persistence"), Level::Error, "the last write to disk failed", "log and its disk");
    says(of(&found, "trial"), Level::Error, "MISCONF", "");
}

#[tokio::test]
async fn replicas_must_be_there_and_a_replica_is_no_master() {
    let options = RedisOptions { append_only: true, ..RedisOptions::default() };
    let servers = Replicated::start_with(1, options).unwrap();
    let master = servers.master();
    let advice = "CONFIG SET min-replicas-to-write 1";
    says(
        of(&look(master).await, "replicas"),
        Level::Warning,
        "1 replica, none of them required for a write",
        advice,
    );
    set(master, "min-replicas-to-write", "1");
    says(of(&look(master).await, "replicas"), Level::Ok, "1 replica; with fewer than 1 connected", "");
    set(master, "min-replicas-max-lag", "0");
    says(of(&look(master).await, "replicas"), Level::Warning, "none of them required for a write", advice);
    set(master, "min-replicas-max-lag", "10");
    set(master, "min-replicas-to-write", "2");
    let found = look(master).await;
    says(of(&found, "replicas"), Level::Error, "no lock is granted (NOREPLICAS)", "min-replicas-to-write");
    says(of(&found, "trial"), Level::Error, "NOREPLICAS", "");

    let found = look(&servers.replicas()[0]).await;
    let what = format!("the server is a replica of 127.0.0.1:{}", master.port());
    says(of(&found, "role"), Level::Error, &what, "redis+sentinel://");
    says(of(&found, "trial"), Level::Error, "READONLY", "");
}

#[tokio::test]
async fn how_connections_are_treated() {
    let server = server(&[]);
    set(&server, "timeout", "5");
    set(&server, "tcp-keepalive", "0");
    set(&server, "client-output-buffer-limit", "pubsub 1000 500 1");
    let found = look(&server).await;
    says(of(&found, "idle"), Level::Warning, "closed when idle for 5 s", "CONFIG SET timeout 0");
    says(of(&found, "keep-alive"), Level::Warning, "never closed", "CONFIG SET tcp-keepalive 300");
    says(of(&found, "messages"), Level::Warning, "500 bytes", "client-output-buffer-limit");
    set(&server, "timeout", "300");
    says(of(&look(&server).await, "idle"), Level::Ok, "300 s", "");

    let _others: Vec<Resp> = (0..20).map(|_| server.client().unwrap()).collect();
    set(&server, "maxclients", "23");
    let advice = "CONFIG SET maxclients";
    says(of(&look(&server).await, "clients"), Level::Warning, "of at most 23 connections", advice);
}

/// Rights one by one: what a user lacks, how bad that is, what is said, and the words that give it.
#[tokio::test]
async fn every_missing_right_is_named_with_the_words_that_give_it() {
    const ALL: &str = "on >pw ~* &* +@all";
    let cases: [(&str, Level, &str, &str); 14] = [
        ("-eval", Level::Error, "may not run scripts", "+eval +evalsha"),
        ("-evalsha", Level::Error, "may not run evalsha", "+evalsha"),
        ("-hset", Level::Error, "may not run hset", "+hset"),
        ("-del", Level::Error, "may not run del", "+del"),
        ("-pexpire -zadd", Level::Error, "may not run pexpire, zadd", "+pexpire +zadd"),
        ("-time", Level::Error, "may not run time", "+time"),
        ("-publish", Level::Warning, "may not run publish: waiters elsewhere are not notified", "+publish"),
        (
            "-subscribe",
            Level::Warning,
            "may not run subscribe: waiters of this client are not notified",
            "+subscribe",
        ),
        ("-unsubscribe", Level::Warning, "may not run unsubscribe", "+unsubscribe"),
        ("-scan", Level::Warning, "may not run scan: names in use cannot be listed", "+scan"),
        ("resetkeys", Level::Error, "may not access any key of a lock", "~*app:* +"),
        (
            "resetkeys ~app:*",
            Level::Error,
            "some keys of locks: redisson_lock_token:{app:tenure-doctor}",
            "~*app:*",
        ),
        ("resetchannels", Level::Warning, "may not use any channel", "&*app:* +publish +subscribe"),
        ("resetkeys ~app:* %R~*app:*", Level::Error, "may not read and write some keys", "~*app:*"),
    ];
    let users: Vec<String> =
        (0..).zip(&cases).map(|(n, (lacks, ..))| format!("u{n} {ALL} {lacks}")).collect();
    let server = server(&users.iter().map(String::as_str).collect::<Vec<_>>());
    for (n, (lacks, level, what, words)) in cases.iter().enumerate() {
        let mut options = at(server.port());
        (options.user, options.password) = (Some(format!("u{n}")), Some("pw".into()));
        options.prefix = "app:".to_owned();
        let found = diagnose(options.clone()).await;
        let finding = of(&found, "rights");
        says(finding, *level, what, &format!("ACL SETUSER u{n} {words}"));
        assert!(finding.what.starts_with(&format!("the user u{n} ")), "{finding}");
        // Whoever may listen, but is not told.
        if *lacks == "-publish" {
            says(of(&found, "trial"), Level::Warning, "but a subscriber was not notified", "proxy");
        }

        // The words do what they say.
        let advice = finding.advice.clone().unwrap();
        let command: Vec<&str> = advice.split(';').next().unwrap().split(' ').collect();
        server.cmd(&command).unwrap();
        let cured = heard(options).await;
        assert_eq!(of(&cured, "rights").level, Level::Ok, "{lacks}: {cured:#?}");
    }
}

#[tokio::test]
async fn the_right_to_wait_matters_where_there_are_replicas() {
    let users = vec!["u on >pw ~* &* +@all -wait".to_owned()];
    let options = RedisOptions { users, ..RedisOptions::default() };
    let servers = Replicated::start_with(1, options).unwrap();
    let mut options = at(servers.master().port());
    (options.user, options.password) = (Some("u".to_owned()), Some("pw".into()));
    let found = diagnose(options).await;
    says(
        of(&found, "rights"),
        Level::Warning,
        "wait: grants cannot wait for replicas",
        "ACL SETUSER u +wait",
    );
}

#[tokio::test]
async fn missing_rights_make_one_finding_unknown_and_not_the_rest() {
    let server = server(&["u on >pw ~* &* +@all -config -info -acl"]);
    let mut options = at(server.port());
    (options.user, options.password) = (Some("u".to_owned()), Some("pw".into()));
    let found = diagnose(options).await;
    for check in ["server", "role", "eviction", "replicas", "clients"] {
        says(of(&found, check), Level::Unknown, "not checked", "allow INFO");
    }
    for check in ["persistence", "idle", "keep-alive", "messages"] {
        says(of(&found, check), Level::Unknown, "NOPERM", "allow CONFIG GET");
    }
    for check in ["rights", "clock", "trial"] {
        assert_eq!(of(&found, check).level, Level::Ok, "{found:#?}");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error() {
    let server = server(&[]);
    let store = open(at(server.port())).await;
    server.kill().unwrap();
    let error = within("told", store.diagnose()).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn the_master_behind_sentinels_is_asked() {
    let servers = testbed::Sentinels::start().unwrap();
    let addresses = servers.sentinels().iter().map(|s| address(s.port())).collect();
    let master = servers.name().to_owned();
    let topology = Topology::Sentinel(Sentinels { addresses, master, user: None, password: None });
    let found = heard(with(topology)).await;
    let replicas = of(&found, "replicas");
    says(replicas, Level::Warning, "2 replicas, none of them required for a write", "min-replicas-to-write");
    assert_eq!(replicas.place, Some(format!("127.0.0.1:{}", servers.master().unwrap().port())));
}

#[tokio::test]
async fn all_masters_of_a_cluster_are_asked() {
    let cluster = testbed::Cluster::start().unwrap();
    let topology = Topology::Cluster(cluster.nodes().iter().map(|n| address(n.port())).collect());
    let store = open(with(topology.clone())).await;
    let found = heard(with(topology)).await;
    let states: Vec<_> = found.iter().filter(|f| f.check == "cluster").collect();
    assert_eq!(states.len(), 3, "{found:#?}");
    for state in states {
        says(state, Level::Ok, "all slots are served, and no node failed", "");
    }
    let rights: Vec<_> = found.iter().filter(|f| f.check == "rights").collect();
    assert!(rights.len() == 3 && rights.iter().all(|f| f.level == Level::Ok), "{rights:#?}");
    let trial = of(&found, "trial");
    assert_eq!((trial.level, &trial.place), (Level::Ok, &None), "{trial}");

    // A node by itself.
    let alone = look(&cluster.nodes()[0]).await;
    says(of(&alone, "cluster"), Level::Error, "one node of a cluster", "redis+cluster://");

    cluster.nodes()[3].kill().unwrap();
    let failed = format!("but 127.0.0.1:{} failed", cluster.nodes()[3].port());
    until("the failed node is told", || async {
        let found = store.diagnose().await.unwrap();
        let told = found.iter().find(|f| f.check == "cluster" && f.what.contains(&failed));
        if let Some(told) = told {
            says(told, Level::Warning, "all slots are served", "CLUSTER FORGET");
        }
        told.is_some()
    })
    .await;
}
