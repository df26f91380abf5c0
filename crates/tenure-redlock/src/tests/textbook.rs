//! The examples of the RedLock description, on a manual clock.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use testbed::{done, until};

use crate::{Node, Quorum, QuorumOptions};
use tenure_core::backend::{
    Admin, Attempt, Backend, CountOp, CountReply, Counter, Info, Interest, Query, Released, Renewal, Watch,
};
use tenure_core::{Claim, Client, Clock, Error, HoldId, Kind, Memory, Name, OpId, Result, Settings};

/// A memory store that answers only when it is allowed to.
#[derive(Debug)]
struct ControlledNode {
    inner: Memory,
    silent: Mutex<bool>,
    unsilenced: Notify,
    /// Whether attempts wait before they are executed, not only before they are answered.
    slow: AtomicBool,
    /// Whether it is unreachable.
    away: AtomicBool,
    /// Ids of received attempts and releases.
    asked: Mutex<Vec<HoldId>>,
    released: Mutex<Vec<HoldId>>,
    /// Attempts that were executed.
    executed: AtomicUsize,
    waiting: AtomicUsize,
    /// Releases that wait to be executed.
    releasing: AtomicUsize,
}

impl ControlledNode {
    fn new(clock: &Clock) -> Arc<Self> {
        Arc::new(Self {
            inner: Memory::with_clock(clock.clone()),
            silent: Mutex::new(false),
            unsilenced: Notify::new(),
            slow: AtomicBool::new(false),
            away: AtomicBool::new(false),
            asked: Mutex::default(),
            released: Mutex::default(),
            executed: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            releasing: AtomicUsize::new(0),
        })
    }

    fn set_silent(&self, silent: bool) {
        *self.silent.lock().unwrap() = silent;
        self.unsilenced.notify_waiters();
    }

    async fn holds(&self, name: &str) -> bool {
        let seen = self.inner.inspect(Query::Name(Name::new(name).unwrap())).await.unwrap();
        seen.iter().any(|s| !s.holders.is_empty())
    }

    async fn wait_while_silent(&self) {
        self.waiting.fetch_add(1, SeqCst);
        loop {
            let unsilenced = self.unsilenced.notified();
            if !*self.silent.lock().unwrap() {
                break;
            }
            unsilenced.await;
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}

#[async_trait::async_trait]
impl Backend for ControlledNode {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.asked.lock().unwrap().push(claim.id);
        if self.away.load(SeqCst) {
            return Err(self.info().unavailable("acquire", "away"));
        }
        if self.slow.load(SeqCst) {
            self.wait_while_silent().await;
        }
        self.executed.fetch_add(1, SeqCst);
        let answer = self.inner.try_acquire(claim).await;
        self.wait_while_silent().await;
        answer
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        self.inner.watch(name, interest).await
    }

    async fn renew(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        self.wait_while_silent().await;
        self.inner.renew(claims).await
    }

    async fn release(&self, claim: &Claim, left: u32) -> Result<Released> {
        if self.away.load(SeqCst) {
            return Err(self.info().unavailable("release", "away"));
        }
        self.releasing.fetch_add(1, SeqCst);
        self.wait_while_silent().await;
        self.releasing.fetch_sub(1, SeqCst);
        self.released.lock().unwrap().push(claim.id);
        self.inner.release(claim, left).await
    }

    async fn count(&self, name: &Name, counter: Counter, op: CountOp, id: OpId) -> Result<CountReply> {
        self.inner.count(name, counter, op, id).await
    }

    fn admin(&self) -> Option<&dyn Admin> {
        self.inner.admin()
    }
}

const S: Duration = Duration::from_secs(1);

struct Fixture {
    clock: Clock,
    nodes: Vec<Arc<ControlledNode>>,
    quorum: Quorum,
    client: Client,
}

/// A quorum of `n` nodes with changed options.
fn fixture(n: usize, change: impl Fn(&mut QuorumOptions)) -> Fixture {
    let clock = Clock::manual();
    let nodes: Vec<Arc<ControlledNode>> = (0..n).map(|_| ControlledNode::new(&clock)).collect();
    let named =
        |(at, node): (usize, &Arc<ControlledNode>)| Node { name: format!("n{at}"), backend: node.clone() };
    let mut options = QuorumOptions::default();
    change(&mut options);
    let quorum = Quorum::new(nodes.iter().enumerate().map(named).collect(), options).unwrap();
    let client = Client::with(Arc::new(quorum.clone()), Settings::default());
    Fixture { clock, nodes, quorum, client }
}

impl Fixture {
    fn claim(&self) -> Claim {
        let id = HoldId { client: tenure_core::ClientId::new(), n: 1 };
        Claim { lease: 5 * S, ..Claim::of(id, Name::new("x").unwrap(), Kind::Lock) }
    }

