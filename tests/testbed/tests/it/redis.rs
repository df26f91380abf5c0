//! One Redis server with its options, and what can be seen of it.

use std::time::Duration;

use testbed::{Certificates, PATIENCE, Redis, RedisOptions, Resp};

fn redis() -> Redis {
    Redis::start(RedisOptions::default()).unwrap()
}

#[test]
fn listens_on_localhost_only_and_writes_nothing() {
    let redis = redis();
    let mut client = redis.client().unwrap();
    assert_eq!(client.cmd(&["CONFIG", "GET", "bind"]).unwrap().texts(), ["bind", "127.0.0.1"]);
    assert_eq!(client.cmd(&["CONFIG", "GET", "save"]).unwrap().texts(), ["save", ""]);
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    let mut unix = Resp::connect_unix(&redis.socket()).unwrap();
    client.cmd(&["SET", "a", "1"]).unwrap();
    assert_eq!(unix.cmd(&["GET", "a"]).unwrap().int(), Some(1));
}

#[test]
fn passwords_and_users_are_checked() {
    let users = vec!["alice on >pw ~lock:* +get".to_owned()];
    let options = RedisOptions { password: Some("secret".into()), users, ..RedisOptions::default() };
    let redis = Redis::start(options).unwrap();
    redis.cmd(&["SET", "lock:a", "1"]).unwrap();
    let mut client = Resp::connect(redis.port()).unwrap();
    let refused = client.cmd(&["GET", "lock:a"]).unwrap_err();
    assert!(refused.reply().unwrap().starts_with("NOAUTH"), "{refused}");
    client.cmd(&["AUTH", "secret"]).unwrap();
    client.cmd(&["SET", "b", "1"]).unwrap();
    client.cmd(&["AUTH", "alice", "pw"]).unwrap();
    assert_eq!(client.cmd(&["GET", "lock:a"]).unwrap().text(), "1");
    for words in [&["GET", "b"][..], &["SET", "lock:a", "1"]] {
        let refused = client.cmd(words).unwrap_err();
        assert!(refused.reply().unwrap().starts_with("NOPERM"), "{refused}");
    }
    redis.restart().unwrap();
    redis.cmd(&["PING"]).unwrap();
}

#[test]
fn tls_with_new_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let files = Certificates::generate(folder.path()).unwrap();
    let redis = Redis::start(RedisOptions { tls: Some(files.clone()), ..RedisOptions::default() }).unwrap();
    assert!(redis.url().starts_with("rediss://"));
    redis.cmd(&["SET", "a", "1"]).unwrap();
    // Plain text is not understood there.
    let mut plain = Resp::connect(redis.port()).unwrap();
    assert!(plain.cmd(&["PING"]).is_err());
    for (host, ca, good) in [
        ("localhost", &files.ca, true),
        ("127.0.0.1", &files.ca, true),
        // The certificate that was not issued by itself.
        ("localhost", &files.certificate, false),
    ] {
        let port = redis.port().to_string();
        let cli = std::process::Command::new("redis-cli")
            .args(["-h", host, "-p", &port, "--tls", "--sni", host, "--cacert"])
            .arg(ca)
            .args(["GET", "a"])
            .output()
            .unwrap();
        assert_eq!(cli.stdout.trim_ascii() == b"1", good, "{host}: {cli:?}");
    }
}

#[test]
fn memory_limit_and_configuration_lines_apply() {
    let lines = vec!["maxmemory-policy noeviction".to_owned(), "notify-keyspace-events KEA".into()];
    let options = RedisOptions { max_memory: Some("3mb".into()), lines, ..RedisOptions::default() };
    let redis = Redis::start(options).unwrap();
    let mut client = redis.client().unwrap();
    let big = "x".repeat(100_000);
    let full = (0..100).find_map(|n| client.cmd(&["SET", &format!("k{n}"), &big]).err()).unwrap();
    assert!(full.reply().unwrap().starts_with("OOM"), "{full}");
    let events = client.cmd(&["CONFIG", "GET", "notify-keyspace-events"]).unwrap().texts();
    assert!(events[1].contains('A'), "{events:?}");
}

#[test]
fn a_monitor_is_drained_up_to_now() {
    let redis = redis();
    let mut client = redis.client().unwrap();
    client.cmd(&["SET", "before", "1"]).unwrap();
    let mut monitor = redis.monitor().unwrap();
    let mut other = redis.monitor().unwrap();
    for round in 0..200 {
        let value = format!("{round} \"quoted\"\r\n\u{fc}");
        client.cmd(&["SET", "a", &value]).unwrap();
        client.cmd(&["EVAL", "return redis.call('get', KEYS[1])", "1", "a"]).unwrap();
        let seen = monitor.drain().unwrap();
        let names: Vec<_> = seen.iter().map(|s| (s.name(), s.is_in_script())).collect();
        assert_eq!(names, [("SET".into(), false), ("EVAL".into(), false), ("GET".into(), true)], "{seen:?}");
        assert_eq!(seen[0].words[2], value);
    }
    assert!(monitor.drain().unwrap().is_empty());
    assert_eq!(other.drain().unwrap().len(), 600);
}

#[test]
fn a_subscription_is_drained_up_to_now() {
    let redis = redis();
    let mut client = redis.client().unwrap();
    let mut subscription = redis.psubscribe(&["lock:*", "other"]).unwrap();
    for round in 0..200 {
        for channel in ["lock:a", "elsewhere", "other"] {
            client.cmd(&["PUBLISH", channel, &round.to_string()]).unwrap();
        }
        let got = subscription.drain().unwrap();
        let got: Vec<_> = got.iter().map(|m| (m.pattern.as_str(), m.channel.as_str(), m.text())).collect();
        let text = round.to_string();
        assert_eq!(got, [("lock:*", "lock:a", text.clone()), ("other", "other", text)]);
    }
    assert_eq!(subscription.next_within(Duration::from_millis(20)).unwrap(), None);
    client.cmd(&["PUBLISH", "lock:b", "late"]).unwrap();
    assert_eq!(subscription.next_within(PATIENCE).unwrap().unwrap().text(), "late");
}

#[test]
fn a_replica_follows() {
    let master = redis();
    let replica =
        Redis::start(RedisOptions { replica_of: Some(master.port()), ..RedisOptions::default() }).unwrap();
    testbed::wait_until("the replica is linked", || {
        let info = replica.info("replication").ok()?;
        (info["master_link_status"] == "up").then_some(())
    });
    assert_eq!(replica.info("replication").unwrap()["role"], "slave");
}
