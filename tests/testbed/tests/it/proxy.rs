//! A proxy between a client and a real Redis: each rule, and what both sides see of it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use testbed::{Cut, Error, Proxy, Redis, RedisOptions, Resp, Result, Rule, Value, Way, wait_until_true};

const SHORT: Duration = Duration::from_millis(100);

struct Harness {
    redis: Redis,
    proxy: Proxy,
}

impl Harness {
    fn new() -> Self {
        let redis = Redis::start(RedisOptions::default()).unwrap();
        let proxy = Proxy::start(redis.port()).unwrap();
        Self { redis, proxy }
    }

    fn client(&self) -> Resp {
        Resp::connect(self.proxy.port()).unwrap()
    }

    /// What the server has, asked without the proxy.
    fn get(&self, key: &str) -> String {
        self.redis.cmd(&["GET", key]).unwrap().text()
    }
}

fn is_cut(answer: &Result<Value>) -> bool {
    matches!(answer, Err(Error::Io(e)) if !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
}

#[test]
fn passes_data_and_counts_it() {
    let harness = Harness::new();
    let (mut one, mut two) = (harness.client(), harness.client());
    for n in 0..10 {
        one.cmd(&["SET", "a", &n.to_string()]).unwrap();
    }
    let big = "x".repeat(1_000_000);
    two.cmd(&["SET", "b", &big]).unwrap();
    assert_eq!(two.cmd(&["GET", "b"]).unwrap().text(), big);
    let counts = harness.proxy.counts();
    assert_eq!(harness.proxy.accepted(), 2);
    assert_eq!(counts.iter().map(|c| c.commands).collect::<Vec<_>>(), [10, 2]);
    assert_eq!((counts[0].bytes_from_client, counts[0].bytes_from_server), (10 * 27, 10 * 5));
    assert!(counts[1].bytes_from_client > 1_000_000 && counts[1].bytes_from_server > 1_000_000);
    assert!(counts.iter().all(|c| c.is_open));
    drop(one);
    wait_until_true("the end comes through", || !harness.proxy.counts()[0].is_open);
    assert!(harness.proxy.counts()[1].is_open);
}

#[test]
fn delays_do_not_add_up() {
    let harness = Harness::new();
    let mut client = harness.client();
    // One after the other, they would take minutes.
    const MANY: usize = 400;
    let delay = 5 * SHORT;
    for rule in [Rule::Delay(delay), Rule::Jitter(delay)] {
        harness.proxy.set(Way::ToClient, rule);
        let begin = Instant::now();
        for _ in 0..MANY {
            client.send(&["INCR", "n"]).unwrap();
        }
        let answers: Vec<_> = (0..MANY).map(|_| client.receive().unwrap().int().unwrap()).collect();
        assert!(answers.is_sorted(), "{answers:?}");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert!(rule != Rule::Delay(delay) || took >= delay, "{took:?}");
    }
}

#[test]
fn a_changed_rule_applies_to_data_in_flight() {
    let harness = Harness::new();
    let mut client = harness.client();
    harness.proxy.set(Way::ToServer, Rule::Delay(Duration::from_secs(3600)));
    client.send(&["PING"]).unwrap();
    assert_eq!(client.receive_within(SHORT).unwrap(), None);
    harness.proxy.heal();
    assert_eq!(client.receive().unwrap().text(), "PONG");
}

#[test]
fn one_direction_stalls_and_resumes() {
    let harness = Harness::new();
    let mut client = harness.client();
    harness.proxy.set(Way::ToClient, Rule::Stall);
    client.send(&["SET", "a", "1"]).unwrap();
    wait_until_true("the command arrives", || harness.get("a") == "1");
    assert_eq!(client.receive_within(SHORT).unwrap(), None);
    harness.proxy.set(Way::ToServer, Rule::Stall);
    harness.proxy.set(Way::ToClient, Rule::Pass);
    assert_eq!(client.receive().unwrap().text(), "OK");
    client.send(&["SET", "a", "2"]).unwrap();
    assert_eq!(client.receive_within(SHORT).unwrap(), None);
    assert_eq!(harness.get("a"), "1");
    harness.proxy.heal();
    assert_eq!(client.receive().unwrap().text(), "OK");
    assert_eq!(harness.get("a"), "2");
}

#[test]
fn rules_apply_to_all_connections_or_to_one() {
    let harness = Harness::new();
    let (mut one, mut two) = (harness.client(), harness.client());
    wait_until_true("both are there", || harness.proxy.accepted() == 2);
    harness.proxy.set_for(0, Way::ToServer, Rule::Stall);
    one.send(&["PING"]).unwrap();
    two.cmd(&["PING"]).unwrap();
    assert_eq!(one.receive_within(SHORT).unwrap(), None);
    harness.proxy.set(Way::ToServer, Rule::Stall);
    let mut three = harness.client();
    for client in [&mut two, &mut three] {
        client.send(&["PING"]).unwrap();
        assert_eq!(client.receive_within(SHORT).unwrap(), None);
    }
    harness.proxy.set_for(0, Way::ToServer, Rule::Pass);
    one.receive().unwrap();
    assert_eq!(two.receive_within(SHORT).unwrap(), None);
}

#[test]
fn a_rule_cuts_after_so_many_bytes() {
    let harness = Harness::new();
    harness.redis.cmd(&["SET", "a", "0"]).unwrap();
    for (way, bytes, value) in
        [(Way::ToServer, 0, "0"), (Way::ToServer, 26, "0"), (Way::ToClient, 0, "1"), (Way::ToClient, 4, "1")]
    {
        harness.redis.cmd(&["SET", "a", "0"]).unwrap();
        harness.proxy.set(way, Rule::CutAfter(bytes));
        // For each connection anew.
        for _ in 0..2 {
            let answer = harness.client().cmd(&["SET", "a", "1"]);
            assert!(is_cut(&answer), "{way:?} {bytes}: {answer:?}");
            assert_eq!(harness.get("a"), value, "{way:?} {bytes}");
        }
        harness.proxy.heal();
    }
    harness.proxy.set(Way::ToClient, Rule::CutAfter(5));
    let mut client = harness.client();
    client.cmd(&["SET", "a", "1"]).unwrap();
    assert!(is_cut(&client.cmd(&["SET", "a", "2"])));
}

#[test]
fn one_command_is_cut_and_no_other() {
    let harness = Harness::new();
    let mut bystander = harness.client();
    for (cut, executed) in [(Cut::BeforeRequest, false), (Cut::AfterRequest, true), (Cut::InReply(3), true)] {
        harness.redis.cmd(&["SET", "target", "old"]).unwrap();
        let mut client = harness.client();
        harness.proxy.cut_once("TARGET", cut);
        client.cmd(&["SET", "a", "1"]).unwrap();
        if executed {
            // In one go: the reply to the command before it still arrives.
            client.send(&["SET", "a", "2"]).unwrap();
        }
        client.send(&["set", "target", "new"]).unwrap();
        // It may be cut already.
        let _ = client.send(&["SET", "a", "3"]);
        if executed {
            assert_eq!(client.receive().unwrap().text(), "OK");
        }
        let answer = client.receive();
        assert!(is_cut(&answer), "{cut:?}: {answer:?}");
        assert_eq!(harness.get("target") == "new", executed, "{cut:?}");
        assert_eq!(harness.proxy.cuts_left(), 0);
        bystander.cmd(&["GET", "target"]).unwrap();
    }
}

#[test]
fn pushes_are_dropped_and_replies_are_not() {
    let harness = Harness::new();
    let mut listener = harness.client();
    harness.proxy.set(Way::ToClient, Rule::DropPushes);
    assert_eq!(listener.cmd(&["SUBSCRIBE", "news"]).unwrap().texts()[0], "subscribe");
    harness.redis.cmd(&["PUBLISH", "news", "1"]).unwrap();
    assert_eq!(listener.cmd(&["PING"]).unwrap().texts()[0], "pong");
    assert_eq!(harness.proxy.counts()[0].pushes_dropped, 1);
    harness.proxy.heal();
    harness.redis.cmd(&["PUBLISH", "news", "2"]).unwrap();
    assert_eq!(listener.receive().unwrap().texts(), ["message", "news", "2"]);
}

#[test]
fn bytes_trickle() {
    let harness = Harness::new();
    let mut client = harness.client();
    harness.redis.cmd(&["SET", "a", "0123456789"]).unwrap();
    let pause = Duration::from_millis(5);
    harness.proxy.set(Way::ToClient, Rule::Trickle(pause));
    let begin = Instant::now();
    assert_eq!(client.cmd(&["GET", "a"]).unwrap().text(), "0123456789");
    assert!(begin.elapsed() >= 17 * pause, "{:?}", begin.elapsed());
}

#[test]
fn a_half_open_connection_does_not_see_the_end() {
    let harness = Harness::new();
    let clients =
        |redis: &Redis| redis.info("clients").unwrap()["connected_clients"].parse::<usize>().unwrap();
    let mut one = harness.client();
    let mut two = harness.client();
    one.cmd(&["PING"]).unwrap();
    two.cmd(&["PING"]).unwrap();
    assert_eq!(clients(&harness.redis), 3);
    harness.proxy.set(Way::ToServer, Rule::Swallow);
    harness.proxy.set(Way::ToClient, Rule::Swallow);
    // The client goes, and the server does not learn of it, not even afterwards.
    drop(one);
    two.send(&["SET", "a", "1"]).unwrap();
    wait_until_true("the end and the command are swallowed", || {
        harness.proxy.counts().iter().all(|counts| counts.is_half_open)
    });
    harness.proxy.heal();
    assert_eq!(two.receive_within(SHORT).unwrap(), None);
    two.send(&["SET", "a", "1"]).unwrap();
    assert_eq!(two.receive_within(SHORT).unwrap(), None);
    assert_eq!(clients(&harness.redis), 3);
    assert_eq!(harness.get("a"), "");
    // New ones are well.
    let mut three = harness.client();
    three.cmd(&["PING"]).unwrap();
    // The server goes, and the client does not learn of it.
    harness.proxy.set(Way::ToClient, Rule::Swallow);
    harness.redis.kill().unwrap();
    assert_eq!(three.receive_within(SHORT).unwrap(), None);
    // Told by hand.
    harness.proxy.close_all();
    assert!(is_cut(&three.receive()));
}

#[test]
fn the_end_of_a_server_closes_its_connections() {
    let harness = Harness::new();
    let mut client = harness.client();
    client.cmd(&["PING"]).unwrap();
    harness.redis.kill().unwrap();
    assert!(is_cut(&client.cmd(&["PING"])));
    assert!(is_cut(&harness.client().cmd(&["PING"])));
    harness.redis.restart().unwrap();
    harness.client().cmd(&["PING"]).unwrap();
}

#[test]
fn a_closed_port_refuses() {
    let harness = Harness::new();
    let mut client = harness.client();
    client.cmd(&["PING"]).unwrap();
    harness.proxy.refuse();
    assert!(Resp::connect(harness.proxy.port()).is_err());
    client.cmd(&["PING"]).unwrap();
    harness.proxy.accept().unwrap();
    harness.client().cmd(&["PING"]).unwrap();
    harness.proxy.close(0);
    assert!(is_cut(&client.cmd(&["PING"])));
}

/// A child has all files of its parent from the fork until it runs its program.
#[test]
fn a_closed_port_refuses_while_children_are_started() {
    let harness = Harness::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !done.load(SeqCst) {
                    std::process::Command::new("true").status().unwrap();
                }
            });
        }
        let closes_and_opens = |_: &u32| {
            harness.proxy.refuse();
            Resp::connect(harness.proxy.port()).is_err() && harness.proxy.accept().is_ok()
        };
        let times = (0..200).take_while(closes_and_opens).count();
        done.store(true, SeqCst);
        assert_eq!(times, 200);
    });
}

