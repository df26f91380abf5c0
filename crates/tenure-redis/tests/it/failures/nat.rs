//! C34. Servers that announce addresses which this client cannot reach, as behind NAT: the nodes of a cluster announce a
//! host at which nobody listens, and servers behind sentinels a port that only servers can use.

use std::net::TcpStream;

use tenure_core::{Admin, Backend, Client, Error, Finding, Kind, Level};
use tenure_redis::{Address, Nat, Options, Route, Sentinels as Known, Topology};
use testbed::{Cluster, PATIENCE, Proxy, RedisOptions, Sentinels, done, slot_of, until, within};

use crate::harness::{CALL, LONG, claim, leasing, open, settings, take, with, woken_only};

/// The host that nodes announce. They listen on 127.0.0.1 only.
const ANNOUNCED: &str = "127.0.0.77";

fn local(port: u16) -> Address {
    Address::tcp("127.0.0.1", port)
}

/// A cluster, and a way to each of its nodes.
struct World {
    cluster: Cluster,
    ways: Vec<Proxy>,
}

impl World {
    fn start() -> Self {
        let lines = [
            format!("cluster-announce-hostname {ANNOUNCED}"),
            "cluster-preferred-endpoint-type hostname".into(),
        ];
        let options = RedisOptions { lines: lines.into(), ..RedisOptions::default() };
        let cluster = Cluster::start_with(options).unwrap();
        let ways = cluster.nodes().iter().map(|node| Proxy::start(node.port()).unwrap()).collect();
        Self { cluster, ways }
    }

    fn announced(&self, node: usize) -> Address {
        Address::tcp(ANNOUNCED, self.cluster.nodes()[node].port())
    }

    /// Options that map all nodes but this one.
    fn options_without(&self, unmapped: Option<usize>) -> Options {
        let nodes = (0..self.ways.len()).filter(|node| Some(*node) != unmapped);
        let mut options = with(Topology::Cluster(vec![local(self.ways[0].port())]));
        options.nat =
            Nat::table(nodes.map(|node| (self.announced(node), Route::new(local(self.ways[node].port())))));
        options
    }

    fn options(&self) -> Options {
        self.options_without(None)
    }

    /// A name on the node with this index, before any slot has moved.
    fn name_on(&self, node: usize) -> String {
        let is_there = |name: &String| self.cluster.owner_of(slot_of(name)).unwrap() == node;
        (0..).map(|n| format!("name-{n}")).find(is_there).expect("a name")
    }

    fn owner(&self, name: &str) -> usize {
        self.cluster.owner_of(slot_of(name)).unwrap()
    }
}

async fn client(options: Options) -> Client {
    Client::with(open(options).await, leasing(LONG))
}

/// Somebody waits and is woken by a message, not by a clock.
async fn is_woken(client: &Client, waiting: &Client, name: &str) {
    let held = within("held", client.lock(name).acquire()).await.unwrap();
    let waiter = {
        let lock = waiting.lock(name);
        tokio::spawn(async move { lock.acquire().await })
    };
    until("it waits", || async { !client.lock(name).waiters().await.unwrap().is_empty() }).await;
    held.release().await.unwrap();
    done("woken", waiter).await.unwrap().release().await.unwrap();
}

/// Every node is found by its mapped address alone, also one that a slot moves to, and to listen there.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_reached_by_mapped_addresses_alone() {
    let world = World::start();
    for node in 0..6 {
        let Address::Tcp { host, port } = world.announced(node) else { unreachable!() };
        assert!(TcpStream::connect((host, port)).is_err(), "the test itself");
    }
    let client = client(world.options()).await;
    let waiting = Client::with(open(world.options()).await, woken_only());
    for node in 0..3 {
        is_woken(&client, &waiting, &world.name_on(node)).await;
        assert!(world.ways[node].accepted() > 0);
    }
    // MOVED, for a lock that is held and waited for, and for one that is not.
    let (name, to) = (world.name_on(0), 1);
    let free = format!("{{{name}}}-free");
    let held = client.lock(&name).acquire().await.unwrap();
    let waiter = {
        let lock = waiting.lock(&name);
        tokio::spawn(async move { lock.acquire().await })
    };
    until("it waits", || async { !client.lock(&name).waiters().await.unwrap().is_empty() }).await;
    world.cluster.move_slot(slot_of(&name), to).unwrap();
    assert_eq!(world.owner(&name), to);
    client.lock(&free).acquire().await.unwrap().release().await.unwrap();
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let listeners = || async {
        let asked = world.cluster.nodes()[to].cmd(&["PUBSUB", "SHARDNUMSUB", &channel]);
        asked.unwrap().items()[1].int() == Some(1)
    };
    until("it listens there", listeners).await;
    held.release().await.unwrap();
    done("woken there", waiter).await.unwrap().release().await.unwrap();
}

/// A replica is followed to its mapped address when its master dies.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_in_a_cluster_is_followed() {
    let world = World::start();
    let client = client(world.options()).await;
    let waiting = Client::with(open(world.options()).await, woken_only());
    let name = world.name_on(1);
    let guard = client.lock(&name).acquire().await.unwrap();
    let old = world.cluster.kill_master_of(&name).unwrap();
    let new = world.cluster.wait_for_fail_over(&name, old, PATIENCE).unwrap();
    assert_eq!((old, new), (1, 4));
    let released = within("released", guard.release()).await;
    assert!(released.is_ok() || matches!(released, Err(Error::Lost(_))), "{released:?}");
    take(&client.lock(&name)).await.release().await.unwrap();
    assert!(world.ways[new].accepted() > 0);
    is_woken(&client, &waiting, &name).await;
}

