//! Every error reply that a real server can be made to send, and how it is classified.

use std::sync::Arc;

use testbed::{PATIENCE, done, until};

use super::server::{Server, command};
use super::{COUNT, count};
use crate::Options;
use crate::transport::{Call, Failure, Order, Script, To, Transport, Value};

async fn write(transport: &Arc<Transport>) -> Result<Value, Failure> {
    transport.call(count(&[b"k"], &[b"1"])).await
}

/// A script that writes, and a plain command, both fail with that code and count as not executed.
async fn not_executed(transport: &Arc<Transport>, code: &str) {
    let plain = transport.command(To::Key(b"k"), &[b"SET", b"plain", b"x"]).await.map(|_| ());
    let script = write(transport).await.map(|_| ());
    for outcome in [plain, script] {
        assert!(
            matches!(&outcome, Err(Failure::NotExecuted(why)) if why.text.contains(code)),
            "{code}: {outcome:?}"
        );
    }
}

async fn config(transport: &Arc<Transport>, name: &str, value: &str) {
    command(transport, &["CONFIG", "SET", name, value]).await;
}

#[tokio::test]
async fn errors_of_requests_that_were_not_executed() {
    let server = Server::with(&["--enable-protected-configs", "yes"]);
    let transport = server.open().await;
    write(&transport).await.unwrap();

    config(&transport, "maxmemory", "1").await;
    not_executed(&transport, "OOM").await;
    config(&transport, "maxmemory", "0").await;

    config(&transport, "min-replicas-to-write", "1").await;
    not_executed(&transport, "NOREPLICAS").await;
    config(&transport, "min-replicas-to-write", "0").await;

    command(&transport, &["REPLICAOF", "127.0.0.1", "1"]).await;
    not_executed(&transport, "READONLY").await;
    config(&transport, "replica-serve-stale-data", "no").await;
    let failed = write(&transport).await;
    assert!(
        matches!(&failed, Err(Failure::NotExecuted(why)) if why.text.contains("MASTERDOWN")),
        "{failed:?}"
    );
    command(&transport, &["REPLICAOF", "NO", "ONE"]).await;

    // Saving to a removed folder fails.
    let folder = server.folder.path().join("gone");
    std::fs::create_dir(&folder).unwrap();
    config(&transport, "save", "3600 1").await;
    config(&transport, "dir", folder.to_str().unwrap()).await;
    std::fs::remove_dir(&folder).unwrap();
    let _ = transport.command(To::Key(b""), &[b"BGSAVE"]).await;
    until("saving fails", || async {
        command(&transport, &["INFO", "persistence"])
            .await
            .text()
            .unwrap()
            .contains("rdb_last_bgsave_status:err")
    })
    .await;
    not_executed(&transport, "MISCONF").await;
    config(&transport, "save", "").await;

    assert_eq!(write(&transport).await.unwrap(), Value::Int(2), "nothing of all that was");
}

#[tokio::test]
async fn a_busy_server_and_a_killed_script_did_nothing() {
    static LOOP: Script = Script::new("while true do redis.call('get', KEYS[1]) end");
    let server = Server::with(&["--busy-reply-threshold", "50"]);
    let transport = server.open().await;
    write(&transport).await.unwrap();
    let looping = {
        let other = Transport::open(Options { timeout: PATIENCE, ..server.options() }).await.unwrap();
        tokio::spawn(async move {
            let keys: [&[u8]; 1] = [b"k"];
            other.call(Call::new(&LOOP, &keys, &[""; 0], Order::Unordered)).await
        })
    };
    until("it is busy", || async {
        matches!(transport.command(To::Key(b""), &[b"PING"]).await, Err(Failure::NotExecuted(_)))
    })
    .await;
    not_executed(&transport, "BUSY").await;
    command(&transport, &["SCRIPT", "KILL"]).await;
    let killed = done("it is killed", looping).await;
    assert!(
        matches!(&killed, Err(Failure::NotExecuted(why)) if why.text.contains("SCRIPT KILL")),
        "{killed:?}"
    );
    assert_eq!(write(&transport).await.unwrap(), Value::Int(2));
}

#[tokio::test]
async fn too_many_clients_and_a_server_that_loads() {
    let mut server = Server::start();
    let transport = server.open().await;
    config(&transport, "maxclients", "1").await;
    let opened = Transport::open(server.options()).await;
    let told = |why: &str| why.contains("max number of clients") || why.contains("closed the connection");
    assert!(
        matches!(&opened, Err(tenure_core::Error::Unavailable { reason, .. }) if told(reason)),
        "{opened:?}"
    );
    config(&transport, "maxclients", "100").await;
    command(&transport, &["DEBUG", "POPULATE", "4000"]).await;
    command(&transport, &["SAVE"]).await;
    server.kill();
    server.restart(&["--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024"]);
    let loading = loop {
        match write(&transport).await {
            Err(Failure::NotExecuted(why)) if why.text.contains("LOADING") => break true,
            Ok(_) => break false,
            Err(Failure::Refused(reply)) => panic!("{reply:?}"),
            Err(_) => {}
        }
    };
    assert!(loading, "it was seen to load");
    config(&transport, "key-load-delay", "0").await;
    until("it has loaded", || async { write(&transport).await.is_ok() }).await;
}

#[tokio::test]
async fn errors_of_requests_that_were_refused() {
    static SAY: Script = Script::new("return redis.error_reply(ARGV[1])");
    static WRONG: Script = Script::new("redis.call('set', KEYS[1], 1) return redis.call('nosuch')");
    static SYNTAX: Script = Script::new("not a script");
    let server = Server::start();
    let transport = server.open().await;
    command(&transport, &["RPUSH", "list", "x"]).await;
    let keys: [&[u8]; 1] = [b"list"];
    let call = |script, args: &[&[u8]]| Call::new(script, &keys, args, Order::Unordered);
    for (call, code) in [
        (call(&COUNT, &[b"1"]), "WRONGTYPE"),
        (call(&WRONG, &[]), "ERR"),
        (call(&SYNTAX, &[]), "ERR"),
        (call(&SAY, &[b"MINE says so"]), "MINE"),
    ] {
        let refused = transport.call(call).await;
        assert!(
            matches!(&refused, Err(Failure::Refused(reply)) if reply.code == code),
            "{code}: {refused:?}"
        );
    }
    command(&transport, &["ACL", "SETUSER", "narrow", "on", ">pw", "~own*", "+@all", "-incrby"]).await;
    let options = Options { user: Some("narrow".into()), password: Some("pw".into()), ..server.options() };
    let narrow = Transport::open(options).await.unwrap();
    let refused = narrow.call(count(&[b"other"], &[b"1"])).await;
    assert!(matches!(&refused, Err(Failure::Refused(reply)) if reply.code == "NOPERM"), "{refused:?}");
    let refused = narrow.call(count(&[b"own"], &[b"1"])).await;
    assert!(
        matches!(&refused, Err(Failure::Refused(_))),
        "a right that is missed inside a script: {refused:?}"
    );
    let unknown = transport.command(To::Key(b""), &[b"NOSUCH"]).await;
    assert!(matches!(&unknown, Err(Failure::Refused(reply)) if reply.code == "ERR"), "{unknown:?}");
}
