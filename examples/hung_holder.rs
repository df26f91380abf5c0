//! A holder that hangs: its process lives, so its lock is renewed for ever, unless `max_hold` ends it.
//!
//!     cargo run -p tenure --example hung_holder -- redis://localhost
//!
//! Prints:
//!     renewed again and again: it would be so for ever
//!     ended: …held longer than max_hold
//!     the next one is in

use std::future::pending;
use std::time::Duration;

use tenure::{Error, Guard, LostReason, Settings};

/// Returns when a lease has been renewed: what remains of it grows only by that.
async fn renewed(guard: &Guard) {
    let mut left = guard.remaining();
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = guard.remaining();
        if now > left {
            return;
        }
        left = now;
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let mut settings = Settings::default();
    settings.lease = Duration::from_secs(6); // short, so that renewals are seen: every two seconds
    let client = tenure::connect_with(&url, settings).await?;
    let lock = client.lock("examples/import");

    // Waits for an answer that never comes. The lock is renewed all the while.
    let hung = lock.acquire().await?;
    tokio::select! {
        lost = hung.while_held(pending::<()>()) => lost?,
        () = async { renewed(&hung).await; renewed(&hung).await } => {}
    }
    println!("renewed again and again: it would be so for ever");
    hung.release().await?;

    // With a limit the work is dropped, and the next one gets in, although nobody has died.
    let hung = lock.clone().max_hold(Duration::from_secs(1)).acquire().await?;
    let next = tokio::spawn(async move { lock.acquire().await });
    let error = hung.while_held(pending::<()>()).await.expect_err("it hangs");
    println!("ended: {error}");
    assert!(matches!(&error, Error::Lost(lost) if lost.reason == LostReason::MaxHold), "{error}");

    let next = next.await.expect("no panic")?;
    println!("the next one is in");
    assert!(next.fence() > hung.fence());
    next.release().await?;
    client.close().await
}
