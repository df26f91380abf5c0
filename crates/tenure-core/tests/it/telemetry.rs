//! What is told through `tracing`: names and fields are promised, so that they are looked at word by word.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::{Client, Clock, Deadlocks, Memory, Owner, Settings};
use testbed::{done, until, within};

use crate::listener::{Fields, Told, all_spans, at_releases_of, events, listen, spans, words};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than it takes to begin to wait.
const A_WHILE: Duration = Duration::from_millis(150);

#[track_caller]
fn same(told: &Told, level: &str, fields: &[(&str, &str)]) {
    let fields: Fields = fields.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    assert_eq!((told.level.as_str(), &told.fields), (level, &fields), "{}", told.what);
}

async fn told(name: &str, what: &str) {
    until(&format!("{what} is told of {name}"), || async { words(&events(name)).contains(&what) }).await;
}

fn client(change: impl FnOnce(&mut Settings)) -> (Client, Clock) {
    listen();
    let clock = Clock::manual();
    let mut settings = Settings::default();
    change(&mut settings);
    (Client::with(Arc::new(Memory::with_clock(clock.clone())), settings), clock)
}

#[tokio::test]
async fn an_acquire_and_its_release() {
    let (client, clock) = client(|_| ());
    let guard = client.lock("telemetry/plain").acquire().await.unwrap();
    let (hold, fence) = (guard.id().to_string(), guard.fence().unwrap().to_string());
    clock.advance(2 * SECOND);
    guard.release().await.unwrap();
    let told = events("telemetry/plain");
    assert_eq!(words(&told), ["acquired", "released"]);
    let base = [("name", "telemetry/plain"), ("kind", "lock"), ("store", "memory"), ("hold", hold.as_str())];
    let with = |more: &[(&'static str, &'static str)]| [&base[..], more].concat();
    let mut acquired = with(&[("attempts", "1"), ("wait_seconds", "0.0"), ("holds", "1")]);
    acquired.push(("fence", &fence));
    same(&told[0], "DEBUG", &acquired);
    same(&told[1], "DEBUG", &with(&[("held_seconds", "2.0"), ("how", "released")]));
    let spans = spans("telemetry/plain");
    assert_eq!(words(&spans), ["acquire", "release"]);
    let mut acquire = with(&[("outcome", "acquired"), ("attempts", "1"), ("wait_seconds", "0.0")]);
    acquire.push(("fence", &fence));
    same(&spans[0], "DEBUG", &acquire);
    same(&spans[1], "DEBUG", &base);
}

/// A program that closes its client, and then what exports its spans, exports all of them.
#[tokio::test]
async fn the_span_of_a_release_ends_before_the_client_is_closed() {
    let (client, _clock) = client(|_| ());
    let ended = Arc::new(AtomicBool::new(false));
    at_releases_of("telemetry/dropped", {
        let ended = ended.clone();
        move || {
            std::thread::sleep(A_WHILE);
            ended.store(true, SeqCst);
        }
    });
    drop(client.lock("telemetry/dropped").acquire().await.unwrap());
    client.close().await.unwrap();
    assert!(ended.load(SeqCst));
}

#[tokio::test]
async fn waiting_names_the_holder() {
    let (client, clock) = client(|_| ());
    let me = Owner::new();
    let number = format!("{me:?}").replace(|c: char| !c.is_ascii_digit(), "");
    let guard = client.lock("telemetry/waited").acquire().await.unwrap();
    let holder = guard.id().to_string();
    let waiting = tokio::spawn({
        let lock = client.lock("telemetry/waited").owner(&me);
        async move { lock.acquire().await }
    });
    told("telemetry/waited", "waiting").await;
    clock.advance(3 * SECOND);
    guard.release().await.unwrap();
    let second = done("the second", waiting).await.unwrap();
    let told = events("telemetry/waited");
    assert_eq!(words(&told), ["acquired", "waiting", "released", "acquired"]);
    let base =
        [("name", "telemetry/waited"), ("kind", "lock"), ("store", "memory"), ("behind", holder.as_str())];
    same(&told[1], "DEBUG", &base);
    let acquired = &told[3].fields;
    assert_eq!((acquired["wait_seconds"].as_str(), acquired["behind"].as_str()), ("3.0", holder.as_str()));
    assert!(acquired["attempts"].parse::<u32>().unwrap() >= 2, "{acquired:?}");
    let span = &spans("telemetry/waited").into_iter().rfind(|s| s.what == "acquire").unwrap().fields;
    assert_eq!((span["owner"].as_str(), span["behind"].as_str()), (number.as_str(), holder.as_str()));
    second.release().await.unwrap();
}

