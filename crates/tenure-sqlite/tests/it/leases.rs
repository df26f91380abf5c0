//! Leases after a reboot, fences after restarts and sweeps, sweeps and unreadable rows, registration of watchers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::{Attempt, Query, Renewal};
use tenure_core::{Backend, Claim, Client, ClientId, Clock, Error, Fence, HoldId, Kind, Name};
use tenure_sqlite::{Options, Sqlite};
use testbed::until;

use crate::support::{client, fresh};

const LEASE: Duration = Duration::from_secs(10);

fn on_boot(path: &Path, boot: u128) -> (Sqlite, Clock) {
    let clock = Clock::manual();
    (with_clock(path, boot, &clock), clock)
}

fn with_clock(path: &Path, boot: u128, clock: &Clock) -> Sqlite {
    let mut options = Options::default();
    options.clock = Some(clock.clone());
    options.boot_id = Some(boot);
    tenure_sqlite::open(path, options).unwrap()
}

fn claim(name: &str) -> Claim {
    let id = HoldId { client: ClientId::new(), n: 1 };
    Claim { lease: LEASE, holds: 1, ..Claim::of(id, Name::new(name).unwrap(), Kind::Lock) }
}

async fn is_busy(store: &Sqlite, claim: &Claim) -> bool {
    matches!(store.try_acquire(claim).await.unwrap(), Attempt::Busy { .. })
}

#[tokio::test]
async fn a_hold_of_another_boot_lasts_for_one_full_lease() {
    let (_folder, path) = fresh();
    let (before, _) = on_boot(&path, 1);
    assert!(!is_busy(&before, &claim("x")).await);
    drop(before);

    let (after, clock) = on_boot(&path, 2);
    // However long after the boot.
    clock.advance(Duration::from_secs(1000));
    let mine = claim("x");
    match after.try_acquire(&mine).await.unwrap() {
        Attempt::Busy { retry_after, .. } => assert_eq!(retry_after, Some(LEASE), "not void, and not longer"),
        other => panic!("{other:?}"),
    }
    clock.advance(LEASE - Duration::from_millis(1));
    drop(after);
    let after = with_clock(&path, 2, &clock);
    assert!(is_busy(&after, &mine).await, "the term was noted in the file");
    clock.advance(Duration::from_millis(1));
    assert!(!is_busy(&after, &mine).await, "and was given once");
}

#[tokio::test]
async fn two_kernels_on_one_file_exclude_each_other_while_the_holder_renews() {
    let (_folder, path) = fresh();
    let ((one, clock_one), (two, clock_two)) = (on_boot(&path, 1), on_boot(&path, 2));
    clock_two.advance(Duration::from_secs(86_400));
    let (held, wanted) = (Arc::new(claim("x")), claim("x"));
    assert!(!is_busy(&one, &held).await);
    for _ in 0..10 {
        clock_one.advance(LEASE / 3);
        clock_two.advance(LEASE / 3);
        assert!(is_busy(&two, &wanted).await);
        assert!(matches!(one.renew(std::slice::from_ref(&held)).await.unwrap()[..], [Renewal::Held { .. }]));
    }
    assert!(is_busy(&two, &wanted).await);
    clock_two.advance(LEASE);
    assert!(!is_busy(&two, &wanted).await, "a holder that renews no more is gone one lease later");
    assert_eq!(one.renew(&[held]).await.unwrap(), [Renewal::Gone]);
}

async fn fence_of(client: &Client, name: &str) -> Fence {
    let guard = client.lock(name).acquire().await.unwrap();
    let fence = guard.fence().unwrap();
    guard.release().await.unwrap();
    fence
}

/// Raises the last fence of `name` to one that no clock shows for a long time.
fn raise_fence(path: &Path, name: &str, to: i64) {
    let file = rusqlite::Connection::open(path).unwrap();
    file.busy_timeout(testbed::PATIENCE).unwrap();
    let changed =
        file.execute("UPDATE ledgers SET fence = ?2 WHERE name = ?1 AND body IS NULL", (name, to)).unwrap();
    assert_eq!(changed, 1, "an idle name keeps its row");
}