    /// Lets another client hold it on these nodes.
    async fn hold_elsewhere(&self, nodes: &[usize]) {
        for at in nodes {
            // Longer than any time that passes in a test.
            let theirs = Claim { lease: 3600 * S, ..self.claim() };
            let answer = self.nodes[*at].inner.try_acquire(&theirs).await.unwrap();
            assert!(matches!(answer, Attempt::Granted { .. }));
        }
    }

    /// The number of nodes on which somebody waits.
    async fn queue_positions(&self, name: &str) -> usize {
        let mut positions = 0;
        for node in &self.nodes {
            let seen = node.inner.inspect(Query::Name(Name::new(name).unwrap())).await.unwrap();
            positions += seen.iter().filter(|s| !s.waiters.is_empty()).count();
        }
        positions
    }

    /// Whether nothing is held or waited for on any node.
    async fn is_empty(&self) -> bool {
        for node in &self.nodes {
            let all = node
                .inner
                .inspect(Query::Prefix { prefix: String::new(), limit: 9, idle: true })
                .await
                .unwrap();
            if all.iter().any(|s| !s.holders.is_empty() || !s.waiters.is_empty()) {
                return false;
            }
        }
        true
    }
}

/// Lease 5 s, deciding vote after 2 s: 5 − 2 − (1 % of 5 + 0.002) = 2.948 s are left.
#[tokio::test]
async fn validity_is_what_the_textbook_says() {
    let fixture = fixture(5, |o| o.node_timeout = Some(3 * S));
    fixture.nodes[2..].iter().for_each(|n| n.set_silent(true));
    let lock = fixture.client.lock("x").lease(5 * S);
    let acquiring = tokio::spawn(async move { lock.try_acquire().await });
    until("all nodes are called", || async { fixture.nodes[4].waiting.load(SeqCst) == 1 }).await;
    fixture.clock.advance(2 * S);
    assert!(!acquiring.is_finished(), "two of five are not enough");
    fixture.nodes[2].set_silent(false);
    let guard = done("an answer", acquiring).await.unwrap().expect("three of five are");
    assert_eq!(guard.remaining(), Duration::from_millis(2948));
}

/// Lease 5 s, node timeout 1 s: silent nodes are given up after that.
#[tokio::test]
async fn silent_nodes_are_given_up_after_their_time() {
    let fixture = fixture(5, |o| o.node_timeout = Some(S));
    fixture.nodes[2..].iter().for_each(|n| n.set_silent(true));
    let claim = fixture.claim();
    let (quorum, asked) = (fixture.quorum.clone(), claim.clone());
    let acquiring = tokio::spawn(async move { quorum.try_acquire(&asked).await });
    until("all nodes are called", || async { fixture.nodes[4].waiting.load(SeqCst) == 1 }).await;
    fixture.clock.advance(S - Duration::from_millis(1));
    tokio::task::yield_now().await;
    assert!(!acquiring.is_finished());
    fixture.clock.advance(Duration::from_millis(1));
    let error = done("an answer", acquiring).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("2 of 5 nodes granted it, 3 needed"), "{said}");
    assert!(
        said.contains("node n0: granted, then released; ") && said.contains("node n4: no answer within 1s"),
        "{said}"
    );
    // Nodes that did not answer get a release too.
    fixture.nodes.iter().for_each(|n| n.set_silent(false));
    until("all nodes get the release", || async {
        fixture.clock.advance(Duration::from_millis(10));
        fixture.nodes.iter().all(|n| !n.released.lock().unwrap().is_empty())
    })
    .await;
    assert!(fixture.is_empty().await);
}