#[tokio::test]
async fn the_other_outcomes_of_an_acquire() {
    let (client, _clock) = client(|_| ());
    let guard = client.lock("telemetry/taken").acquire().await.unwrap();
    let lock = client.lock("telemetry/taken");
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.try_acquire_for(A_WHILE).await.unwrap().is_none());
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    let waits = || words(&events("telemetry/taken")).iter().filter(|w| **w == "waiting").count();
    until("it waits", || async { waits() == 2 }).await;
    waiting.abort();
    assert!(within("it is cancelled", waiting).await.unwrap_err().is_cancelled());
    assert!(lock.lease(Duration::ZERO).try_acquire().await.is_err());
    let told = events("telemetry/taken");
    assert_eq!(words(&told), ["acquired", "busy", "waiting", "timed out", "waiting", "cancelled", "failed"]);
    let outcomes: Vec<_> =
        spans("telemetry/taken").into_iter().filter_map(|s| s.fields.get("outcome").cloned()).collect();
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
    let guard = client.lock("telemetry/kept").acquire().await.unwrap();
    let hold = guard.id().to_string();
    clock.advance(10 * SECOND);
    told("telemetry/kept", "renewed").await;
    clock.advance(3600 * SECOND);
    within("it is lost", guard.lost()).await;
    assert!(guard.release().await.unwrap_err().is_lost());
    told("telemetry/kept", "lost").await;
    let told = events("telemetry/kept");
    assert_eq!(words(&told), ["acquired", "renewed", "lost"]);
    let base = [("name", "telemetry/kept"), ("kind", "lock"), ("store", "memory"), ("hold", hold.as_str())];
    same(&told[1], "DEBUG", &[&base[..], &[("remaining_seconds", "29.698")]].concat());
    same(&told[2], "WARN", &[&base[..], &[("held_seconds", "3610.0"), ("reason", "expired")]].concat());
    // It is about no name. Others renew theirs at the same time, and some of them two at once.
    let renewals: Vec<_> = all_spans().into_iter().filter(|s| s.what == "renew").collect();
    let one = renewals.iter().find(|s| s.fields.get("holds").is_some_and(|holds| holds == "1"));
    let mut one = one.unwrap().clone();
    assert!(one.fields.remove("seconds").unwrap().parse::<f64>().unwrap() >= 0.0);
    same(&one, "DEBUG", &[("store", "memory"), ("holds", "1")]);
}

#[tokio::test]
async fn a_long_hold_is_warned_about_once() {
    let (client, clock) = client(|s| s.warn_held = Some(5 * SECOND));
    let guard = client.lock("telemetry/long").note("nightly").acquire().await.unwrap();
    let hold = guard.id().to_string();
    clock.advance(5 * SECOND);
    told("telemetry/long", "held for long").await;
    same(
        &events("telemetry/long")[1],
        "WARN",
        &[
            ("name", "telemetry/long"),
            ("kind", "lock"),
            ("store", "memory"),
            ("hold", &hold),
            ("note", "nightly"),
            ("held_seconds", "5.0"),
        ],
    );
    clock.advance(5 * SECOND);
    told("telemetry/long", "renewed").await;
    drop(guard);
    let told = events("telemetry/long");
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
    told("circle/b", "waiting").await;
    let error = within("it is told", lock("circle/a", &y).acquire()).await.unwrap_err();
    mine.release().await.unwrap();
    done("the other", other).await.unwrap();
    let told = events("circle/a").into_iter().find(|t| t.what == "deadlock").unwrap();
    assert_eq!(told.level, "WARN");
    assert!(error.to_string().contains(&told.fields["circle"]), "{error}");
    let keys: Vec<_> = told.fields.keys().map(String::as_str).collect();
    assert_eq!(keys, ["circle", "kind", "name", "store"]);
}
