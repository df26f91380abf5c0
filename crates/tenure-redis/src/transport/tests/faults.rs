//! Connections that break, stall and corrupt replies; calls that are dropped or not polled.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tenure_core::{ClientId, HoldId};
use testbed::{FAR, PATIENCE, Resp, done as ended, until, wait_until, within};

use super::count;
use super::proxy::{Proxy, Replies};
use super::server::{Server, command, hasty, open, patient};
use crate::transport::{Answer, Call, Event, Failure, Order, Transport, Value};
use crate::{Address, Options};

async fn value(transport: &Arc<Transport>, key: &str) -> u64 {
    command(transport, &["GET", key]).await.text().map_or(0, |t| t.parse().unwrap())
}

#[tokio::test]
async fn a_call_polled_once_and_left_holds_up_nobody() {
    let server = Server::start();
    // So long that no timer tick can help.
    let options = Options { timeout: FAR, ..server.options() };
    let transport = Transport::open(options).await.unwrap();
    let mut left = pin!(transport.call(count(&[b"left"], &[b"1"])));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(left.as_mut().poll(&mut cx).is_pending());
    for i in 1..=20 {
        let call = transport.call(count(&[b"k"], &[b"1"]));
        let answer = within("not held up", call).await.unwrap();
        assert_eq!(answer, Value::Int(i));
    }
    assert_eq!(left.await.unwrap(), Value::Int(1), "it has its answer all the same");
}

#[tokio::test]
async fn a_call_dropped_at_every_poll_disturbs_nobody() {
    let server = Server::start();
    let transport = server.open().await;
    for polls in 0..4 {
        for with_other in [false, true] {
            let other = with_other.then(|| {
                let transport = transport.clone();
                tokio::spawn(async move { transport.call(count(&[b"other"], &[b"1"])).await.unwrap() })
            });
            {
                let mut call = pin!(transport.call(count(&[b"dropped"], &[b"1"])));
                let mut cx = Context::from_waker(Waker::noop());
                for _ in 0..polls {
                    if call.as_mut().poll(&mut cx).is_ready() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }
            let before = value(&transport, "k").await;
            let answer = transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
            assert_eq!(answer, Value::Int(before as i64 + 1), "no answer is taken for another's");
            if let Some(other) = other {
                other.await.unwrap();
            }
        }
    }
    assert!(value(&transport, "dropped").await >= 6, "what was polled once was sent");
}

#[tokio::test]
async fn a_cut_inside_a_reply_is_unknown_and_the_next_call_works() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let transport = Transport::open(proxy.options()).await.unwrap();
    transport.call(count(&[b"k"], &[b"0"])).await.unwrap();
    for cut in 0..4 {
        proxy.set(Replies::CutAfter(cut));
        let failed = transport.call(count(&[b"k"], &[b"1"])).await;
        proxy.set(Replies::Pass);
        assert!(matches!(failed, Err(Failure::Unknown(_))), "{cut}: {failed:?}");
        let answer = transport.call(count(&[b"k"], &[b"1"])).await;
        assert_eq!(answer.unwrap(), Value::Int(2 * (cut as i64 + 1)), "both were executed");
    }
}

#[tokio::test]
async fn a_refused_connect_is_not_executed_and_told_at_once() {
    let mut server = Server::start();
    // A timeout that the test never reaches.
    let transport = Transport::open(Options { timeout: FAR, ..server.options() }).await.unwrap();
    server.kill();
    let mut cut = 0;
    for _ in 0..5 {
        match within("at once", transport.call(count(&[b"k"], &[b"1"]))).await {
            Err(Failure::NotExecuted(_)) => {}
            // Written before the end of the connection was noticed.
            Err(Failure::Unknown(_)) => cut += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(cut <= 1, "only the first could still be written");
    let opened = within("at once", Transport::open(server.options())).await;
    assert!(matches!(opened, Err(tenure_core::Error::Unavailable { .. })), "{opened:?}");
    server.restart(&[]);
    until("it works again", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_ok() }).await;
}

#[tokio::test]
async fn half_open_and_trickling_connections_end_in_time() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    // An answer of this length trickles for much longer than the timeout of a call.
    command(&server.open().await, &["SET", "k", "1000000000000000000"]).await;
    for spoiled in [Replies::Swallow, Replies::Trickle(Duration::from_millis(400))] {
        proxy.set(Replies::Pass);
        let transport = open(hasty(proxy.options())).await;
        proxy.set(spoiled);
        let began = Instant::now();
        let all = (0..8).map(|_| {
            let transport = transport.clone();
            tokio::spawn(async move { transport.call(count(&[b"k"], &[b"1"])).await })
        });
        for call in all.collect::<Vec<_>>() {
            let failed = ended("given up", call).await;
            assert!(matches!(failed, Err(Failure::Unknown(_))), "{failed:?}");
        }
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(400), "{took:?}");
        proxy.set(Replies::Pass);
        until("it works again", || async { transport.call(count(&[b"k"], &[b"1"])).await.is_ok() }).await;
    }
}

