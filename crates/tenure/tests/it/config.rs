//! What several addresses turn out to be.

use tenure::{Config, Error};
use testbed::{Redis, RedisOptions, Sentinels};

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
    let world = Sentinels::start().unwrap().steady().unwrap();
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
