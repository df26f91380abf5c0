//! What is told through `tracing`: names and fields are promised, so that they are looked at word by word.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use tenure_core::{Client, Clock, Deadlocks, Memory, Owner, Settings};
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const PATIENCE: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

type Fields = BTreeMap<String, String>;

/// A span or an event.
#[derive(Clone, Debug)]
struct Told {
    what: String,
    level: String,
    fields: Fields,
}

static EVENTS: Mutex<Vec<Told>> = Mutex::new(Vec::new());
static SPANS: Mutex<BTreeMap<u64, Told>> = Mutex::new(BTreeMap::new());

struct Listener(AtomicU64);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tenure"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.fetch_add(1, SeqCst) + 1;
        let metadata = attributes.metadata();
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        let told = Told { what: metadata.name().to_owned(), level: metadata.level().to_string(), fields };
        SPANS.lock().unwrap().insert(id, told);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut spans = SPANS.lock().unwrap();
        values.record(&mut Reader(&mut spans.get_mut(&id.into_u64()).unwrap().fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let what = fields.remove("message").unwrap();
        EVENTS.lock().unwrap().push(Told { what, level: event.metadata().level().to_string(), fields });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What was told of this name so far.
fn of(name: &str, all: impl IntoIterator<Item = Told>) -> Vec<Told> {
    all.into_iter().filter(|told| told.fields.get("name").is_some_and(|n| n == name)).collect()
}

fn events(name: &str) -> Vec<Told> {
    of(name, EVENTS.lock().unwrap().clone())
}

fn spans(name: &str) -> Vec<Told> {
    of(name, SPANS.lock().unwrap().values().cloned())
}

fn words(told: &[Told]) -> Vec<&str> {
    told.iter().map(|t| t.what.as_str()).collect()
}

#[track_caller]
fn same(told: &Told, level: &str, fields: &[(&str, &str)]) {
    let fields: Fields = fields.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    assert_eq!((told.level.as_str(), &told.fields), (level, &fields), "{}", told.what);
}

async fn until(what: &str, wanted: impl Fn() -> bool) {
    let all = async {
        while !wanted() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(timeout(PATIENCE, all).await.is_ok(), "never: {what}: {:?}", EVENTS.lock().unwrap());
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("in time")
}

fn client(change: impl FnOnce(&mut Settings)) -> (Client, Clock) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener(AtomicU64::new(0))).unwrap());
    let clock = Clock::manual();
    let mut settings = Settings::default();
    change(&mut settings);
    (Client::with(Arc::new(Memory::with_clock(clock.clone())), settings), clock)
}

#[tokio::test]
async fn an_acquire_and_its_release() {
    let (client, clock) = client(|_| ());
    let guard = client.lock("plain").acquire().await.unwrap();
    let (hold, fence) = (guard.id().to_string(), guard.fence().unwrap().to_string());
    clock.advance(2 * SECOND);
    guard.release().await.unwrap();
    let told = events("plain");
    assert_eq!(words(&told), ["acquired", "released"]);
    let base = [("name", "plain"), ("kind", "lock"), ("store", "memory"), ("hold", hold.as_str())];
    let with = |more: &[(&'static str, &'static str)]| [&base[..], more].concat();
    let mut acquired = with(&[("attempts", "1"), ("wait_seconds", "0.0"), ("holds", "1")]);
    acquired.push(("fence", &fence));
    same(&told[0], "DEBUG", &acquired);
    same(&told[1], "DEBUG", &with(&[("held_seconds", "2.0"), ("how", "released")]));
    let spans = spans("plain");
    assert_eq!(words(&spans), ["acquire", "release"]);
    let mut acquire = with(&[("outcome", "acquired"), ("attempts", "1"), ("wait_seconds", "0.0")]);
    acquire.push(("fence", &fence));
    same(&spans[0], "DEBUG", &acquire);
    same(&spans[1], "DEBUG", &base);
}

#[tokio::test]
async fn who_waits_and_for_whom() {
    let (client, clock) = client(|_| ());
    let me = Owner::new();
    let number = format!("{me:?}").replace(|c: char| !c.is_ascii_digit(), "");
    let guard = client.lock("waited").acquire().await.unwrap();
    let holder = guard.id().to_string();
    let waiting = tokio::spawn({
        let lock = client.lock("waited").owner(&me);
        async move { lock.acquire().await }
    });
    until("it waits", || words(&events("waited")).contains(&"waiting")).await;
    until("it is seen in the store", || events("waited").len() == 2).await;
    clock.advance(3 * SECOND);
    guard.release().await.unwrap();
    let second = soon(waiting).await.unwrap().unwrap();
    let told = events("waited");
    assert_eq!(words(&told), ["acquired", "waiting", "released", "acquired"]);
    let base = [("name", "waited"), ("kind", "lock"), ("store", "memory"), ("behind", holder.as_str())];
    same(&told[1], "DEBUG", &base);
    let acquired = &told[3].fields;
    assert_eq!((acquired["wait_seconds"].as_str(), acquired["behind"].as_str()), ("3.0", holder.as_str()));
    assert!(acquired["attempts"].parse::<u32>().unwrap() >= 2, "{acquired:?}");
    let span = &spans("waited").into_iter().rfind(|s| s.what == "acquire").unwrap().fields;
    assert_eq!((span["owner"].as_str(), span["behind"].as_str()), (number.as_str(), holder.as_str()));
    second.release().await.unwrap();
}

