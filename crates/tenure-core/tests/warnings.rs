//! What is said in the log, by a subscriber of its own: the keeper speaks on its own thread.

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use tenure_core::layers::{Call, Fate, Faults};
use tenure_core::{Client, Memory, Settings};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Listener;

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        SAID.lock().unwrap().push(words.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

fn said(what: &str) -> bool {
    SAID.lock().unwrap().iter().any(|line| line.contains(what))
}

#[tokio::test]
async fn a_task_that_waits_for_itself_is_told_how_to_enter_again() {
    listen();
    let client = Client::new(Memory::new());
    // Another task waits for this one: nothing is wrong with that.
    let other = client.lock("shared").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock("shared");
        async move { lock.try_acquire_for(Duration::from_millis(1500)).await.unwrap().is_none() }
    });
    assert!(waiting.await.unwrap());
    assert!(!said("waits for a name that it holds itself"));
    drop(other);
    // This one waits for itself.
    let own = tokio::spawn(async move {
        let _held = client.lock("own").acquire().await.unwrap();
        client.lock("own").try_acquire_for(Duration::from_millis(1500)).await.unwrap().is_none()
    });
    assert!(own.await.unwrap());
    assert!(said("waits for a name that it holds itself") && said("name=own"), "{:?}", SAID.lock().unwrap());
}

/// The answer of a store that cannot tell whether an attempt on a broken connection is still to come.
#[tokio::test]
async fn a_release_that_is_never_confirmed_is_over_with_its_lease() {
    const LEASE: Duration = Duration::from_secs(2);
    listen();
    let releases = Arc::new(AtomicUsize::new(0));
    let counted = releases.clone();
    let store = Faults::new(Arc::new(Memory::new()), move |call| {
        let release = matches!(call, Call::Release(_));
        counted.fetch_add(usize::from(release), SeqCst);
        Fate { reply_lost: release, ..Fate::default() }
    });
    let mut settings = Settings::default();
    settings.call_timeout = LEASE / 8;
    let client = Client::with(Arc::new(store), settings);
    let start = Instant::now();
    drop(client.lock("gone").lease(LEASE).acquire().await.unwrap());
    // The next acquire waits for it, but not for a lease.
    let next = client.lock("gone").try_acquire().await.unwrap().expect("it was freed");
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    assert!(start.elapsed() >= LEASE / 8, "{:?}", start.elapsed());
    next.detach();
    client.close().await.unwrap();
    assert!(start.elapsed() >= LEASE, "given up after {:?}", start.elapsed());
    assert!(releases.load(SeqCst) > 2);
    assert!(said("name=gone") && said("not confirmed, but its time is over"));
    assert!(!said("not released"));
}