#[test]
fn random_choices_repeat_with_the_seed() {
    let redis = Redis::start(RedisOptions::default()).unwrap();
    let run = |seed: u64| -> Vec<usize> {
        let proxy = Proxy::start_seeded(redis.port(), seed).unwrap();
        assert_eq!(proxy.seed(), seed);
        proxy.set(Way::ToServer, Rule::CutSometimes(10));
        let lives = (0..8).map(|_| {
            let mut client = Resp::connect(proxy.port()).unwrap();
            (0..1000).take_while(|_| client.cmd(&["PING"]).is_ok()).count()
        });
        lives.collect()
    };
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
    assert!(first.iter().all(|n| *n < 1000) && first.iter().any(|n| *n > 0), "{first:?}");
}

#[test]
fn other_protocols_pass_raw() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start_raw(listener.local_addr().unwrap().port()).unwrap();
    let mut client = std::net::TcpStream::connect(("127.0.0.1", proxy.port())).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut byte = [0; 2];
    // Neither a line nor a reply.
    std::io::Write::write_all(&mut client, b"*9").unwrap();
    std::io::Read::read_exact(&mut server, &mut byte).unwrap();
    assert_eq!(&byte, b"*9");
    assert_eq!(proxy.counts()[0].commands, 0);
}

#[tokio::test]
async fn it_can_be_dropped_in_an_asynchronous_test() {
    let harness = Harness::new();
    harness.client().cmd(&["PING"]).unwrap();
}