/// One of five nodes fails at once, two do not answer, and others hold the remaining two: no majority can vote, which is
/// known only when the time of the silent ones is up.
#[tokio::test]
async fn without_a_majority_that_can_vote_it_is_not_busy() {
    let fixture = fixture(5, |o| o.node_timeout = Some(S));
    fixture.hold_elsewhere(&[1, 2, 3]).await;
    fixture.nodes[0].away.store(true, SeqCst);
    fixture.nodes[3..].iter().for_each(|n| n.set_silent(true));
    for wait in [None, Some(S)] {
        let claim = Claim { wait, ..fixture.claim() };
        let quorum = fixture.quorum.clone();
        let acquiring = tokio::spawn(async move { quorum.try_acquire(&claim).await });
        until("it has an answer", || async {
            fixture.clock.advance(Duration::from_millis(100));
            acquiring.is_finished()
        })
        .await;
        let answer = done("an answer", acquiring).await;
        assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
    }
    // Once one of the silent ones votes, three have.
    fixture.nodes[3].set_silent(false);
    let answer = fixture.quorum.try_acquire(&fixture.claim()).await;
    assert!(matches!(answer, Ok(Attempt::Busy { .. })), "{answer:?}");
}

#[tokio::test]
async fn three_of_five_are_enough_and_two_are_not() {
    let fixture = fixture(5, |_| {});
    fixture.hold_elsewhere(&[0, 1, 2]).await;
    assert!(fixture.client.lock("x").try_acquire().await.unwrap().is_none());
    for node in &fixture.nodes {
        let ids: Vec<HoldId> = node.asked.lock().unwrap().clone();
        assert_eq!(*node.released.lock().unwrap(), ids, "every node is told to let go, of that round only");
    }
    let other = fixture_with_two_taken().await;
    assert!(other.client.lock("x").try_acquire().await.unwrap().is_some());
}

async fn fixture_with_two_taken() -> Fixture {
    let fixture = fixture(5, |_| {});
    fixture.hold_elsewhere(&[3, 4]).await;
    fixture
}

/// Two of four are not a majority.
#[tokio::test]
async fn half_is_not_a_majority() {
    let fixture = fixture(4, |_| {});
    fixture.hold_elsewhere(&[0, 1]).await;
    assert!(fixture.client.lock("x").try_acquire().await.unwrap().is_none());
}

/// S3. Leftovers of a lost round cannot affect the next one: each has its own id.
#[tokio::test]
async fn each_round_has_an_id_of_its_own() {
    let fixture = fixture(3, |_| {});
    fixture.hold_elsewhere(&[0, 1]).await;
    let claim = Claim { wait: Some(S), ..fixture.claim() };
    for _ in 0..3 {
        let Attempt::Busy { retry_after: Some(pause), .. } =
            fixture.quorum.try_acquire(&claim).await.unwrap()
        else {
            panic!("others have it")
        };
        // No other round starts before the backoff is over.
        let asked = fixture.nodes[2].asked.lock().unwrap().len();
        assert!(matches!(fixture.quorum.try_acquire(&claim).await.unwrap(), Attempt::Busy { .. }));
        assert_eq!(fixture.nodes[2].asked.lock().unwrap().len(), asked);
        fixture.clock.advance(pause);
    }
    let asked = fixture.nodes[2].asked.lock().unwrap().clone();
    let different: std::collections::BTreeSet<_> = asked.iter().collect();
    assert_eq!((asked.len(), different.len()), (3, 3));
    assert_eq!(*fixture.nodes[2].released.lock().unwrap(), asked);
}

