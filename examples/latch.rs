//! A count-down latch: wait until three others are ready.
//!
//! Prints:
//!     worker 1 is ready
//!     worker 2 is ready
//!     worker 3 is ready
//!     all are ready

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let ready = client.latch("examples/ready");

    ready.delete().await?;
    assert!(ready.try_set_count(3).await?);
    assert!(!ready.try_wait_for(Duration::from_millis(20)).await?, "not yet");

    let mut workers = Vec::new();
    for n in 1..=3 {
        let ready = ready.clone();
        workers.push(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(5 * n)).await;
            println!("worker {n} is ready");
            ready.count_down().await
        }));
    }
    ready.wait().await?;
    println!("all are ready");
    assert_eq!(ready.count().await?, 0);
    for worker in workers {
        worker.await.expect("no panic")?;
    }
    client.close().await
}
