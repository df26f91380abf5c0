//! A fake server for replies that no real server can be made to send.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tenure_core::backend::{Backend, Interest};

use crate::nat::Place;
use crate::transport::connection::{Connection, SendOptions};
use crate::transport::wire::{Framed, MAX_REPLY, ReplyBuffer, Stream, write_command};
use crate::transport::{Failure, To, Transport, Value};
use crate::{Address, Options, Topology};

pub(super) struct Fake {
    pub(super) address: Address,
}

impl Fake {
    /// Answers each command, given in capitals, with the result of `answer`; the handshake like a real server.
    pub(super) fn start(answer: impl Fn(&str, u16) -> String + Send + Sync + 'static) -> Self {
        Self::serving(answer, false)
    }

    /// Like `start`, with `TCP_NODELAY`: without it the second of two replies is delayed.
    fn prompt(answer: impl Fn(&str, u16) -> String + Send + Sync + 'static) -> Self {
        Self::serving(answer, true)
    }

    fn serving(answer: impl Fn(&str, u16) -> String + Send + Sync + 'static, prompt: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = Address::tcp("127.0.0.1", port);
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let answer = answer.clone();
                client.set_nodelay(prompt).unwrap();
                std::thread::spawn(move || serve(client, &|words| answer(words, port)));
            }
        });
        Self { address }
    }
}

fn serve(mut client: TcpStream, answer: &dyn Fn(&str) -> String) {
    let mut seen = ReplyBuffer::new();
    while let Ok(n @ 1..) = client.read(seen.spare()) {
        seen.advance(n);
        while let Some(command) = seen.next().unwrap() {
            let words: Vec<_> = command.array().unwrap().iter().filter_map(Value::text).collect();
            let words = words.join(" ").to_uppercase();
            let reply = match words.as_str() {
                "CLIENT SETNAME TENURE" => "+OK".to_owned(),
                "INFO SERVER" => "$-1".to_owned(),
                _ => answer(&words),
            };
            // An empty reply closes the connection.
            if reply.is_empty() || client.write_all(format!("{reply}\r\n").as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// A reply that arrives before the request was sent cannot be its answer. Otherwise all later replies would be off by
/// one.
#[tokio::test]
async fn a_reply_that_nobody_asked_for_is_nobodys_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tcp("127.0.0.1", listener.local_addr().unwrap().port());
    let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"+stray\r\n").unwrap();
    stream.readable().await.unwrap();
    // No driver yet: the call must come first.
    let connection = Connection::new(
        address.clone(),
        Place::new(&address, None),
        Framed::new(Stream::Tcp(stream)),
        None,
        Arc::default(),
    );
    let options = SendOptions::new(1, Instant::now() + testbed::PATIENCE);
    let answer = connection.send(options, |out| write_command(out, &[b"PING"])).await.all();
    assert!(matches!(answer, Err(Failure::NotExecuted(_))), "{answer:?}");
    assert!(connection.is_dead());
}

#[tokio::test]
async fn one_that_greets_and_goes_is_called_on_less_and_less() {
    let goodbyes = Arc::new(AtomicUsize::new(0));
    let count = goodbyes.clone();
    let fake = Fake::start(move |words, _| match words {
        "PING" => "+PONG".to_owned(),
        _ => {
            count.fetch_add(1, SeqCst);
            String::new()
        }
    });
    let options = Options::new(Topology::Standalone(fake.address.clone()));
    let transport = Transport::open(options).await.unwrap();
    let began = Instant::now();
    testbed::until("it has gone often", || async {
        assert!(transport.command(To::Key(b""), &[b"GET"]).await.is_err());
        goodbyes.load(SeqCst) >= 8
    })
    .await;
    // The first connection had worked. Then six backoffs, starting at 10 ms and doubling, each shortened to at least
    // half by jitter.
    assert!(began.elapsed() > Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_subscriber_that_is_shown_the_door_comes_back_less_and_less() {
    let goodbyes = Arc::new(AtomicUsize::new(0));
    let count = goodbyes.clone();
    let fake = Fake::start(move |words, _| match words {
        "PING" => "+PONG".to_owned(),
        _ => {
            assert_eq!(words, "SUBSCRIBE C");
            count.fetch_add(1, SeqCst);
            String::new()
        }
    });
    let options = Options::new(Topology::Standalone(fake.address.clone()));
    let transport = Transport::open(options).await.unwrap();
    let began = Instant::now();
    // Retries like a waiter that must not miss a message.
    testbed::until("it was shown the door often", || async {
        let shown = transport.subscribe(b"c", b"").await;
        assert!(matches!(shown, Err(Failure::NotExecuted(_))), "{shown:?}");
        goodbyes.load(SeqCst) >= 8
    })
    .await;
    // As above, and one more of 640 ms.
    assert!(began.elapsed() > Duration::from_millis(500), "8 connects in {:?}", began.elapsed());
}

/// A cluster that closes a subscription, and then does not say which node serves it.
#[tokio::test]
async fn a_node_to_listen_to_is_asked_for_less_and_less() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (count, lost) = (asked.clone(), AtomicBool::new(false));
    let fake = Fake::prompt(move |words, port| match words {
        "PING" => "+PONG".to_owned(),
        "PUBSUB SHARDNUMSUB" => "*0".to_owned(),
        "CLUSTER INFO" => "-ERR unknown".to_owned(),
        "CLUSTER SLOTS" if lost.load(SeqCst) => {
            count.fetch_add(1, SeqCst);
            "-LOADING Redis is loading the dataset in memory".to_owned()
        }
        "CLUSTER SLOTS" => format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{port}"),
        _ => {
            assert!(words.starts_with("SSUBSCRIBE"), "{words}");
            lost.store(true, SeqCst);
            String::new()
        }
    });
    let store =
        crate::Redis::open(Options::new(Topology::Cluster(vec![fake.address.clone()]))).await.unwrap();
    let name = tenure_core::Name::new("x").unwrap();
    let interest = Interest::Holder(tenure_core::ClientId::new());
    assert!(store.watch(&name, interest).await.is_err());
    // For a quarter of a second, with backoffs as above.
    let asked = asked.load(SeqCst);
    assert!((1..=8).contains(&asked), "asked {asked} times");
}

/// Completes the handshake, and then sends a reply with this head that repeats `again` as long as anybody reads. Counts
/// the bytes sent.
fn liar(head: &'static str, again: String) -> (Address, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::tcp("127.0.0.1", listener.local_addr().unwrap().port());
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let (mut seen, again, count) = (ReplyBuffer::new(), again.clone().into_bytes(), count.clone());
            std::thread::spawn(move || {
                while let Ok(n @ 1..) = client.read(seen.spare()) {
                    seen.advance(n);
                    while let Some(command) = seen.next().unwrap() {
                        let word = command.array().unwrap()[0].text().unwrap().to_owned();
                        let known = [("CLIENT", "+OK\r\n"), ("INFO", "$-1\r\n"), ("PING", "+PONG\r\n")];
                        let known = known.iter().find(|(name, _)| *name == word);
                        let reply = known.map_or(head, |(_, reply)| reply);
                        client.write_all(reply.as_bytes()).unwrap();
                        while known.is_none() && !again.is_empty() && count.load(SeqCst) < 256 << 20 {
                            match client.write(&again) {
                                Ok(n @ 1..) => drop(count.fetch_add(n, SeqCst)),
                                _ => return,
                            }
                        }
                    }
                }
            });
        }
    });
    (address, sent)
}