/// `acquire` gives up and reports each node's answer; a caller with a timeout waits for that long.
#[tokio::test]
async fn after_so_many_rounds_it_gives_up() {
    let fixture = fixture(3, |o| {
        o.tries = 4;
        o.retry_delay = Duration::from_millis(1)..=Duration::from_millis(2);
    });
    fixture.hold_elsewhere(&[0, 1, 2]).await;
    let lock = fixture.client.lock("x");
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    until("it gives up", || async {
        fixture.clock.advance(Duration::from_millis(1));
        acquiring.is_finished()
    })
    .await;
    let said = done("it gives up", acquiring).await.expect_err("an error").to_string();
    assert!(said.contains("gave up: after 4 rounds") && said.contains("node n2: held by another"), "{said}");
    assert_eq!(fixture.nodes[0].asked.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn unsupported_kinds_are_refused_with_the_reason() {
    let fixture = fixture(3, |_| {});
    let client = &fixture.client;
    let said = |result: Result<Option<tenure_core::Guard>>| result.unwrap_err().to_string();
    for (error, reason) in [
        (said(client.lock("x").fair().try_acquire().await), "a queue of its own"),
        (said(client.rwlock("x").read().try_acquire().await), "readers of the others"),
        (said(client.rwlock("x").write().try_acquire().await), "readers of the others"),
        (said(client.semaphore("x", 3).permits(1).try_acquire().await), "does not limit their number"),
        (client.latch("x").count_down().await.unwrap_err().to_string(), "would differ"),
        (client.counting_semaphore("x").release(1).await.unwrap_err().to_string(), "would differ"),
        (client.election("x").campaign().await.unwrap_err().to_string(), "no fencing token"),
        (said(client.lock("x").lease(61 * S).try_acquire().await), "longer than max_lease, 60s"),
        (said(client.lock("x").token("me").try_acquire().await), "a token of the caller's own"),
    ] {
        assert!(error.contains(reason), "{error}");
    }
    assert!(Quorum::new(Vec::new(), QuorumOptions::default()).unwrap_err().to_string().contains("no nodes"));
}

/// A renewal restores the hold on a node that lost it, as long as a majority has it. A hold lost by a majority is lost.
#[tokio::test]
async fn a_renewal_repairs_a_minority() {
    let fixture = fixture(5, |_| {});
    let claim = Arc::new(fixture.claim());
    assert!(matches!(fixture.quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted { .. }));
    let id = fixture.nodes[0].asked.lock().unwrap()[0];
    let forget = async |at: usize| {
        let gone = Claim { id, ..(*claim).clone() };
        assert_eq!(fixture.nodes[at].inner.release(&gone, 0).await.unwrap(), Released::Freed);
    };
    let has = async |at: usize| {
        let seen = fixture.nodes[at].inner.inspect(Query::Name(claim.name.clone())).await.unwrap();
        seen.iter().any(|s| s.holders.iter().any(|h| h.hold_id() == Some(id)))
    };
    forget(0).await;
    forget(1).await;
    let renewed = fixture.quorum.renew(std::slice::from_ref(&claim)).await.unwrap();
    assert!(matches!(renewed[..], [Renewal::Held { .. }]));
    until("it is repaired by the same id", || async { has(0).await && has(1).await }).await;
    for at in 0..3 {
        forget(at).await;
    }
    assert_eq!(fixture.quorum.renew(std::slice::from_ref(&claim)).await.unwrap(), [Renewal::Gone]);
    assert!(!has(0).await, "what most lost is not brought back");
}

/// With two silent nodes, the restored vote is needed for a majority: it is waited for.
#[tokio::test]
async fn a_repair_that_is_needed_counts() {
    let fixture = fixture(5, |o| o.node_timeout = Some(S));
    let claim = Arc::new(fixture.claim());
    assert!(matches!(fixture.quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted { .. }));
    let id = fixture.nodes[0].asked.lock().unwrap()[0];
    fixture.nodes[0].inner.release(&Claim { id, ..(*claim).clone() }, 0).await.unwrap();
    fixture.nodes[3..].iter().for_each(|n| n.set_silent(true));
    let quorum = fixture.quorum.clone();
    let renewing = tokio::spawn(async move { quorum.renew(&[claim]).await });
    until("all nodes are called", || async { fixture.nodes[4].waiting.load(SeqCst) == 1 }).await;
    fixture.clock.advance(S);
    assert!(matches!(done("an answer", renewing).await.unwrap()[..], [Renewal::Held { .. }]));
}

/// With all nodes up it waits for as long as others hold it, however many rounds that takes.
#[tokio::test]
async fn contention_is_waited_out() {
    let fixture = fixture(3, |o| {
        o.retry_delay = Duration::from_millis(1)..=Duration::from_millis(2);
        o.max_lease = 3600 * S;
    });
    let held = Claim { lease: 3600 * S, ..fixture.claim() };
    assert!(matches!(fixture.quorum.try_acquire(&held).await.unwrap(), Attempt::Granted { .. }));
    let lock = fixture.client.lock("x");
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    until("a hundred rounds", || async {
        fixture.clock.advance(Duration::from_millis(1));
        assert!(
            !acquiring.is_finished(),
            "it gave up after {} rounds",
            fixture.nodes[0].asked.lock().unwrap().len()
        );
        fixture.nodes[0].asked.lock().unwrap().len() > 100
    })
    .await;
    fixture.quorum.release(&held, 0).await.unwrap();
    until("it gets in", || async {
        fixture.clock.advance(Duration::from_millis(1));
        acquiring.is_finished()
    })
    .await;
    assert!(done("it gets in", acquiring).await.is_ok());
}

/// A node slower than the majority gets the hold too, without a renewal.
#[tokio::test]
async fn a_slow_node_gets_the_hold_too() {
    let fixture = fixture(3, |_| {});
    fixture.nodes[2].slow.store(true, SeqCst);
    fixture.nodes[2].set_silent(true);
    let guard = fixture.client.lock("x").try_acquire().await.unwrap().expect("two of three are enough");
    fixture.nodes[2].set_silent(false);
    until("it has it", || async { fixture.nodes[2].holds("x").await }).await;
    guard.release().await.unwrap();
    until("nothing is left", || async { fixture.is_empty().await }).await;
}

/// A slow node that has not executed the attempt by the time of the release does not execute it later.
#[tokio::test]
async fn a_slow_node_executes_nothing_after_the_release() {
    let fixture = fixture(3, |_| {});
    fixture.nodes[2].slow.store(true, SeqCst);
    fixture.nodes[2].set_silent(true);
    let guard = fixture.client.lock("x").try_acquire().await.unwrap().expect("two of three are enough");
    let releasing = tokio::spawn(guard.release());
    until("the others have released it", || async {
        // The release waits for the third node no longer than the node timeout.
        fixture.clock.advance(Duration::from_millis(100));
        releasing.is_finished()
    })
    .await;
    done("released", releasing).await.unwrap();
    fixture.nodes[2].set_silent(false);
    until("the third gets the release as well", || async {
        fixture.clock.advance(Duration::from_millis(10));
        !fixture.nodes[2].released.lock().unwrap().is_empty()
    })
    .await;
    assert_eq!(fixture.nodes[2].executed.load(SeqCst), 0);
    assert!(fixture.is_empty().await);
}

/// A hold is restored also on a node that reports late that it lost it.
#[tokio::test]
async fn a_slow_node_is_repaired_too() {
    let fixture = fixture(3, |_| {});
    let claim = Arc::new(fixture.claim());
    assert!(matches!(fixture.quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted { .. }));
    let id = fixture.nodes[0].asked.lock().unwrap()[0];
    fixture.nodes[2].inner.release(&Claim { id, ..(*claim).clone() }, 0).await.unwrap();
    fixture.nodes[2].set_silent(true);
    let renewed = fixture.quorum.renew(std::slice::from_ref(&claim)).await.unwrap();
    assert!(matches!(renewed[..], [Renewal::Held { .. }]));
    fixture.nodes[2].set_silent(false);
    until("it is repaired", || async { fixture.nodes[2].holds("x").await }).await;
}

/// A node that certainly executed nothing gets no release, neither after a lost round nor after a hold.
#[tokio::test]
async fn a_node_that_executed_nothing_gets_no_release() {
    let fixture = fixture(3, |_| {});
    fixture.nodes[2].away.store(true, SeqCst);
    fixture.client.lock("x").try_acquire().await.unwrap().expect("two of three").release().await.unwrap();
    fixture.hold_elsewhere(&[0, 1]).await;
    assert!(fixture.client.lock("x").try_acquire().await.unwrap().is_none());
    assert_eq!(fixture.nodes[2].asked.lock().unwrap().len(), 2);
    fixture.nodes[2].away.store(false, SeqCst);
    fixture.client.close().await.unwrap();
    assert_eq!(*fixture.nodes[2].released.lock().unwrap(), []);
}

/// A waiter leaves while nodes are slow: `close` waits until they have confirmed its release.
#[tokio::test]
async fn close_waits_for_releases_in_the_background() {
    let fixture = fixture(3, |o| o.retry_delay = Duration::from_millis(1)..=Duration::from_millis(2));
    fixture.hold_elsewhere(&[0, 1, 2]).await;
    let lock = fixture.client.lock("x");
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it is queued on every node", || async {
        fixture.clock.advance(Duration::from_millis(1));
        fixture.queue_positions("x").await == 3
    })
    .await;
    fixture.nodes.iter().for_each(|n| n.set_silent(true));
    waiting.abort();
    let client = fixture.client.clone();
    let closing = tokio::spawn(async move { client.close().await });
    until("all nodes get the release", || async {
        // The current round ends, too.
        fixture.clock.advance(Duration::from_millis(20));
        fixture.nodes.iter().all(|n| n.releasing.load(SeqCst) > 0)
    })
    .await;
    assert!(!closing.is_finished());
    fixture.nodes.iter().for_each(|n| n.set_silent(false));
    done("closed", closing).await.unwrap();
    assert_eq!(fixture.queue_positions("x").await, 0);
}

