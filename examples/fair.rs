//! A fair lock: served in the order of asking, across all tasks and processes.
//!
//! Prints:
//!     5 wait in a queue
//!     served in this order: [0, 1, 2, 3, 4]

use std::sync::{Arc, Mutex};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let lock = client.lock("examples/fair").fair();
    let served = Arc::new(Mutex::new(Vec::new()));

    let first = lock.acquire().await?;
    let mut tasks = Vec::new();
    for n in 0..5 {
        let (lock, served) = (lock.clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await?;
            served.lock().unwrap().push(n);
            guard.release().await
        }));
        // The next one asks when this one has its place.
        while client.lock("examples/fair").waiters().await?.len() <= n {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    println!("{} wait in a queue", lock.waiters().await?.len());
    first.release().await?;
    for task in tasks {
        task.await.expect("no panic")?;
    }
    println!("served in this order: {:?}", served.lock().unwrap());
    assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4]);
    client.close().await
}
