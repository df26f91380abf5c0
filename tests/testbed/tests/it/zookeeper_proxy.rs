//! A proxy between a client and a real ZooKeeper: what both sides see of its rules and cuts.

use std::time::{Duration, Instant};

use testbed::{Cut, Error, PATIENCE, Proxy, Result, Rule, Way, ZkClient, ZkMode, ZkRequest};
use testbed::{ZooKeeper, ZooKeeperOptions, wait_until_true};

const SHORT: Duration = Duration::from_millis(100);

type Attempt = fn(&mut ZkClient) -> Result<()>;

struct Harness {
    zookeeper: ZooKeeper,
    proxy: Proxy,
}

impl Harness {
    fn new() -> Self {
        let zookeeper = ZooKeeper::start(ZooKeeperOptions::default()).unwrap();
        let proxy = Proxy::start_zookeeper(zookeeper.port()).unwrap();
        Self { zookeeper, proxy }
    }

    fn client(&self) -> ZkClient {
        ZkClient::connect(self.proxy.port(), PATIENCE).unwrap()
    }

    /// Asked without the proxy.
    fn exists(&self, path: &str) -> bool {
        self.zookeeper.client().unwrap().exists(path).unwrap().is_some()
    }
}

fn is_cut<T: std::fmt::Debug>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::Io(e)) if !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut))
}

#[test]
fn passes_data_and_counts_it() {
    let harness = Harness::new();
    let mut client = harness.client();
    let big = vec![b'x'; 500_000];
    client.create("/a", &big, ZkMode::Persistent).unwrap();
    assert_eq!(client.get("/a").unwrap().0, big);
    let counts = harness.proxy.counts()[0];
    // The first one opens the session.
    assert_eq!(counts.commands, 3);
    assert!(counts.bytes_from_client > 500_000 && counts.bytes_from_server > 500_000);
}

#[test]
fn one_request_is_cut_and_no_other() {
    let harness = Harness::new();
    for (n, (cut, executed)) in
        [(Cut::BeforeRequest, false), (Cut::AfterRequest, true), (Cut::InReply(9), true)]
            .into_iter()
            .enumerate()
    {
        let (target, other) = (format!("/target{n}"), format!("/other{n}"));
        let mut client = harness.client();
        let session = client.session();
        harness.proxy.cut_once_at(ZkRequest::Create, "/target", cut);
        // Of another kind, or elsewhere.
        assert!(client.exists(&target).unwrap().is_none());
        client.create(&other, b"", ZkMode::Ephemeral).unwrap();
        client.ping().unwrap();
        assert_eq!(harness.proxy.cuts_left(), 1);
        let answer = client.create(&target, b"", ZkMode::Ephemeral);
        assert!(is_cut(&answer), "{cut:?}: {answer:?}");
        assert_eq!(harness.proxy.cuts_left(), 0);
        assert_eq!(harness.exists(&target), executed, "{cut:?}");
        // The session goes on, and with it what was made.
        let mut client = ZkClient::attach(harness.proxy.port(), session, PATIENCE).unwrap();
        assert_eq!(client.exists(&target).unwrap().map(|s| s.ephemeral_owner), executed.then_some(session));
        client.close().unwrap();
    }
}

#[test]
fn the_first_request_is_cut() {
    let harness = Harness::new();
    harness.proxy.cut_once_at(ZkRequest::Connect, "", Cut::AfterRequest);
    assert!(is_cut(&ZkClient::connect(harness.proxy.port(), PATIENCE)));
    harness.client();
}

#[test]
fn requests_are_distinguished_by_kind() {
    let harness = Harness::new();
    let mut client = harness.client();
    client.create("/a", b"", ZkMode::Persistent).unwrap();
    let attempts: [(ZkRequest, Attempt); 7] = [
        (ZkRequest::CreateContainer, |c| c.create("/a/b", b"", ZkMode::Container).map(drop)),
        (ZkRequest::Exists, |c| c.exists("/a").map(drop)),
        (ZkRequest::Get, |c| c.get("/a").map(drop)),
        (ZkRequest::Set, |c| c.set("/a", b"", None).map(drop)),
        (ZkRequest::Children, |c| c.children("/a").map(drop)),
        (ZkRequest::Other(6), |c| c.acl("/a").map(drop)),
        (ZkRequest::Ping, ZkClient::ping),
    ];
    for (request, attempt) in attempts {
        let mut client = harness.client();
        harness.proxy.cut_once_at(request, "", Cut::AfterRequest);
        for (other, attempt) in attempts.iter().filter(|(other, _)| *other != request) {
            attempt(&mut client).unwrap_or_else(|e| {
                assert_eq!(e.reply(), Some("NodeExists"), "{other:?} while {request:?} is cut");
            });
        }
        assert!(is_cut(&attempt(&mut client)), "{request:?}");
    }
    harness.proxy.cut_once_at(ZkRequest::Close, "", Cut::BeforeRequest);
    assert!(is_cut(&client.close()));
}

#[test]
fn watches_are_dropped_and_replies_are_not() {
    let harness = Harness::new();
    let mut client = harness.client();
    let mut other = harness.zookeeper.client().unwrap();
    harness.proxy.set(Way::ToClient, Rule::DropPushes);
    assert!(client.watch("/a").unwrap().is_none());
    other.create("/a", b"", ZkMode::Persistent).unwrap();
    assert!(client.watch("/a").unwrap().is_some());
    assert_eq!(harness.proxy.counts()[0].pushes_dropped, 1);
    harness.proxy.heal();
    other.delete("/a", None).unwrap();
    assert_eq!(client.event_within(PATIENCE).unwrap(), Some((2, "/a".into())));
}

#[test]
fn replies_are_late_or_lost() {
    let harness = Harness::new();
    let mut client = harness.client();
    harness.proxy.set(Way::ToClient, Rule::Delay(SHORT));
    let begin = Instant::now();
    client.ping().unwrap();
    assert!(begin.elapsed() >= SHORT, "{:?}", begin.elapsed());
    harness.proxy.set(Way::ToClient, Rule::Swallow);
    let lost = std::thread::spawn(move || client.create("/a", b"", ZkMode::Persistent));
    wait_until_true("the node is made", || harness.exists("/a"));
    assert!(!lost.is_finished());
    harness.proxy.close_all();
    assert!(is_cut(&lost.join().unwrap()));
}

#[test]
fn a_half_open_session_expires_unnoticed_by_its_client() {
    let harness = Harness::new();
    let mut client = harness.client();
    client.create("/mine", b"", ZkMode::Ephemeral).unwrap();
    harness.proxy.set_both(Rule::Swallow);
    let mut other = harness.zookeeper.client().unwrap();
    other.watch("/mine").unwrap();
    harness.zookeeper.expire(client.session()).unwrap();
    assert_eq!(other.event_within(PATIENCE).unwrap(), Some((2, "/mine".into())));
    assert_eq!(client.event_within(SHORT).unwrap(), None);
    assert!(harness.proxy.counts()[0].is_open);
}

#[test]
fn four_letter_words_pass() {
    let harness = Harness::new();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", harness.proxy.port())).unwrap();
    std::io::Write::write_all(&mut stream, b"srvr").unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut stream, &mut said).unwrap();
    assert!(said.contains("Mode: standalone"), "{said}");
}
