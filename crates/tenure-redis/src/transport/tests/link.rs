//! One link under calls that come, go and are left.

use std::time::Instant;

use testbed::{until, within};

use super::server::{Server, command};
use super::{COUNT, count};
use crate::transport::ear::LINGER;
use crate::transport::{Heard, Order, OwnedCall, Value};

#[tokio::test]
async fn a_lone_call_and_many() {
    let server = Server::start();
    let transport = server.open().await;
    for i in 1..=100 {
        let placed = transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
        assert_eq!((placed.value, placed.certain), (Value::Int(i), true));
    }
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let transport = transport.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    transport.call(count(&[b"many"], &[b"1"])).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(command(&transport, &["GET", "many"]).await, Value::Bulk(b"3200".to_vec()));
    let clients = command(&transport, &["CLIENT", "LIST"]).await;
    assert_eq!(clients.text().unwrap().matches("name=tenure").count(), 1, "one connection did all that");
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    let server = Server::start();
    let transport = server.open().await;
    let call = |key: &str| OwnedCall {
        script: &COUNT,
        keys: vec![key.as_bytes().to_vec()],
        args: vec![b"1".to_vec()],
        order: Order::Free,
    };
    command(&transport, &["SET", "word", "x"]).await;
    for round in 1..=3 {
        let outcomes = transport.calls(vec![call("a"), call("word"), call("b")]).await;
        assert_eq!(outcomes[0].as_ref().unwrap().value, Value::Int(round));
        assert!(outcomes[1].is_err(), "one that fails fails alone");
        assert_eq!(outcomes[2].as_ref().unwrap().value, Value::Int(round));
        command(&transport, &["SCRIPT", "FLUSH"]).await;
    }
}

#[tokio::test]
async fn messages_are_heard() {
    let server = Server::start();
    let transport = server.open().await;
    let mut first = transport.subscribe(b"news", b"").await.unwrap();
    let mut second = transport.subscribe(b"news", b"").await.unwrap();
    assert_eq!(
        command(&transport, &["PUBLISH", "news", "hi"]).await,
        Value::Int(1),
        "one connection for both"
    );
    for subscription in [&mut first, &mut second] {
        let heard = within("a message", subscription.next()).await;
        assert_eq!(heard, Heard::Message(b"hi".to_vec()));
    }
    command(&transport, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(within("a cut", first.next()).await, Heard::Again);
    assert_eq!(within("a cut", second.next()).await, Heard::Again);
    command(&transport, &["PUBLISH", "news", "again"]).await;
    assert_eq!(within("a message", first.next()).await, Heard::Message(b"again".to_vec()));
    let left = Instant::now();
    drop((first, second));
    until("it is left in the end", || async {
        command(&transport, &["PUBSUB", "NUMSUB", "news"]).await.array().unwrap()[1] == Value::Int(0)
    })
    .await;
    assert!(left.elapsed() >= LINGER, "it stays for a while");
    // Now the connection serves nobody.
    until("it ends", || async {
        command(&transport, &["CLIENT", "LIST"]).await.text().unwrap().matches("name=tenure").count() == 1
    })
    .await;
}