#[tokio::test]
async fn a_reply_has_a_largest_size() {
    for (head, again, says) in [
        ("*1000000\r\n", format!("$65536\r\n{}\r\n", "x".repeat(65536)), "more than 64 MiB"),
        ("*1000000000\r\n", ":1\r\n".repeat(1000), "more than 1048576 values"),
        ("$536870912\r\n", "x".repeat(1 << 20), "more than 64 MiB"),
        ("+", "x".repeat(1000), "line of more than 64 KiB"),
        ("", "*2\r\n".repeat(1000), "nested more than 32 deep"),
        // Only the announced length.
        ("$536870912\r\n", String::new(), "more than 64 MiB"),
    ] {
        let (address, sent) = liar(head, again);
        let transport =
            Transport::open(super::server::patient(Options::new(Topology::Standalone(address)))).await;
        let told = transport.unwrap().command(To::Key(b""), &[b"GET", b"k"]).await;
        assert!(matches!(&told, Err(Failure::Unknown(why)) if why.text.contains(says)), "{head:?}: {told:?}");
        // Bytes in socket buffers are not counted.
        let sent = sent.load(SeqCst);
        assert!(sent <= MAX_REPLY + (16 << 20), "{head:?}: {sent} bytes were read");
    }
}

/// A cluster of one node that answers queries about itself with `says`.
fn cluster(says: impl Fn(&str) -> Option<&'static str> + Send + Sync + 'static) -> (Fake, Options) {
    let fake = Fake::start(move |words, port| match words {
        "PING" => "+PONG".to_owned(),
        "CLUSTER SLOTS" => format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:{port}"),
        other => says(other).unwrap_or("-ERR unknown command").to_owned(),
    });
    let options = Options::new(Topology::Cluster(vec![fake.address.clone()]));
    (fake, options)
}

#[tokio::test]
async fn a_server_that_does_not_announce_its_features_is_asked_again() {
    let shard = |reply| move |words: &str| (words == "PUBSUB SHARDNUMSUB").then_some(reply);
    let (_fake, options) = cluster(shard("-LOADING Redis is loading the dataset in memory"));
    let refused = Transport::open(options).await.err();
    assert!(matches!(refused, Some(tenure_core::Error::Unavailable { .. })), "{refused:?}");
    for (reply, command) in [
        ("*0", "SPUBLISH"),
        ("-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'", "PUBLISH"),
        ("-NOPERM this user has no permissions to run the 'pubsub|shardnumsub' command", "SPUBLISH"),
    ] {
        let (_fake, options) = cluster(shard(reply));
        assert_eq!(Transport::open(options).await.unwrap().publish_command(), command, "{reply}");
    }
    let (_fake, options) = cluster(|words| match words {
        "PUBSUB SHARDNUMSUB" => Some("-NOPERM this user has no permissions to run the 'pubsub' command"),
        "COMMAND INFO SPUBLISH" => Some("*1\r\n*-1"),
        _ => None,
    });
    assert_eq!(Transport::open(options).await.unwrap().publish_command(), "PUBLISH", "an old one");
}
