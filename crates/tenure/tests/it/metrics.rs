//! What is counted: names, labels and units are promised, and gauges come back to zero however things end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tenure::backend::{Backend, Clock};
use tenure::testing::{Call, Fate, Faults};
use tenure::{Client, Deadlocks, Guard, Memory, Owner, Settings};
use testbed::{done, until_true, within};
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

/// A recorder of one test: the handles are made on its thread, whoever uses them afterwards.
struct Recorder {
    snapshotter: Snapshotter,
    _installed: metrics::LocalRecorderGuard<'static>,
    /// What was recorded so far: each snapshot only has what came since the one before, of gauges too.
    sums: Mutex<BTreeMap<String, Vec<f64>>>,
}

impl Recorder {
    fn install() -> Self {
        let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
        let snapshotter = recorder.snapshotter();
        let _installed = metrics::set_default_local_recorder(recorder);
        Self { snapshotter, _installed, sums: Mutex::default() }
    }

    /// All that is not zero, as `name{label=value,…}`; of a histogram all values.
    fn look(&self) -> BTreeMap<String, Vec<f64>> {
        let mut sums = self.sums.lock().unwrap();
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let (name, labels) = key.key().clone().into_parts();
            let labels: Vec<_> = labels.iter().map(|l| format!("{}={}", l.key(), l.value())).collect();
            let sum = sums.entry(format!("{}{{{}}}", name.as_str(), labels.join(","))).or_default();
            let more = match value {
                DebugValue::Counter(n) => n as f64,
                DebugValue::Gauge(n) => n.0,
                DebugValue::Histogram(all) => {
                    sum.extend(all.into_iter().map(|n| n.0));
                    continue;
                }
            };
            *sum = vec![sum.first().copied().unwrap_or(0.0) + more];
        }
        sums.clone().into_iter().filter(|(_, values)| values.iter().any(|v| *v != 0.0)).collect()
    }

    /// Returns the values and resets the counters. Gauges stay.
    fn read(&self) -> BTreeMap<String, Vec<f64>> {
        let all = self.look();
        let is_gauge = |name: &str| name.starts_with("tenure_held") || name.starts_with("tenure_waiting");
        self.sums.lock().unwrap().retain(|name, _| is_gauge(name));
        all
    }

    fn gauge(&self, name: &str, kind: &str) -> f64 {
        let key = format!("{name}{{store=memory,kind={kind}}}");
        self.look().get(&key).map_or(0.0, |values| values[0])
    }

    async fn until(&self, what: &str, wanted: impl Fn(&BTreeMap<String, Vec<f64>>) -> bool) {
        until_true(what, || wanted(&self.look())).await;
    }
}

fn seen(of: &[(&str, &[f64])]) -> BTreeMap<String, Vec<f64>> {
    of.iter().map(|(name, values)| ((*name).to_owned(), values.to_vec())).collect()
}

#[tokio::test]
async fn an_acquire_and_its_release() {
    let recorder = Recorder::install();
    let clock = Clock::manual();
    let client = Client::new(Memory::with_clock(clock.clone()));
    let guard = client.lock("orders/42").acquire().await.unwrap();
    clock.advance(SECOND);
    assert!(client.lock("orders/42").try_acquire().await.unwrap().is_none());
    assert_eq!(
        recorder.read(),
        seen(&[
            ("tenure_acquired_total{store=memory,kind=lock}", &[1.0]),
            ("tenure_busy_total{store=memory,kind=lock}", &[1.0]),
            ("tenure_held{store=memory,kind=lock}", &[1.0]),
        ])
    );
    clock.advance(SECOND);
    guard.release().await.unwrap();
    assert_eq!(recorder.read(), seen(&[("tenure_hold_seconds{store=memory,kind=lock}", &[2.0])]));
}

#[tokio::test]
async fn waits_renewals_and_losses() {
    let recorder = Recorder::install();
    let clock = Clock::manual();
    let client = Client::new(Memory::with_clock(clock.clone()));
    let guard = client.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock("x");
        async move { lock.acquire().await }
    });
    recorder.until("it waits", |s| s.contains_key("tenure_waiting{store=memory,kind=lock}")).await;
    clock.advance(10 * SECOND);
    recorder
        .until("it is renewed", |s| s.contains_key("tenure_renewals_total{store=memory,kind=lock}"))
        .await;
    guard.release().await.unwrap();
    let second = done("it is let in", waiting).await.unwrap();
    let all = recorder.read();
    assert_eq!(all["tenure_acquire_seconds{store=memory,kind=lock}"], [0.0, 10.0], "{all:?}");
    assert_eq!(all["tenure_hold_seconds{store=memory,kind=lock}"], [10.0], "{all:?}");
    assert!(!all.contains_key("tenure_waiting{store=memory,kind=lock}"), "{all:?}");
    assert!(client.lock("x").force_release().await.unwrap());
    assert!(second.release().await.unwrap_err().is_lost());
    assert_eq!(recorder.read()["tenure_lost_total{store=memory,kind=lock,reason=gone}"], [1.0]);
}

