//! A counting semaphore: a plain number. Whoever takes may be another than who gives back, and nothing comes back by
//! itself.
//!
//! Prints:
//!     both taken
//!     one was given back, and went to the one who waited
//!     five more: 5 available

use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let tickets = client.counting_semaphore("examples/tickets");

    tickets.delete().await?;
    assert!(tickets.try_set(2).await?, "set once …");
    assert!(!tickets.try_set(99).await?, "… by whoever comes first");

    tickets.acquire(2).await?;
    assert!(!tickets.try_acquire(1).await?);
    println!("both taken");

    let buyer = tokio::spawn({
        let tickets = tickets.clone();
        async move { tickets.try_acquire_for(1, Duration::from_secs(10)).await }
    });
    tickets.release(1).await?;
    assert!(buyer.await.expect("no panic")?);
    println!("one was given back, and went to the one who waited");

    tickets.add(5).await?;
    println!("five more: {} available", tickets.available().await?);
    assert_eq!(tickets.drain().await?, 5);
    assert_eq!(tickets.available().await?, 0);
    tickets.delete().await?;
    client.close().await
}
