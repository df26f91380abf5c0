//! Names: which are refused, and that all others are distinguished byte for byte.

use std::collections::HashSet;
use std::sync::Arc;

use tenure::{Error, Family};

use super::Case;
use crate::harness::{Harness, done, ok, until};

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases![
        "names"; &[Family::Lock];
        invalid_names_are_refused_on_use,
        each_name_is_a_separate_lock,
        each_name_waits_for_its_own_release,
        list_returns_exactly_the_names_with_the_prefix,
    ];
    all.extend(cases!["names"; &[Family::Lock, Family::ReadWrite]; a_name_has_one_kind]);
    all.extend(cases!["names"; &[Family::Latch, Family::Count]; a_counter_has_one_kind]);
    all
}

/// Names that a careless backend would confuse.
fn names() -> Vec<String> {
    let names = [
        "a",
        "A",
        "a ",
        " a",
        "a\n",
        "\na",
        "a\t",
        "a\r",
        "a/b",
        "a/b/",
        "a//b",
        "/a",
        "a/",
        "/",
        "//",
        "ab",
        "a.b",
        "a:b",
        "a\\b",
        "a\\",
        "a-b",
        "a_b",
        "a%b",
        "a%",
        "%",
        "%25",
        "a%2Fb",
        "a*b",
        "a*",
        "*",
        "a?b",
        "?",
        "[ab]",
        "[",
        "{a}",
        "{a}b",
        "{}",
        "{",
        "}",
        "a{b",
        "'",
        "''",
        "\"",
        "`",
        "a'b",
        ";--",
        "$a",
        "~",
        ".",
        "..",
        "../a",
        "a/../b",
        " ",
        "  ",
        "\n",
        "\u{1}",
        "\u{7f}",
        "\u{e9}",
        "e\u{301}",
        "\u{fc}",
        "u\u{308}",
        "ß",
        "ss",
        "\u{212a}",
        "k",
        "K",
        "ﬁ",
        "fi",
        "鍵",
        "鍵/鍵",
        "🔒",
        "\u{200b}a",
        "a\u{200b}",
        "\u{feff}a",
        "\u{ffff}",
        "\u{10ffff}",
        "null",
        "0",
        "00",
        "0.0",
        "true",
    ];
    let mut names: Vec<String> = names.map(str::to_owned).to_vec();
    let long = "x".repeat(511);
    names.extend([
        format!("{long}y"),
        format!("{long}z"),
        long.clone(),
        long[1..].to_owned(),
        "ü".repeat(256),
    ]);
    let distinct: HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    names
}

async fn invalid_names_are_refused_on_use(harness: Arc<Harness>) {
    let client = harness.client();
    let huge = "x".repeat(1 << 20);
    for (name, says) in [
        ("", "empty"),
        (&*huge, "1048576"),
        ("x".repeat(513).as_str(), "513"),
        ("a\0b", "NUL"),
        ("\0", "NUL"),
    ] {
        let lock = client.lock(name);
        let refused = [
            lock.acquire().await.map(drop),
            lock.try_acquire().await.map(drop),
            lock.clone().fair().acquire().await.map(drop),
            client.rwlock(name).read().acquire().await.map(drop),
            client.semaphore(name, 1).acquire().await.map(drop),
            client.counting_semaphore(name).acquire(1).await.map(drop),
            client.latch(name).wait().await.map(drop),
            client.election(name).campaign().await.map(drop),
            client.election(name).observe().map(drop),
            lock.is_locked().await.map(drop),
            lock.force_release().await.map(drop),
            client.show(name).await.map(drop),
        ];
        for refused in refused {
            // A store that lacks the kind may report that first.
            if matches!(refused, Err(Error::Unsupported { .. })) {
                continue;
            }
            let Err(Error::Config(reason)) = refused else { panic!("{says}: {refused:?}") };
            assert!(reason.contains(says), "{reason}");
            assert!(reason.len() < 200, "the message repeats a huge name");
        }
    }
    assert!(ok(client.list("", 10).await).is_empty(), "something was made");
}

/// Returns the names that the store accepts; checks that it refuses the others with a reason.
async fn taken(harness: &Harness) -> Vec<String> {
    let (refused, taken): (Vec<String>, _) = names().into_iter().partition(|name| harness.refuses(name));
    let client = harness.client();
    for name in refused {
        let error = client.lock(&name).try_acquire().await.map(drop);
        assert!(matches!(&error, Err(Error::Config(why)) if why.contains("cluster")), "{name:?}: {error:?}");
    }
    taken
}