#[tokio::test]
async fn a_left_call_ends_by_the_clock() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let transport = open(hasty(proxy.options())).await;
    proxy.set(Replies::Swallow);
    let id = HoldId { client: ClientId::new(), n: 1 };
    let order = Order::Attempt { id, lease: Duration::from_millis(1) };
    let mut left = pin!(transport.call(Call { order, ..count(&[b"k"], &[b"1"]) }));
    assert!(left.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    until("given up by the driver", || async {
        !matches!(transport.attempts.state(id), super::AttemptState::InFlight(_))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_forgotten_all_the_time() {
    let server = Server::start();
    let transport = server.open().await;
    let over = Arc::new(AtomicBool::new(false));
    let flusher = {
        let (other, over) = (server.open().await, over.clone());
        tokio::spawn(async move {
            while !over.load(SeqCst) {
                command(&other, &["SCRIPT", "FLUSH"]).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let done = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let (transport, done) = (transport.clone(), done.clone());
            tokio::spawn(async move {
                for _ in 0..100 {
                    let calls = vec![count(&[b"k"], &[b"1"]); 3];
                    for outcome in transport.call_all(calls).await {
                        outcome.unwrap();
                    }
                    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
                    done.fetch_add(4, SeqCst);
                }
            })
        })
        .collect();
    for task in tasks {
        ended("each is answered", task).await;
    }
    over.store(true, SeqCst);
    ended("the last flush", flusher).await;
    assert_eq!(value(&transport, "k").await, done.load(SeqCst), "each once");
}

#[tokio::test]
async fn killed_connections_are_opened_anew_unseen() {
    let server = Server::start();
    // An idle connection is checked at a quarter of this.
    let options = Options { timeout: Duration::from_secs(20), ..server.options() };
    let transport = Transport::open(options).await.unwrap();
    let other = Transport::open(Options { client_name: "other".into(), ..server.options() }).await.unwrap();
    let manager = transport.connections().unwrap().manager(&server.address());
    for i in 1..=10 {
        // Just after a call nobody is registered to read; the next call detects the closed connection before it writes.
        let answer = transport.call(count(&[b"k"], &[b"1"])).await;
        assert_eq!(answer.unwrap(), Value::Int(i));
        let before = manager.ready().unwrap();
        command(&other, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        if i % 2 == 0 {
            until("noticed though idle", || async { before.is_dead() }).await;
        }
    }
}

/// The lone call has read its answer, and nobody else is registered to read.
#[tokio::test]
async fn the_end_of_an_idle_connection_is_noticed_however_long_calls_may_take() {
    let server = Server::start();
    let transport = Transport::open(Options { timeout: FAR, ..server.options() }).await.unwrap();
    let other = Transport::open(Options { client_name: "other".into(), ..server.options() }).await.unwrap();
    transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
    let connection = transport.connections().unwrap().manager(&server.address()).ready().unwrap();
    command(&other, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    until("noticed though idle", || async { connection.is_dead() }).await;
}

#[tokio::test]
async fn a_connect_under_way_to_a_node_that_is_forgotten_brings_no_link() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let transport = Transport::open(proxy.options()).await.unwrap();
    let connections = transport.connections().unwrap();
    connections.forget(&proxy.address, "once");
    proxy.hold_requests.store(true, SeqCst);
    let before = proxy.connections.load(SeqCst);
    let manager = connections.manager(&proxy.address);
    let opening = {
        let (manager, connections) = (manager.clone(), connections.clone());
        tokio::spawn(async move { manager.connection(&connections, Instant::now() + PATIENCE).await })
    };
    until("it connects", || async { proxy.connections.load(SeqCst) > before }).await;
    connections.forget(&proxy.address, "twice");
    proxy.hold_requests.store(false, SeqCst);
    let opened = ended("it is told", opening).await;
    assert!(matches!(opened, Err(Failure::NotExecuted(_))), "{opened:?}");
    assert!(manager.ready().is_none());
    transport.call(count(&[b"k"], &[b"1"])).await.expect("by another manager");
}

#[tokio::test]
async fn a_server_that_takes_its_time_to_start_is_met_though_nobody_calls() {
    let mut server = Server::start();
    let transport = open(hasty(server.options())).await;
    let suspicions = transport.suspicion.times();
    let manager = transport.connections().unwrap().manager(&server.address());
    server.kill();
    until("it has gone", || async { manager.ready().is_none() }).await;
    // The first reconnect has failed by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(transport.suspicion.times() == suspicions);
    server.restart(&[]);
    until("it has lost what it held", || async { transport.suspicion.times() > suspicions }).await;
}

/// A task may be dropped before its first poll: those who wait for it must get an error.
#[tokio::test]
async fn a_link_ends_with_its_driver_though_that_never_ran() {
    let server = Server::start();
    let transport = server.open().await;
    let connection = transport.connections().unwrap().manager(&server.address()).ready().unwrap();
    drop(crate::transport::driver::drive(connection.clone(), Duration::from_secs(1)));
    assert!(connection.is_dead());
}

#[test]
fn a_runtime_without_a_clock_can_sleep() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let transport = runtime.block_on(server.open());
    let without = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let began = Instant::now();
    without.block_on(transport.sleep(Duration::from_millis(50)));
    assert!(began.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn nothing_is_too_long() {
    let server = Server::start();
    let transport = Transport::open(Options { timeout: Duration::MAX, ..server.options() }).await.unwrap();
    let order = Order::Attempt { id: HoldId { client: ClientId::new(), n: 1 }, lease: Duration::MAX };
    transport.call(Call { order, ..count(&[b"k"], &[b"1"]) }).await.unwrap();
    transport.call_and_wait(count(&[b"k"], &[b"1"]), 0, Duration::MAX).await.unwrap();
    assert!(transport.subscribe(b"c", b"").await.is_ok());
}

#[tokio::test]
async fn an_undo_goes_behind_its_attempt() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let transport = Transport::open(proxy.options()).await.unwrap();
    let id = HoldId { client: ClientId::new(), n: 1 };
    transport.call(count(&[b"k"], &[b"0"])).await.unwrap();
    proxy.hold_requests.store(true, SeqCst);
    {
        let order = Order::Attempt { id, lease: Duration::from_secs(60) };
        let mut attempt = pin!(transport.call(Call { order, ..count(&[b"k"], &[b"7"]) }));
        assert!(attempt.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let before = proxy.connections.load(SeqCst);
    // From another runtime, whose own connection would overtake it.
    let undone = {
        let transport = transport.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(transport.call_after_attempt(id, count(&[b"k"], &[b"-7"])))
        })
    };
    // Time for an undo that wrongly overtakes the attempt.
    tokio::time::sleep(Duration::from_millis(50)).await;
    proxy.hold_requests.store(false, SeqCst);
    let answer = tokio::task::spawn_blocking(|| undone.join().unwrap()).await.unwrap().unwrap();
    assert_eq!(answer, Answer { value: Value::Int(0), certain: true });
    assert_eq!(proxy.connections.load(SeqCst), before, "on the same connection");
    assert_eq!(transport.attempts.len(), 0);
}

/// A quorum re-enters a hold while its first attempt is in flight to a slow node. Both are answered, so none may arrive
/// later, and what a release does not find is not there.
#[tokio::test]
async fn two_attempts_of_one_hold_are_in_flight_at_once() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let transport = Transport::open(proxy.options()).await.unwrap();
    let id = HoldId { client: ClientId::new(), n: 1 };
    transport.call(count(&[b"k"], &[b"0"])).await.unwrap();
    proxy.hold_requests.store(true, SeqCst);
    let order = Order::Attempt { id, lease: FAR };
    let attempt = || transport.call(Call { order, ..count(&[b"k"], &[b"7"]) });
    let mut cx = Context::from_waker(Waker::noop());
    let (mut first, mut second) = (pin!(attempt()), pin!(attempt()));
    assert!(first.as_mut().poll(&mut cx).is_pending() && second.as_mut().poll(&mut cx).is_pending());
    proxy.hold_requests.store(false, SeqCst);
    let answer = transport.call_after_attempt(id, count(&[b"k"], &[b"-14"])).await.unwrap();
    assert_eq!(answer, Answer { value: Value::Int(0), certain: true });
    assert_eq!(transport.attempts.len(), 0);
}

/// An attempt whose reply is delayed, followed by an undo. Both are executed; then `then` controls the proxy.
async fn undone_behind(then: impl FnOnce(&testbed::Proxy)) -> Result<Answer, Failure> {
    let server = Server::start();
    let proxy = testbed::Proxy::start(server.port).unwrap();
    let options = patient(Options::new(crate::Topology::Standalone(Address::tcp("127.0.0.1", proxy.port()))));
    let transport = Transport::open(options).await.unwrap();
    let id = HoldId { client: ClientId::new(), n: 1 };
    transport.call(count(&[b"k"], &[b"0"])).await.unwrap();
    proxy.set(testbed::Way::ToClient, testbed::Rule::Stall);
    let order = Order::Attempt { id, lease: Duration::from_secs(60) };
    let mut attempt = pin!(transport.call(Call { order, ..count(&[b"k"], &[b"7"]) }));
    assert!(attempt.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    proxy.cut_once("-5", testbed::Cut::AfterRequest);
    let mut undo = pin!(transport.call_after_attempt(id, count(&[b"k"], &[b"-5"])));
    assert!(undo.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let other = server.open().await;
    until("both were executed", || async { value(&other, "k").await == 2 }).await;
    then(&proxy);
    undo.await
}

#[tokio::test]
async fn an_undo_cut_off_from_its_answer_finds_nothing_and_is_not_certain() {
    let answer = undone_behind(testbed::Proxy::heal).await.unwrap();
    assert!(!answer.certain, "the first one may have done it: {answer:?}");
}

#[tokio::test]
async fn an_undo_cut_off_from_its_answer_may_have_been_executed() {
    let failed = undone_behind(|proxy| {
        proxy.refuse();
        proxy.heal();
    })
    .await;
    assert!(matches!(failed, Err(Failure::Unknown(_))), "{failed:?}");
}

#[tokio::test]
async fn an_undo_after_a_cut_is_not_certain_until_the_lease_is_over() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let transport = Transport::open(proxy.options()).await.unwrap();
    let lease = Duration::from_secs(1);
    let id = HoldId { client: ClientId::new(), n: 1 };
    transport.call(count(&[b"k"], &[b"0"])).await.unwrap();
    proxy.set(Replies::CutAfter(0));
    let sent = Instant::now();
    let attempt =
        transport.call(Call { order: Order::Attempt { id, lease }, ..count(&[b"k"], &[b"1"]) }).await;
    assert!(matches!(attempt, Err(Failure::Unknown(_))), "{attempt:?}");
    proxy.set(Replies::Pass);
    let undo = async || transport.call_after_attempt(id, count(&[b"k"], &[b"0"])).await.unwrap();
    until("certain in the end", || async { undo().await.certain }).await;
    assert!(sent.elapsed() >= lease, "not before the lease was over");
    assert_eq!(transport.attempts.len(), 0);
}

#[tokio::test]
async fn an_undo_behind_a_runtime_that_stands_still() {
    let server = Server::start();
    // Half of it is spent on the connection that does not answer.
    let options = Options { timeout: Duration::from_secs(40), ..server.options() };
    let transport = Transport::open(options).await.unwrap();
    let id = HoldId { client: ClientId::new(), n: 1 };
    // Its connection does not answer, since nobody runs this runtime.
    let still = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let still = std::thread::scope(|scope| {
        let attempt = scope.spawn(|| {
            still.block_on(async {
                transport.call(count(&[b"warm"], &[b"1"])).await.unwrap();
                let order = Order::Attempt { id, lease: Duration::from_secs(60) };
                let mut attempt = pin!(transport.call(Call { order, ..count(&[b"k"], &[b"1"]) }));
                assert!(attempt.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            });
            still
        });
        attempt.join().unwrap()
    });
    let undo = count(&[b"k"], &[b"-1"]);
    let answer = transport.call_after_attempt(id, undo).await.expect("in what time is left to it");
    assert!(!answer.certain, "its answer was never read");
    transport.call(count(&[b"k"], &[b"1"])).await.expect("others are not hurt");
    std::thread::spawn(move || drop(still)).join().unwrap();
}

#[test]
fn runtimes_come_and_go() {
    let server = Server::start();
    let runtime = |io: bool| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        if io {
            builder.enable_all();
        }
        builder.build().unwrap()
    };
    let first = runtime(true);
    let transport = first.block_on(server.open());
    for round in 0..3 {
        let second = runtime(true);
        second.block_on(async { transport.call(count(&[b"k"], &[b"1"])).await.unwrap() });
        let task = second.spawn({
            let transport = transport.clone();
            async move { transport.subscribe(b"c", b"").await }
        });
        assert!(second.block_on(task).unwrap().is_ok());
        assert_eq!(transport.runtimes.all().len(), 2, "{round}");
        drop(second);
        assert_eq!(transport.runtimes.all().len(), 1, "its connections went with it");
        first.block_on(async { transport.call(count(&[b"k"], &[b"1"])).await.unwrap() });
    }
    // Without I/O and time drivers, and without any runtime.
    runtime(false).block_on(async {
        transport.call(count(&[b"k"], &[b"1"])).await.unwrap();
        assert!(transport.subscribe(b"c", b"").await.is_ok());
    });
    let mut call = pin!(transport.call(count(&[b"k"], &[b"1"])));
    let thread = std::thread::current();
    let waker = Waker::from(Arc::new(Unparks(thread)));
    let last = loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            std::task::Poll::Ready(outcome) => break outcome.unwrap(),
            std::task::Poll::Pending => std::thread::park_timeout(PATIENCE),
        }
    };
    assert_eq!(last, Value::Int(8));
}

/// A subscription whose runtime has ended, but which is still polled, continues on the background connections.
#[test]
fn a_subscription_outlives_its_runtime() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let transport = runtime.block_on(server.open());
    let mut heard = runtime.block_on(transport.subscribe(b"c", b"")).unwrap();
    let handle = runtime.handle().clone();
    let (told, ended) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let again = handle.block_on(heard.next());
        told.send(again).unwrap();
    });
    runtime.shutdown_background();
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(Event::MaybeMissed));
    thread.join().unwrap();
}