/// A node that does not answer is sent the release, and then not waited for.
#[tokio::test]
async fn close_does_not_wait_for_a_node_that_does_not_answer() {
    let fixture = fixture(3, |_| {});
    let guard = fixture.client.lock("x").try_acquire().await.unwrap().expect("free");
    until("all have it", || async { fixture.nodes[2].holds("x").await }).await;
    fixture.nodes[2].set_silent(true);
    let client = fixture.client.clone();
    let closing = tokio::spawn(async move {
        guard.release().await.unwrap();
        client.close().await
    });
    until("closed", || async {
        fixture.clock.advance(Duration::from_millis(100));
        closing.is_finished()
    })
    .await;
    done("closed", closing).await.unwrap();
    assert!(fixture.nodes[2].releasing.load(SeqCst) > 0, "it was sent the release");
}

/// The queue position on a node that did not answer for longer than a lease is removed when the node answers again.
#[tokio::test]
async fn a_queue_position_is_released_for_as_long_as_it_lasts() {
    // A long delay between rounds makes positions last long.
    let fixture = fixture(3, |o| o.retry_delay = Duration::from_millis(1)..=300 * S);
    fixture.hold_elsewhere(&[0, 1, 2]).await;
    let claim = Claim { wait: Some(S), stamp: 600 * S, ..fixture.claim() };
    assert!(matches!(fixture.quorum.try_acquire(&claim).await.unwrap(), Attempt::Busy { .. }));
    assert_eq!(fixture.queue_positions("x").await, 3);
    fixture.nodes[0].away.store(true, SeqCst);
    fixture.quorum.release(&claim, 0).await.unwrap();
    until("the others have released it", || async { fixture.queue_positions("x").await == 1 }).await;
    for _ in 0..20 {
        fixture.clock.advance(claim.lease / 10);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fixture.nodes[0].away.store(false, SeqCst);
    until("the last one releases it as well", || async {
        fixture.clock.advance(Duration::from_millis(10));
        fixture.queue_positions("x").await == 0
    })
    .await;
}

/// A node that refused a hold which the others granted keeps its queue position: for no longer than the hold lasts that
/// is left to its lease, whether it was renewed before or not.
#[tokio::test]
async fn a_queue_position_of_a_hold_ends_with_its_lease() {
    for renewed in [false, true] {
        let fixture = fixture(3, |_| {});
        fixture.hold_elsewhere(&[0]).await;
        let claim = Claim { wait: Some(S), stamp: 600 * S, ..fixture.claim() };
        assert!(matches!(fixture.quorum.try_acquire(&claim).await.unwrap(), Attempt::Granted { .. }));
        assert_eq!(fixture.queue_positions("x").await, 1);
        if renewed {
            fixture.clock.advance(claim.lease * 4 / 5);
            let answers = fixture.quorum.renew(&[Arc::new(claim.clone())]).await.unwrap();
            assert!(matches!(answers[..], [Renewal::Held { .. }]), "{answers:?}");
        }
        fixture.clock.advance(claim.lease);
        assert_eq!(fixture.queue_positions("x").await, 0);
    }
}