/// The store is unavailable, and says why with these words. A busy machine may be too slow to find out each time.
async fn is_refused(mut options: Options, name: &str, words: &[&str]) -> String {
    options.timeout = CALL;
    let (store, claim) = (tenure_redis::Redis::new(options).unwrap(), claim(name, Kind::Lock));
    let mut text = String::new();
    let asked = async {
        while !words.iter().all(|word| text.contains(word)) {
            let error = store.try_acquire(&claim).await.expect_err("it is not to be reached");
            assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
            text = error.to_string();
        }
    };
    within(&format!("{words:?}"), asked).await;
    println!("{text}");
    text
}

/// The error says which address was announced, and names the setting; the one for a mapped address has both.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_not_mapped_is_named() {
    let world = World::start();
    let name = world.name_on(2);
    let announced = world.announced(2).to_string();
    is_refused(world.options_without(Some(2)), &name, &[&announced, "nat has no entry for it"]).await;
    let mut plain = world.options();
    plain.nat = Nat::default();
    is_refused(plain, &name, &[&announced, "map it with nat"]).await;
    world.ways[2].refuse();
    let both = format!("{announced} via 127.0.0.1:{}", world.ways[2].port());
    let text = is_refused(world.options(), &name, &[&both]).await;
    assert!(!text.contains("nat has"), "{text}");
}

fn found<'a>(findings: &'a [Finding], check: &str) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| finding.check == check).collect()
}

/// `doctor` shows both addresses, and finds a replica that could not be followed.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_shows_both_addresses() {
    let world = World::start();
    let client = client(world.options()).await;
    for node in 0..3 {
        // A replica is listed once it has replicated something.
        take(&client.lock(world.name_on(node))).await.release().await.unwrap();
    }
    let lists_all = |node: &testbed::Redis| {
        let ranges = node.cmd(&["CLUSTER", "SLOTS"]).unwrap();
        ranges.items().len() == 3 && ranges.items().iter().all(|range| range.items().len() == 4)
    };
    until("all replicas are listed", || async { world.cluster.nodes().iter().all(lists_all) }).await;
    let findings = client.diagnose().await.unwrap();
    let place = |node: usize| format!("{} via 127.0.0.1:{}", world.announced(node), world.ways[node].port());
    let places: Vec<_> = found(&findings, "server").iter().filter_map(|found| found.place.clone()).collect();
    assert!((0..3).all(|node| places.contains(&place(node))) && places.len() == 3, "{places:?}");
    let [fail_over] = found(&findings, "fail-over")[..] else { panic!("{findings:?}") };
    assert_eq!(fail_over.level, Level::Ok, "{fail_over}");
    let findings = open(world.options_without(Some(4))).await.diagnose().await.unwrap();
    let [fail_over] = found(&findings, "fail-over")[..] else { panic!("{findings:?}") };
    assert_eq!(fail_over.level, Level::Warning, "{fail_over}");
    let text = fail_over.to_string();
    println!("{text}");
    assert!(text.contains("1 of 3") && text.contains(&world.announced(4).to_string()), "{text}");
}

/// Sentinels that name ports at which this client does not reach the servers.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_behind_sentinels_is_followed() {
    let bed = Sentinels::start_behind_nat().unwrap();
    let known = Known {
        addresses: bed.sentinels().iter().map(|sentinel| local(sentinel.port())).collect(),
        master: bed.name().to_owned(),
        user: None,
        password: None,
    };
    let topology = Topology::Sentinel(known);
    let table: Vec<_> =
        bed.servers().iter().enumerate().map(|(n, server)| (bed.announced_port(n), server.port())).collect();
    let mapped = || {
        let table = table.clone();
        let mut options = with(topology.clone());
        options.nat = Nat::with(move |announced| match announced {
            Address::Tcp { port, .. } => {
                let (_, port) = table.iter().find(|(announced, _)| announced == port)?;
                Some(Address::tcp("localhost", *port).into())
            }
            _ => None,
        });
        options
    };
    let announced = format!("127.0.0.1:{}", bed.announced_port(0));
    is_refused(with(topology.clone()), "x", &[&announced, "map it with nat"]).await;
    let client = Client::with(open(mapped()).await, settings());
    let waiting = Client::with(open(mapped()).await, woken_only());
    is_woken(&client, &waiting, "x").await;
    let findings = client.diagnose().await.unwrap();
    let place = format!("{announced} via localhost:{}", bed.servers()[0].port());
    assert!(findings.iter().any(|finding| finding.place.as_ref() == Some(&place)), "{findings:?}");
    let [fail_over] = found(&findings, "fail-over")[..] else { panic!("{findings:?}") };
    assert_eq!(fail_over.level, Level::Ok, "{fail_over}");
    let old = bed.master().unwrap();
    bed.fail_over().unwrap();
    let new = bed.wait_for_new_master(old.port(), PATIENCE).unwrap();
    // Until it has heard so itself, the old one answers, and what it says is not worth anything.
    until("the old one steps down", || async { old.cmd(&["ROLE"]).is_ok_and(|r| r.texts()[0] == "slave") })
        .await;
    let taken = take(&client.lock("y")).await;
    until("it is there", || async { new.cmd(&["EXISTS", "y"]).unwrap().int() == Some(1) }).await;
    taken.release().await.unwrap();
    is_woken(&client, &waiting, "z").await;
}