#[tokio::test]
async fn fences_grow_over_restarts_with_the_clock_set_back() {
    let (_folder, path) = fresh();
    fence_of(&client(&path), "x").await;
    let ahead = 4_000_000_000_000_000;
    raise_fence(&path, "x", ahead);
    assert_eq!(fence_of(&client(&path), "x").await, Fence(ahead as u64 + 1));
    assert_eq!(fence_of(&client(&path), "x").await, Fence(ahead as u64 + 2));
}

#[tokio::test]
async fn fences_grow_over_sweeps_and_what_is_in_use_stays() {
    let (_folder, path) = fresh();
    let mut options = Options::default();
    options.sweep_every = Some(1);
    let swept = Client::new(tenure_sqlite::open(&path, options).unwrap());
    let held = swept.lock("held").note("still here").acquire().await.unwrap();
    fence_of(&swept, "x").await;
    let ahead = 4_000_000_000_000_000;
    raise_fence(&path, "x", ahead);
    // Each new name sweeps. The walk over the names may have to begin anew.
    fence_of(&swept, "y").await;
    fence_of(&swept, "z").await;
    let file = rusqlite::Connection::open(&path).unwrap();
    let rows: i64 =
        file.query_row("SELECT count(*) FROM ledgers WHERE name = 'x'", [], |r| r.get(0)).unwrap();
    assert_eq!(rows, 0, "the row is gone");
    assert!(fence_of(&swept, "x").await > Fence(ahead as u64), "its fence is not");
    assert!(held.is_held());
    assert_eq!(swept.show("held").await.unwrap().unwrap().holders[0].note.as_deref(), Some("still here"));
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_long_walk_sweeps_every_row_in_the_end() {
    let (_folder, path) = fresh();
    let client = client(&path);
    {
        let mut file = rusqlite::Connection::open(&path).unwrap();
        let all = file.transaction().unwrap();
        for n in 0..5000 {
            all.execute("INSERT INTO ledgers (name, fence) VALUES (?1, ?2)", (format!("old/{n}"), n))
                .unwrap();
        }
        all.commit().unwrap();
    }
    assert!(client.list("", 10_000).await.unwrap().is_empty(), "idle names are not in use");
    let mut options = Options::default();
    options.sweep_every = Some(1);
    let swept = Client::new(tenure_sqlite::open(&path, options).unwrap());
    for n in 0..6 {
        fence_of(&swept, &format!("new/{n}")).await;
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    let rows: i64 =
        file.query_row("SELECT count(*) FROM ledgers WHERE name LIKE 'old/%'", [], |r| r.get(0)).unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_in_nobody_elses_way() {
    let (_folder, path) = fresh();
    let mut options = Options::default();
    options.sweep_every = Some(1);
    let swept = Client::new(tenure_sqlite::open(&path, options).unwrap());
    let guards = [swept.lock("od").acquire().await.unwrap(), swept.lock("of").acquire().await.unwrap()];
    let file = rusqlite::Connection::open(&path).unwrap();
    file.busy_timeout(testbed::PATIENCE).unwrap();
    file.execute("INSERT INTO ledgers (name, fence, body) VALUES ('odd', 1, '{'), ('old', 1, NULL)", [])
        .unwrap();

    assert!(swept.show("od").await.unwrap().is_some(), "its neighbour");
    let listed = swept.list("", 10).await.unwrap();
    assert_eq!(listed.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["od", "of"]);
    match swept.show("odd").await {
        Err(Error::Config(why)) => assert!(why.contains("ledger of odd cannot be read"), "{why}"),
        other => panic!("{other:?}"),
    }
    // Each new name sweeps. The walk over the names may have to begin anew.
    fence_of(&swept, "y").await;
    fence_of(&swept, "z").await;
    let rows = |name: &str| {
        file.query_row("SELECT count(*) FROM ledgers WHERE name = ?1", [name], |r| r.get::<_, i64>(0))
    };
    assert_eq!((rows("old"), rows("odd")), (Ok(0), Ok(1)), "behind it is swept, and it stays");
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn holds_beside_an_unreadable_row_are_renewed() {
    let (_folder, path) = fresh();
    let (store, _) = on_boot(&path, 1);
    let claims = ["before", "odd", "still"].map(|name| Arc::new(claim(name)));
    for claim in &claims {
        assert!(!is_busy(&store, claim).await);
    }
    let file = rusqlite::Connection::open(&path).unwrap();
    file.busy_timeout(testbed::PATIENCE).unwrap();
    file.execute("UPDATE ledgers SET body = '{' WHERE name = 'odd'", []).unwrap();
    let renewed = store.renew(&claims).await.unwrap();
    assert!(
        matches!(renewed[..], [Renewal::Held { .. }, Renewal::Gone, Renewal::Held { .. }]),
        "what the store cannot show is lost, and nothing else: {renewed:?}"
    );
    let body: String =
        file.query_row("SELECT body FROM ledgers WHERE name = 'odd'", [], |r| r.get(0)).unwrap();
    assert_eq!(body, "{", "left for people to look at");
}

#[tokio::test]
async fn names_are_listed_in_order_by_prefix() {
    let (_folder, path) = fresh();
    let client = client(&path);
    let mut guards = Vec::new();
    for name in ["b/2", "b/10", "a", "b/1", "c", "b%"] {
        guards.push(client.lock(name).acquire().await.unwrap());
    }
    fence_of(&client, "b/idle").await;
    let names = async |prefix: &str, limit| {
        let query = Query::Prefix { prefix: prefix.to_owned(), limit, idle: true };
        let found = client.backend().require_admin().unwrap().inspect(query).await.unwrap();
        found.into_iter().map(|s| s.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("b/", 10).await, ["b/1", "b/10", "b/2"]);
    assert_eq!(names("", 3).await, ["a", "b%", "b/1"]);
    assert_eq!(names("d", 3).await, [""; 0]);
}

#[tokio::test]
async fn a_waiter_that_does_not_listen_yet_keeps_its_queue_position() {
    let (_folder, path) = fresh();
    let (store, clock) = on_boot(&path, 1);
    let holder = Client::new(store);
    let guard = holder.lock("x").fair().acquire().await.unwrap();
    let other = with_clock(&path, 1, &clock);
    let queued = Claim { kind: Kind::FairLock, wait: Some(LEASE), stamp: LEASE, ..claim("x") };
    assert!(is_busy(&other, &queued).await);
    guard.release().await.unwrap();
    let waiters = holder.lock("x").waiters().await.unwrap();
    assert_eq!(waiters.iter().map(|w| &w.id).collect::<Vec<_>>(), [&queued.id.to_string()]);
    // What it left behind ends with its stamp.
    drop(other);
    let third = Claim { kind: Kind::FairLock, wait: Some(LEASE), stamp: LEASE * 10, ..claim("x") };
    let store = with_clock(&path, 1, &clock);
    clock.advance(LEASE - Duration::from_millis(1));
    assert!(is_busy(&store, &third).await);
    clock.advance(Duration::from_millis(1));
    assert!(!is_busy(&store, &third).await, "it waits for one that is gone");
}

#[tokio::test]
async fn a_watcher_stays_known_for_as_long_as_it_waits() {
    let (_folder, path) = fresh();
    let client = client(&path);
    let pool = client.counting_semaphore("pool");
    let waiting = tokio::spawn(async move { pool.acquire(1).await });
    let file = rusqlite::Connection::open(&path).unwrap();
    let ends = || {
        let sql = "SELECT json_extract(body, '$.watchers[0].expiry.at') FROM ledgers WHERE name = 'pool'";
        file.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).ok().flatten()
    };
    until("watched", || async { ends().is_some() }).await;
    let first = ends();
    until("watched for longer", || async { ends() > first }).await;
    waiting.abort();
}
