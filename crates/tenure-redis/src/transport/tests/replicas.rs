//! Calls that wait for replicas, and servers that restart with another run id.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tenure_core::{ClientId, HoldId};
use testbed::{FAR, done, until, within};

use super::count;
use super::server::{Server, command, hasty, open};
use crate::Options;
use crate::transport::{Call, Failure, Order, Transport, Value};

#[tokio::test]
async fn a_durable_call_says_how_many_replicas_have_it() {
    let master = Server::start();
    let transport = master.open().await;
    let soon = Duration::from_millis(50);
    let (answer, reached) = transport.call_and_wait(count(&[b"k"], &[b"1"]), 1, soon).await.unwrap();
    assert_eq!((answer, reached), (Value::Int(1), 0), "there is none");
    let replica = Server::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    until("the replica follows", || async {
        transport.call_and_wait(count(&[b"k"], &[b"0"]), 1, soon).await.unwrap().1 == 1
    })
    .await;
    // Many in parallel: none waits behind another's WAIT, nor does a plain call.
    let stopped = replica.pid();
    signal(stopped, "STOP");
    assert_eq!(
        transport.call_and_wait(count(&[b"k"], &[b"0"]), 1, soon).await.unwrap().1,
        0,
        "it does not answer"
    );
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let transport = transport.clone();
            tokio::spawn(async move { transport.call_and_wait(count(&[b"k"], &[b"1"]), 1, FAR).await })
        })
        .collect();
    until("they wait side by side", || async {
        command(&transport, &["INFO", "clients"]).await.text().unwrap().contains("blocked_clients:8")
    })
    .await;
    for _ in 0..20 {
        let plain = transport.call(count(&[b"plain"], &[b"1"]));
        within("plain calls wait for nobody", plain).await.unwrap();
    }
    signal(stopped, "CONT");
    for task in tasks {
        assert_eq!(done("the replica has it", task).await.unwrap().1, 1);
    }
    command(&transport, &["SCRIPT", "FLUSH"]).await;
    until("after a flush too", || async {
        transport.call_and_wait(count(&[b"k"], &[b"0"]), 1, soon).await.unwrap().1 == 1
    })
    .await;
    assert_eq!(command(&transport, &["GET", "k"]).await, Value::Bulk(b"9".to_vec()));
}

#[tokio::test]
async fn an_undo_waits_behind_a_durable_attempt() {
    let master = Server::start();
    let transport = master.open().await;
    let id = HoldId { client: ClientId::new(), n: 1 };
    transport.call_and_wait(count(&[b"k"], &[b"0"]), 1, Duration::from_millis(1)).await.unwrap();
    {
        let order = Order::Attempt { id, lease: Duration::from_secs(60) };
        let call = Call { order, ..count(&[b"k"], &[b"7"]) };
        let mut attempt = pin!(transport.call_and_wait(call, 1, Duration::from_millis(300)));
        assert!(attempt.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let undo = count(&[b"k"], &[b"-7"]);
    let answer = transport.call_after_attempt(id, undo).await.unwrap();
    assert_eq!((answer.value, answer.certain), (Value::Int(0), true));
}

#[tokio::test]
async fn a_restart_raises_suspicion_and_a_cut_does_not() {
    let mut server = Server::start();
    let transport = server.open().await;
    let mut suspicions = transport.suspicion.times();
    let other = Transport::open(Options { client_name: "other".into(), ..server.options() }).await.unwrap();
    command(&other, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    until("connected anew", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_ok() }).await;
    assert!(transport.suspicion.times() == suspicions, "the same server");
    server.kill();
    server.restart(&[]);
    // Reconnects by itself if the restart was quick enough, otherwise with the next call.
    until("it works again", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_ok() }).await;
    assert!(transport.suspicion.times() > suspicions);
    suspicions = transport.suspicion.times();
    transport.subscribe(b"c", b"").await.unwrap();
    assert!(transport.suspicion.times() == suspicions, "told once");
}

#[tokio::test]
async fn a_stopped_server_is_unknown_in_time() {
    let server = Server::start();
    let transport = open(hasty(server.options())).await;
    signal(server.pid(), "STOP");
    let outcome = within("given up", transport.call(count(&[b"k"], &[b"1"]))).await;
    let second = within("given up", transport.call(count(&[b"k"], &[b"1"]))).await;
    signal(server.pid(), "CONT");
    assert!(matches!(outcome, Err(Failure::Unknown(_))), "{outcome:?}");
    assert!(matches!(second, Err(Failure::NotExecuted(_))), "no handshake: {second:?}");
}

pub(super) fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success());
}
