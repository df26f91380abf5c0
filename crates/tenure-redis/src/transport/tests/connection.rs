//! One connection with calls that are made, answered and dropped.

use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tenure_core::{ClientId, HoldId};
use testbed::{FAR, until, within};

use super::count;
use super::server::{Server, command};
use crate::Address;
use crate::nat::Place;
use crate::transport::attempts::Attempts;
use crate::transport::connection::{Connection, SendOptions};
use crate::transport::wire::{Framed, Stream, write_command};
use crate::transport::{Event, Value};

#[tokio::test]
async fn a_lone_call_and_many() {
    let server = Server::start();
    let transport = server.open().await;
    for i in 1..=100 {
        let answer = transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
        assert_eq!(answer, Value::Int(i));
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
    let call = |key: &str| count(&[key.as_bytes()], &[b"1"]);
    command(&transport, &["SET", "word", "x"]).await;
    for round in 1..=3 {
        let outcomes = transport.call_all(vec![call("a"), call("word"), call("b")]).await;
        assert_eq!(outcomes[0], Ok(Value::Int(round)));
        assert!(outcomes[1].is_err(), "one that fails fails alone");
        assert_eq!(outcomes[2], Ok(Value::Int(round)));
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
        assert_eq!(heard, Event::Message(b"hi".to_vec()));
    }
    command(&transport, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(within("a cut", first.next()).await, Event::MaybeMissed);
    assert_eq!(within("a cut", second.next()).await, Event::MaybeMissed);
    command(&transport, &["PUBLISH", "news", "again"]).await;
    assert_eq!(within("a message", first.next()).await, Event::Message(b"again".to_vec()));
    let left = Instant::now();
    drop((first, second));
    until("it is left in the end", || async {
        command(&transport, &["PUBSUB", "NUMSUB", "news"]).await.array().unwrap()[1] == Value::Int(0)
    })
    .await;
    assert!(left.elapsed() >= server.options().timing.unsubscribe_after, "it stays for a while");
    // Now the connection has no subscriber.
    until("it ends", || async {
        command(&transport, &["CLIENT", "LIST"]).await.text().unwrap().matches("name=tenure").count() == 1
    })
    .await;
}

/// How many records of attempts are visited when a connection breaks with this many in flight.
async fn cost_of_a_cut(n: u64, lease: Duration) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let _server = listener.accept().unwrap();
    let attempts = Arc::new(Attempts::default());
    let to = Address::tcp("127.0.0.1", listener.local_addr().unwrap().port());
    let connection = Connection::new(
        to.clone(),
        Place::new(&to, None),
        Framed::new(Stream::Tcp(stream)),
        None,
        attempts.clone(),
    );
    let client = ClientId::new();
    let mut replies = Vec::new();
    for n in 0..n {
        let attempt = Some((HoldId { client, n }, lease));
        let options = SendOptions { attempt, ..SendOptions::new(1, Instant::now() + FAR) };
        replies.push(connection.send(options, |out| write_command(out, &[b"PING"])));
    }
    // One call writes for all of them.
    let mut last = pin!(replies.pop().unwrap().written_by_caller());
    assert!(last.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let before = attempts.visited();
    connection.close("cut");
    assert_eq!(attempts.len() as u64, if lease.is_zero() { 0 } else { n }, "each may still come");
    attempts.visited() - before
}

/// More than that would block all calls for as long: many calls in flight are on one runtime.
#[tokio::test]
async fn a_cut_costs_no_more_than_what_was_in_flight() {
    for lease in [FAR, Duration::ZERO] {
        let (few, many) = (cost_of_a_cut(250, lease).await, cost_of_a_cut(1000, lease).await);
        assert!(many <= 5 * few, "{few} records looked at for 250 attempts, {many} for 1000");
    }
}
