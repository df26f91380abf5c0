//! Work under a hold in one call, minimum times, and work that is done once in a period.

use std::sync::Arc;
use std::time::Instant;

use tenure::{Error, Family, LostReason, Result};

use super::Case;
use crate::harness::{FAR, Harness, SHORT, ok, until, within};

pub(super) fn cases() -> Vec<Case> {
    const NEEDS: &[Family] = &[Family::Lock];
    cases!["work"; NEEDS;
        run_holds_and_releases,
        run_returns_the_error_of_its_work_and_releases,
        run_drops_its_work_when_it_is_lost,
        try_run_does_not_wait,
        a_minimum_outlives_guard_and_client,
        a_minimum_outlives_a_process_that_dies,
        a_minimum_outlives_a_client_that_is_closed_under_it,
        a_minimum_ends,
        a_multi_lock_keeps_its_minimum_only_when_it_is_complete,
        once_is_done_once,
        failed_work_does_not_count,
        work_that_asks_for_itself_is_refused,
    ]
}

async fn run_holds_and_releases(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let lock = client.lock("x");
    let seen = lock.run(async |held| {
        let is_busy = other.lock("x").try_acquire().await?.is_none();
        Result::Ok((is_busy, held.is_held()))
    });
    assert_eq!(ok(seen.await), (true, true));
    ok(ok(other.lock("x").try_acquire().await).expect("free").release().await);
}

async fn run_returns_the_error_of_its_work_and_releases(harness: Arc<Harness>) {
    #[derive(Debug)]
    enum App {
        Tenure(Error),
        OutOfStock,
    }
    impl From<Error> for App {
        fn from(error: Error) -> Self {
            Self::Tenure(error)
        }
    }
    let client = harness.client();
    let ran = client.lock("x").run(async |_| Err::<(), _>(App::OutOfStock)).await;
    assert!(matches!(ran, Err(App::OutOfStock)), "{ran:?}");
    ok(ok(harness.client().lock("x").try_acquire().await).expect("free").release().await);
    let wrong = client.lock("").run(async |_| Err::<(), _>(App::OutOfStock)).await;
    assert!(matches!(wrong, Err(App::Tenure(Error::Config(_)))), "{wrong:?}");
}

async fn run_drops_its_work_when_it_is_lost(harness: Arc<Harness>) {
    let lock = harness.client().lock("x").max_hold(SHORT);
    let lost = within("it is lost", lock.run(async |_| std::future::pending::<Result<()>>().await)).await;
    match lost {
        Err(Error::Lost(lost)) => assert_eq!(lost.reason, LostReason::MaxHold),
        other => panic!("{other:?}"),
    }
    ok(ok(within("free", harness.client().lock("x").acquire()).await).release().await);
}

async fn try_run_does_not_wait(harness: Arc<Harness>) {
    let (client, other) = (harness.client(), harness.client());
    let held = ok(client.lock("x").acquire().await);
    assert_eq!(ok(other.lock("x").try_run(async |_| Result::Ok(1)).await), None);
    ok(held.release().await);
    assert_eq!(ok(other.lock("x").try_run(async |_| Result::Ok(2)).await), Some(2));
    assert_eq!(ok(other.lock("x").try_run_for(FAR, async |_| Result::Ok(3)).await), Some(3));
}

/// Whether the store cannot keep a hold without its process: then it must say so.
async fn is_refused(harness: &Harness) -> bool {
    if harness.has_sessions() {
        let client = harness.client();
        let refused = client.lock("x").at_least(SHORT).try_acquire().await;
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
        let refused = client.once("x", SHORT).run(async |_| Result::Ok(())).await;
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
        return true;
    }
    false
}

async fn a_minimum_outlives_guard_and_client(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let (client, other) = (harness.client(), harness.client());
    let guard = ok(client.lock("x").at_least(FAR).acquire().await);
    let id = guard.id();
    ok(guard.release().await);
    drop(ok(client.lock("y").at_least(FAR).acquire().await));
    ok(client.close().await);
    for name in ["x", "y"] {
        assert!(ok(other.lock(name).try_acquire().await).is_none(), "{name} is kept");
        let holder = ok(harness.observer().lock(name).holder().await).expect("held");
        assert!(harness.remaining_lease(&holder).is_some_and(|left| left > FAR * 9 / 10), "{holder:?}");
        assert!(name != "x" || holder.hold_id() == Some(id));
        assert!(ok(other.lock(name).force_release().await));
        ok(ok(other.lock(name).try_acquire().await).expect("free").release().await);
    }
}