#[tokio::test]
async fn each_kind_has_its_word() {
    let recorder = Recorder::install();
    let client = Client::new(Memory::new());
    let rw = client.rwlock("rw");
    let templates = [
        ("lock", client.lock("lock")),
        ("fair_lock", client.lock("fair").fair()),
        ("read", rw.read()),
        ("write", client.rwlock("other").write()),
    ];
    for (kind, template) in templates {
        let guard = template.acquire().await.unwrap();
        assert_eq!(recorder.gauge("tenure_held", kind), 1.0, "{kind}");
        drop(guard);
        assert_eq!(recorder.gauge("tenure_held", kind), 0.0, "{kind}");
    }
    let guard = client.semaphore("permit", 2).acquire().await.unwrap();
    assert_eq!(recorder.gauge("tenure_held", "permit"), 1.0);
    drop(guard);
    let guard = client.election("leader").campaign().await.unwrap();
    assert_eq!(recorder.gauge("tenure_held", "leader"), 1.0);
    drop(guard);
    let count = client.counting_semaphore("count");
    recorder.read();
    assert!(!count.try_acquire(1).await.unwrap());
    assert!(!count.try_acquire_for(1, Duration::from_millis(1)).await.unwrap());
    count.release(1).await.unwrap();
    count.acquire(1).await.unwrap();
    let all = recorder.read();
    for what in ["acquired", "busy", "timed_out"] {
        assert_eq!(all[&format!("tenure_{what}_total{{store=memory,kind=count}}")], [1.0], "{all:?}");
    }
}

#[tokio::test]
async fn failures_of_the_store() {
    let recorder = Recorder::install();
    let plan = |call: Call<'_>| Fate {
        refused: matches!(call, Call::TryAcquire(claim) if claim.name.as_str() == "out"),
        ..Fate::default()
    };
    let mut settings = Settings::default();
    settings.call_timeout = Duration::from_millis(20);
    let client = Client::with(Arc::new(Faults::new(Arc::new(Memory::new()), plan)), settings);
    assert!(client.lock("out").try_acquire().await.unwrap_err().is_transient());
    let all = recorder.read();
    assert_eq!(all["tenure_failures_total{store=memory,kind=lock,call=acquire}"], [1.0], "{all:?}");
    // A mistake of the caller is no failure of the store.
    assert!(client.lock("").try_acquire().await.is_err());
    assert!(client.lock("x").lease(Duration::ZERO).try_acquire().await.is_err());
    assert_eq!(recorder.read(), BTreeMap::new());
}

#[tokio::test]
async fn a_failed_renewal_and_the_loss_that_follows() {
    let recorder = Recorder::install();
    let clock = Clock::manual();
    let store: Arc<dyn Backend> = Arc::new(Memory::with_clock(clock.clone()));
    let plan = |call: Call<'_>| Fate { refused: matches!(call, Call::Renew(_)), ..Fate::default() };
    let client = Client::with(Arc::new(Faults::new(store, plan)), Settings::default());
    let guard = client.lock("x").acquire().await.unwrap();
    recorder.read();
    clock.advance(11 * SECOND);
    let failed = "tenure_failures_total{store=memory,kind=lock,call=renew}";
    recorder.until("the renewal fails", |s| s.contains_key(failed)).await;
    clock.advance(30 * SECOND);
    let lost = "tenure_lost_total{store=memory,kind=lock,reason=expired}";
    recorder.until("it is lost", |s| s.contains_key(lost)).await;
    assert!(guard.release().await.unwrap_err().is_lost());
    assert_eq!(recorder.gauge("tenure_held", "lock"), 0.0);
}