/// Subscribing on a runtime that has ended fails.
#[tokio::test]
async fn a_runtime_that_has_ended_has_no_subscriber() {
    let server = Server::start();
    let transport = server.open().await;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connections = std::thread::spawn({
        let transport = transport.clone();
        move || runtime.block_on(async { transport.connections().unwrap() })
    });
    let connections = connections.join().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let registered = connections
        .subscribers
        .subscribe(&transport, &connections, &server.address(), b"c", false, deadline)
        .await;
    assert!(
        matches!(&registered, Err(Failure::NotExecuted(why)) if why.text.contains("has ended")),
        "{registered:?}"
    );
}

struct Unparks(std::thread::Thread);

impl std::task::Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_runtime_that_stood_still_finds_its_answers() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = hasty(server.options());
    let limit = options.timeout;
    let transport = runtime.block_on(open(options));
    // Loads the script, so that there is only one answer to wait for.
    let warm = || async { transport.call(count(&[b"warm"], &[b"1"])).await.is_ok() };
    runtime.block_on(until("warm", warm));
    let calls: Vec<_> = (0..4)
        .map(|_| {
            let transport = transport.clone();
            runtime.spawn(async move { transport.call(count(&[b"k"], &[b"1"])).await })
        })
        .collect();
    let sent = async {
        while transport.connections().unwrap().manager(&server.address()).ready().unwrap().is_idle() {
            tokio::task::yield_now().await;
        }
        // All requests are written, and then something blocks the thread.
        tokio::task::yield_now().await;
        std::thread::sleep(limit + limit / 2);
        let mut look = Resp::connect(server.port).unwrap();
        wait_until("all are answered", || (look.cmd(&["GET", "k"]).ok()?.text() == "4").then_some(()));
    };
    runtime.block_on(sent);
    for call in calls {
        runtime.block_on(call).unwrap().expect("the answer was there in time");
    }
}

