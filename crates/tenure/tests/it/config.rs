//! One program, four files: what it says does not depend on the store. And what several addresses turn out to be.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tenure::{Config, Error};
use testbed::{Cluster, Ensemble, Redis, RedisOptions, Sentinels};

use crate::examples;

fn says(file: &Path) -> String {
    let done = Command::new(examples::program()).arg0("config").arg(file).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(done.status.success(), "{}: {}", file.display(), text(&done.stderr));
    text(&done.stdout)
}

fn quoted(addresses: &[String]) -> String {
    addresses.iter().map(|a| format!("{a:?}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_same_program_on_four_stores() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::start(RedisOptions::default()).unwrap();
    let cluster = Cluster::start().unwrap();
    let ensemble = Ensemble::start().unwrap();
    let files = [
        ("sqlite", "path = 'locks.db'".to_owned()),
        ("redis", format!("nodes = '127.0.0.1:{}'", redis.port())),
        ("redis", format!("nodes = [{}]", quoted(&cluster.addresses()))),
        ("zookeeper", format!("nodes = '{}'", ensemble.addresses()[..2].join(","))),
    ];
    let mut said = Vec::new();
    for (n, (kind, place)) in files.iter().enumerate() {
        let file = folder.path().join(format!("{n}.toml"));
        std::fs::write(&file, format!("type = '{kind}'\n{place}\nlease = '60s'\n")).unwrap();
        said.push(says(&file));
    }
    assert!(said[0].contains("a second one: busy") && said[0].ends_with("locked: false\n"), "{}", said[0]);
    assert!(said.iter().all(|text| *text == said[0]), "{said:?}");
    assert!(folder.path().join("locks.db").exists(), "beside its file");
}

async fn refused(text: String) -> String {
    match Config::from_toml(&text).unwrap().connect().await {
        Err(Error::Config(why)) => why,
        other => panic!("{text}: {other:?}"),
    }
}

#[tokio::test]
async fn several_addresses_that_are_no_cluster_say_what_they_are() {
    let servers = [(); 2].map(|()| Redis::start(RedisOptions::default()).unwrap());
    let [a, b] = servers.each_ref().map(|s| format!("127.0.0.1:{}", s.port()));
    let why = refused(format!("type = 'redis'\nnodes = '{a},{b}'")).await;
    assert!(why.starts_with("line 2: nodes: ") && why.contains(&a) && why.contains("redlock"), "{why}");

    // The first that answers counts, not the first.
    servers[0].kill().unwrap();
    let why = refused(format!("type = 'redis'\nnodes = '{a},{b}'")).await;
    assert!(why.contains(&b), "{why}");
    servers[1].kill().unwrap();
    let config = Config::from_toml(&format!("type = 'redis'\nnodes = '{a},{b}'")).unwrap();
    let error = config.connect().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains(&a) && error.to_string().contains(&b), "{error}");
}

#[tokio::test]
async fn sentinels_ask_for_their_own_type() {
    let world = Sentinels::start().unwrap();
    let nodes = world.addresses().join(",");
    // With the password of the servers, too, which these sentinels do not have.
    for login in ["", "password = 'hunter2'"] {
        let why = refused(format!("type = 'redis'\nnodes = '{nodes}'\n{login}")).await;
        assert!(why.contains("redis-sentinel") && why.contains("master"), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
    let text = format!("type = 'redis-sentinel'\nnodes = '{nodes}'\nmaster = '{}'", world.name());
    Config::from_toml(&text).unwrap().connect().await.unwrap();
}
