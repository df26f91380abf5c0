//! A semaphore: never more than three at once, however many processes take part. Permits have leases, so those of a
//! process that died come back.
//!
//! Prints:
//!     nine downloads, 3 at once at most
//!     two taken, 1 left

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let slots = client.semaphore("examples/downloads", 3);
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));

    let mut tasks = Vec::new();
    for _ in 0..9 {
        let (slots, inside, most) = (slots.clone(), inside.clone(), most.clone());
        tasks.push(tokio::spawn(async move {
            let permit = slots.acquire().await?;
            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            inside.fetch_sub(1, SeqCst);
            permit.release().await
        }));
    }
    for task in tasks {
        task.await.expect("no panic")?;
    }
    println!("nine downloads, {} at once at most", most.load(SeqCst));
    assert!(most.load(SeqCst) <= 3);

    let two = slots.acquire_many(2).await?;
    assert!(slots.try_acquire_many(2).await?.is_none());
    println!("two taken, {} left", slots.available().await?);
    assert_eq!(slots.available().await?, 1);
    two.release().await?;

    slots.resize(5).await?; // for all, until it is resized again
    assert_eq!(slots.available().await?, 5);
    slots.forget_size().await?;
    client.close().await
}