#[tokio::test]
async fn the_other_outcomes_of_an_acquire() {
    let (client, _clock) = client(|_| ());
    let guard = client.lock("taken").acquire().await.unwrap();
    let lock = client.lock("taken");
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.try_acquire_for(Duration::from_millis(1)).await.unwrap().is_none());
    assert!(timeout(Duration::from_millis(1), lock.acquire()).await.is_err());
    assert!(lock.lease(Duration::ZERO).try_acquire().await.is_err());
    let told = events("taken");
    assert_eq!(words(&told), ["acquired", "busy", "waiting", "timed out", "waiting", "cancelled", "failed"]);
    let outcomes: Vec<_> =
        spans("taken").into_iter().filter_map(|s| s.fields.get("outcome").cloned()).collect();
    assert_eq!(outcomes, ["acquired", "busy", "timed out", "cancelled", "failed"]);
    let failed = &told[6].fields;
    assert_eq!(failed["error"], "a lease of 0ns is too short: 10ms at least");
    let keys: Vec<_> = told[1].fields.keys().map(String::as_str).collect();
    assert_eq!(keys, ["attempts", "behind", "kind", "name", "store", "wait_seconds"]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn renewals_and_losses() {
    let (client, clock) = client(|_| ());
    let guard = client.lock("kept").acquire().await.unwrap();
    let hold = guard.id().to_string();
    clock.advance(10 * SECOND);
    until("it is renewed", || words(&events("kept")).contains(&"renewed")).await;
    clock.advance(3600 * SECOND);
    soon(guard.lost()).await;
    assert!(guard.release().await.unwrap_err().is_lost());
    until("it is told", || words(&events("kept")).contains(&"lost")).await;
    let told = events("kept");
    assert_eq!(words(&told), ["acquired", "renewed", "lost"]);
    let base = [("name", "kept"), ("kind", "lock"), ("store", "memory"), ("hold", hold.as_str())];
    same(&told[1], "DEBUG", &[&base[..], &[("remaining_seconds", "29.698")]].concat());
    same(&told[2], "WARN", &[&base[..], &[("held_seconds", "3610.0"), ("reason", "expired")]].concat());
    let renew = SPANS.lock().unwrap().values().find(|s| s.what == "renew").cloned().unwrap();
    same(&renew, "DEBUG", &[("store", "memory"), ("holds", "1")]);
}

#[tokio::test]
async fn what_is_held_for_long_is_said_once() {
    let (client, clock) = client(|s| s.warn_held = Some(5 * SECOND));
    let guard = client.lock("long").note("nightly").acquire().await.unwrap();
    let hold = guard.id().to_string();
    clock.advance(5 * SECOND);
    until("it is said", || words(&events("long")).contains(&"held for long")).await;
    same(
        &events("long")[1],
        "WARN",
        &[
            ("name", "long"),
            ("kind", "lock"),
            ("store", "memory"),
            ("hold", &hold),
            ("note", "nightly"),
            ("held_seconds", "5.0"),
        ],
    );
    clock.advance(5 * SECOND);
    until("it is renewed", || words(&events("long")).contains(&"renewed")).await;
    drop(guard);
    let told = events("long");
    assert_eq!(words(&told), ["acquired", "held for long", "renewed", "released"]);
    assert_eq!(told[3].fields["how"], "dropped");
}

#[tokio::test]
async fn a_deadlock() {
    let (client, _clock) = client(|s| s.deadlocks = Deadlocks::Report);
    let (x, y) = (Owner::new(), Owner::new());
    let lock = |name: &str, owner| client.lock(name).owner(owner);
    let mine = lock("circle/b", &y).acquire().await.unwrap();
    let (first, then) = (lock("circle/a", &x), lock("circle/b", &x));
    let other = tokio::spawn(async move {
        let one = first.acquire().await?;
        let two = then.acquire().await?;
        two.release().await?;
        one.release().await
    });
    until("it waits", || words(&events("circle/b")).contains(&"waiting")).await;
    let error = lock("circle/a", &y).acquire().await.unwrap_err();
    mine.release().await.unwrap();
    soon(other).await.unwrap().unwrap();
    let told = events("circle/a").into_iter().find(|t| t.what == "deadlock").unwrap();
    assert_eq!(told.level, "WARN");
    assert!(error.to_string().contains(&told.fields["circle"]), "{error}");
    let keys: Vec<_> = told.fields.keys().map(String::as_str).collect();
    assert_eq!(keys, ["circle", "kind", "name", "store"]);
}
