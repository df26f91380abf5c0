//! A lost lock: work stops when the lock is gone, by itself or where you say so.
//!
//! Prints:
//!     while_held: …its lease ended … ago
//!     select!: …its lease ended … ago
//!     … left, enough for ten milliseconds, not for ten seconds

use std::time::Duration;

use tenure::LostReason;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let lock = client.lock("examples/report").lease(Duration::from_millis(300)); // never renewed
    let for_ever = std::future::pending::<()>;

    // The work is dropped when the lock is lost.
    let guard = lock.acquire().await?;
    let error = guard.while_held(for_ever()).await.expect_err("it cannot be done in time");
    println!("while_held: {error}");
    assert!(error.is_lost() && !guard.is_held());
    drop(guard);

    // Or you decide what to do then.
    let guard = lock.acquire().await?;
    let lost = tokio::select! {
        lost = guard.lost() => lost,
        () = for_ever() => unreachable!(),
    };
    println!("select!: {lost}");
    assert_eq!(lost.reason, LostReason::Expired);

    // Before an effect that takes long, ask whether there is time for it.
    let guard = lock.acquire().await?;
    assert!(guard.ensure(Duration::from_millis(10)).is_ok());
    assert!(guard.ensure(Duration::from_secs(10)).is_err());
    println!("{:?} left, enough for ten milliseconds, not for ten seconds", guard.remaining());
    guard.release().await?;
    client.close().await
}
