//! A read/write lock: readers share it, a writer has it alone, and a writer may become a reader.
//!
//! Prints:
//!     2 readers at once
//!     no writer while they read
//!     no reader while one writes
//!     the writer became a reader, without letting another writer in between

use std::time::Duration;

use tenure::Owner;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let stock = client.rwlock("examples/stock");

    let (one, two) = (stock.read().acquire().await?, stock.read().acquire().await?);
    println!("{} readers at once", stock.holders().await?.len());
    assert_eq!(stock.holders().await?.len(), 2);
    assert!(stock.write().try_acquire_for(Duration::from_millis(50)).await?.is_none());
    println!("no writer while they read");
    one.release().await?;
    two.release().await?;

    let me = Owner::new();
    let write = stock.write().owner(&me).acquire().await?;
    assert!(stock.read().try_acquire().await?.is_none());
    println!("no reader while one writes");

    let read = stock.read().owner(&me).acquire().await?;
    write.release().await?;
    println!("the writer became a reader, without letting another writer in between");
    let other = stock.read().try_acquire().await?.expect("readers share");
    assert!(stock.write().try_acquire().await?.is_none());
    other.release().await?;
    read.release().await?;
    client.close().await
}