/// Checks that the store keeps it for long, and takes it away.
async fn is_kept(harness: &Harness, name: &str) {
    assert!(ok(harness.client().lock(name).try_acquire().await).is_none(), "{name} is kept");
    let holder = ok(harness.observer().lock(name).holder().await).expect("held");
    assert!(harness.remaining_lease(&holder).is_some_and(|left| left > FAR * 9 / 10), "{holder:?}");
    assert!(ok(harness.observer().lock(name).force_release().await));
}

async fn a_minimum_outlives_a_process_that_dies(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let client = harness.client_with(harness.renewing_settings());
    // What a killed process leaves in the store is what is there while its guard lives.
    std::mem::forget(ok(client.lock("x").at_least(FAR).acquire().await));
    is_kept(&harness, "x").await;
    let guard = ok(client.lock("y").acquire().await);
    ok(guard.keep_at_least(FAR));
    until("the store is told", || async {
        let holder = ok(harness.observer().lock("y").holder().await).expect("held");
        harness.remaining_lease(&holder).is_some_and(|left| left > FAR * 9 / 10)
    })
    .await;
    std::mem::forget(guard);
    is_kept(&harness, "y").await;
}

async fn a_minimum_outlives_a_client_that_is_closed_under_it(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let client = harness.client_with(harness.renewing_settings());
    let guard = ok(client.lock("x").at_least(FAR).acquire().await);
    ok(client.close().await);
    assert!(guard.release().await.unwrap_err().is_lost());
    is_kept(&harness, "x").await;
}

async fn a_minimum_ends(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let (client, other) = (harness.client(), harness.client());
    let start = Instant::now();
    ok(ok(client.lock("x").at_least(SHORT).acquire().await).release().await);
    let next = ok(within("its minimum ends", other.lock("x").acquire()).await);
    assert!(start.elapsed() >= SHORT, "taken within the minimum");
    ok(next.release().await);
}

async fn a_multi_lock_keeps_its_minimum_only_when_it_is_complete(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let (client, other) = (harness.client(), harness.client());
    let both = || tenure::multi(["x", "y"].map(|name| client.lock(name).at_least(FAR)));
    let held = ok(other.lock("y").acquire().await);
    assert!(ok(both().try_acquire().await).is_none());
    ok(ok(other.lock("x").acquire().await).release().await);
    ok(held.release().await);
    ok(ok(both().try_acquire().await).expect("free").release().await);
    for name in ["x", "y"] {
        assert!(ok(other.lock(name).try_acquire().await).is_none(), "{name} is kept");
        assert!(ok(other.lock(name).force_release().await));
    }
}

async fn once_is_done_once(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let (client, other) = (harness.client(), harness.client());
    assert_eq!(ok(client.once("x", FAR).run(async |_| Result::Ok("done")).await), Some("done"));
    assert_eq!(ok(client.once("x", FAR).run(async |_| Result::Ok("again")).await), None);
    ok(client.close().await);
    assert_eq!(ok(other.once("x", FAR).run(async |_| Result::Ok("again")).await), None);
    assert!(ok(other.lock("x").force_release().await));
    assert_eq!(ok(other.once("x", SHORT).run(async |_| Result::Ok("again")).await), Some("again"));
    ok(ok(within("the period ends", other.lock("x").acquire()).await).release().await);
}

async fn failed_work_does_not_count(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let client = harness.client();
    let failed = client.once("x", FAR).run(async |_| Err::<(), _>(Error::Closed)).await;
    assert_eq!(failed, Err(Error::Closed));
    assert_eq!(ok(client.once("x", SHORT).run(async |_| Result::Ok(1)).await), Some(1));
    let failed = client.once("y", FAR).at_least(FAR).run(async |_| Err::<(), _>(Error::Closed)).await;
    assert_eq!(failed, Err(Error::Closed));
    assert_eq!(ok(client.once("y", FAR).run(async |_| Result::Ok(1)).await), None, "it has a minimum");
    assert!(ok(client.lock("y").force_release().await));
}

async fn work_that_asks_for_itself_is_refused(harness: Arc<Harness>) {
    if is_refused(&harness).await {
        return;
    }
    let client = harness.client();
    let report = client.once("x", SHORT);
    let inner =
        tenure::Owner::new().scope(report.run(async |_| report.run(async |_| Result::Ok(())).await)).await;
    assert_eq!(ok(inner), Some(None));
}