async fn each_name_is_a_separate_lock(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    let names = taken(&harness).await;
    let mut held = Vec::new();
    for name in &names {
        let guard = ok(a.lock(name).try_acquire().await);
        held.push(guard.unwrap_or_else(|| panic!("{name:?} is taken for another")));
    }
    for (name, guard) in names.iter().zip(held) {
        assert_eq!(guard.name().as_str(), name);
        // One of several nodes may lag behind, and not show it yet.
        let mine = Some(guard.id().to_string());
        until("its holder is shown", || async { ok(look.lock(name).holder().await).map(|h| h.id) == mine })
            .await;
        assert!(ok(b.lock(name).try_acquire().await).is_none(), "{name:?} is held twice");
        ok(guard.release().await);
        let again = ok(b.lock(name).try_acquire().await);
        ok(again.unwrap_or_else(|| panic!("{name:?} was not released")).release().await);
    }
}

async fn each_name_waits_for_its_own_release(harness: Arc<Harness>) {
    let (a, b, look) = (harness.client(), harness.client(), harness.observer());
    let names = ["a", "a/b", "a/", "A", "a ", "{a}", "a/b/c", "a:b", "a*"];
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in names {
        held.push(ok(a.lock(name).acquire().await));
        let lock = b.lock(name);
        waiting.push(tokio::spawn(async move { ok(lock.acquire().await) }));
    }
    for name in names {
        until("each waits", || async { ok(look.lock(name).waiters().await).len() == 1 }).await;
    }
    while let (Some(guard), Some(waits)) = (held.pop(), waiting.pop()) {
        assert!(!waits.is_finished(), "{:?} is held twice", guard.name());
        let name = guard.name().clone();
        ok(guard.release().await);
        let next = done("its own waiter gets in", waits).await;
        assert_eq!(*next.name(), name);
        for (guard, waits) in held.iter().zip(&waiting) {
            assert!(guard.is_held() && !waits.is_finished(), "{name:?} let {:?} in", guard.name());
        }
        ok(next.release().await);
    }
}

async fn list_returns_exactly_the_names_with_the_prefix(harness: Arc<Harness>) {
    let (client, look) = (harness.client(), harness.observer());
    let mut names = taken(&harness).await;
    let mut held = Vec::new();
    for name in &names {
        held.push(ok(client.lock(name).acquire().await));
    }
    names.sort();
    let mut prefixes: Vec<&str> = names.iter().map(String::as_str).collect();
    prefixes.extend(["", "b", "a%2", "a/b/c", "\u{10fffe}", "x", "鍵/", "nul"]);
    for prefix in prefixes {
        let expected: Vec<&str> =
            names.iter().map(String::as_str).filter(|n| n.starts_with(prefix)).collect();
        for limit in [1000, expected.len(), 1] {
            let seen = ok(look.list(prefix, limit).await);
            let seen: Vec<&str> = seen.iter().map(|s| s.name.as_str()).collect();
            assert_eq!(seen, expected[..limit.min(expected.len())], "prefix {prefix:?}, limit {limit}");
        }
    }
    for guard in held {
        ok(guard.release().await);
    }
    let left = ok(look.list("", 1000).await);
    assert!(left.is_empty(), "{} names are listed that nobody uses", left.len());
}

async fn a_name_has_one_kind(harness: Arc<Harness>) {
    let (a, b) = (harness.client(), harness.client());
    let held = ok(a.lock("x").acquire().await);
    let reader = b.rwlock("x").read();
    for refused in [reader.acquire().await.map(Some), reader.try_acquire().await] {
        let Err(Error::Config(reason)) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("x is in use as a lock") && reason.contains("read/write lock"), "{reason}");
    }
    assert!(held.is_held());
    ok(held.release().await);
    let held = ok(reader.acquire().await);
    let refused = a.lock("x").try_acquire().await;
    let Err(Error::Config(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("in use as a read/write lock") && reason.contains("be a lock"), "{reason}");
    ok(held.release().await);
    ok(ok(a.lock("x").try_acquire().await).expect("free").release().await);
}

async fn a_counter_has_one_kind(harness: Arc<Harness>) {
    let client = harness.client();
    assert!(ok(client.latch("x").try_set_count(1).await));
    let refused = client.counting_semaphore("x").release(1).await;
    let Err(Error::Config(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("latch") && reason.contains("counting semaphore"), "{reason}");
    let refused = client.counting_semaphore("x").acquire(1).await;
    assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    assert_eq!(ok(client.latch("x").count().await), 1);
    ok(client.latch("x").count_down().await);
    ok(client.counting_semaphore("x").release(1).await);
    assert_eq!(ok(client.counting_semaphore("x").available().await), 1);
}