/// However it ends, nothing stays in a gauge, and each acquire is counted once.
#[tokio::test]
async fn gauges_come_back_to_zero() {
    let recorder = Recorder::install();
    let mut dice = fastrand::Rng::with_seed(7);
    for round in 0..40 {
        let clock = Clock::manual();
        let mut settings = Settings::default();
        settings.deadlocks = Deadlocks::Report;
        let client = Client::with(Arc::new(Memory::with_clock(clock.clone())), settings);
        let me = Owner::new();
        let lock = client.lock("x").owner(&me);
        let guards: Vec<Guard> = {
            let mut guards = vec![lock.acquire().await.unwrap()];
            for _ in 0..dice.u8(0..3) {
                guards.push(lock.acquire().await.unwrap());
            }
            guards
        };
        let entered = guards.len() as f64;
        assert_eq!(recorder.gauge("tenure_held", "lock"), 1.0, "round {round}");
        // One that waits, and then times out, is cancelled, fails with the client, or gets in.
        let other = client.lock("x");
        let how = dice.u8(0..4);
        let mut waiting = Box::pin(async move {
            match how {
                0 => other.try_acquire_for(Duration::from_millis(2)).await,
                _ => other.acquire().await.map(Some),
            }
        });
        let began = timeout(Duration::from_millis(1), &mut waiting).await;
        assert!(began.is_err() || how == 0, "round {round}");
        let expected = match how {
            0 => {
                if began.is_err() {
                    assert!(within("the limit", waiting).await.unwrap().is_none());
                }
                "timed_out"
            }
            1 => {
                drop(waiting);
                "cancelled"
            }
            2 => {
                // What is detached stays taken.
                end(&client, &clock, guards, [0, 1, 3][dice.usize(0..3)]).await;
                drop(within("it is let in", waiting).await.unwrap());
                check(&recorder, entered + 1.0, None).await;
                continue;
            }
            _ => {
                let (closed, failed) = tokio::join!(client.close(), within("its end", waiting));
                closed.unwrap();
                assert!(failed.is_err());
                drop(guards);
                check(&recorder, entered, None).await;
                continue;
            }
        };
        end(&client, &clock, guards, dice.u8(0..6)).await;
        check(&recorder, entered, Some(expected)).await;
    }
}

/// Ends a hold in one of its ways.
async fn end(client: &Client, clock: &Clock, mut guards: Vec<Guard>, how: u8) {
    match how {
        0 => {
            for guard in guards {
                guard.release().await.unwrap();
            }
        }
        1 => drop(guards),
        2 => {
            for guard in guards {
                guard.detach();
            }
        }
        3 => {
            let task = tokio::spawn(async move {
                let _held = guards;
                panic!("as it is meant to");
            });
            assert!(task.await.unwrap_err().is_panic());
        }
        4 => {
            client.lock("x").force_release().await.unwrap();
            clock.advance(11 * SECOND);
            within("the loss", guards.remove(0).lost()).await;
        }
        _ => {
            clock.advance(3600 * SECOND);
            within("the loss", guards.remove(0).lost()).await;
        }
    }
}

async fn check(recorder: &Recorder, acquired: f64, other: Option<&str>) {
    let total = |what: &str| format!("tenure_{what}_total{{store=memory,kind=lock}}");
    recorder
        .until("all is counted, and nothing is left", |s| {
            s.get(&total("acquired")).is_some_and(|n| n[0] == acquired)
                && other.is_none_or(|other| s.contains_key(&total(other)))
                && !s.keys().any(|name| name.starts_with("tenure_held") || name.starts_with("tenure_waiting"))
        })
        .await;
    recorder.read();
}

/// A recorder whose gauges panic at each change.
struct Broken;

impl metrics::GaugeFn for Broken {
    fn increment(&self, by: f64) {
        assert!(by == 0.0, "a recorder that panics, as this test wants it to");
    }

    fn decrement(&self, by: f64) {
        assert!(by == 0.0, "a recorder that panics, as this test wants it to");
    }

    fn set(&self, _: f64) {}
}

impl metrics::Recorder for Broken {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Self))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn a_recorder_that_panics_keeps_nothing_held() {
    let _installed = metrics::set_default_local_recorder(&Broken);
    let memory = Arc::new(Memory::with_clock(Clock::manual()));
    let [client, other] = [(); 2].map(|()| Client::with(memory.clone(), Settings::default()));
    let guard = client.lock("x").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock("x");
        async move { lock.acquire().await }
    });
    tokio::task::yield_now().await;
    guard.release().await.unwrap();
    drop(done("it is let in", waiting).await.unwrap());
    // The clock stands: it is not free because its lease is over.
    testbed::until("it is free", async || other.lock("x").holders().await.unwrap().is_empty()).await;
}