#[tokio::test]
async fn a_clock_that_jumps_does_no_harm() {
    let server = Server::start();
    let transport = server.open().await;
    tokio::time::pause();
    for i in 1..=20 {
        assert_eq!(transport.call(count(&[b"k"], &[b"1"])).await.unwrap(), Value::Int(i));
    }
}

#[tokio::test]
async fn a_silent_subscriber_connection_is_found_out() {
    for spoiled in [Replies::Swallow, Replies::Trickle(Duration::from_secs(1))] {
        found_out(spoiled).await;
    }
}

/// An incomplete message is no sign of life: it may never be completed.
async fn found_out(spoiled: Replies) {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let transport = open(hasty(proxy.options())).await;
    let began = Instant::now();
    let mut heard = within("it listens", async {
        loop {
            if let Ok(heard) = transport.subscribe(b"c", b"").await {
                break heard;
            }
        }
    })
    .await;
    proxy.set(spoiled);
    let before = proxy.connections.load(SeqCst);
    let other = server.open().await;
    assert_eq!(command(&other, &["PUBLISH", "c", "lost"]).await, Value::Int(1));
    let mut next = pin!(heard.next());
    tokio::select! {
        () = until("found out", || std::future::ready(proxy.connections.load(SeqCst) > before)) => {}
        heard = next.as_mut() => panic!("{heard:?}"),
    }
    assert!(began.elapsed() >= proxy.options().timing.ping_after, "it is left alone for a while");
    proxy.set(Replies::Pass);
    assert_eq!(within("told", next).await, crate::transport::Event::MaybeMissed);
}
