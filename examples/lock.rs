//! A lock: many tasks add to a number that nothing else protects.
//!
//!     cargo run --example lock -- sqlite:/tmp/locks.db
//!
//! Prints:
//!     8 tasks added 10 each: 80
//!     held by …, others are told so

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let lock = client.lock("examples/lock");
    let number = Arc::new(AtomicU64::new(0));

    let add = |lock: tenure::Lock, number: Arc<AtomicU64>| async move {
        for _ in 0..10 {
            let guard = lock.acquire().await?; // waits; renewed until released
            let seen = number.load(Relaxed);
            tokio::task::yield_now().await; // another task would come between here
            number.store(seen + 1, Relaxed);
            guard.release().await?;
        }
        Ok::<(), tenure::Error>(())
    };
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(add(lock.clone(), number.clone()))).collect();
    for task in tasks {
        task.await.expect("no panic")?;
    }
    println!("8 tasks added 10 each: {}", number.load(Relaxed));
    assert_eq!(number.load(Relaxed), 80);

    let guard = lock.acquire().await?;
    assert!(lock.try_acquire().await?.is_none(), "does not wait");
    assert!(lock.try_acquire_for(Duration::from_millis(50)).await?.is_none(), "waits a little");
    println!("held by {:?}, others are told so", lock.holder().await?.map(|h| h.id));
    guard.release().await?;
    assert!(!lock.is_locked().await?);
    client.close().await
}
