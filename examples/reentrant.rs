//! Re-entrance: an owner enters again what it holds. Without one, each acquire is somebody else.
//!
//! Prints:
//!     entered 2 times, fence … both times
//!     a function that locks by itself was entry number 2

use tenure::{Client, Owner, Result};

/// Takes the lock itself, whether or not its caller has it.
async fn transfer(client: &Client) -> Result<u32> {
    let guard = client.lock("examples/account").acquire().await?;
    let holds = guard.reentry_count();
    guard.release().await?;
    Ok(holds)
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let lock = client.lock("examples/account");

    // One owner by name …
    let me = Owner::new();
    let mine = lock.clone().owner(&me);
    let outer = mine.acquire().await?;
    let inner = mine.acquire().await?;
    println!("entered {} times, fence {:?} both times", inner.reentry_count(), inner.fence());
    assert_eq!((inner.reentry_count(), inner.fence()), (2, outer.fence()));
    assert!(lock.try_acquire().await?.is_none(), "anyone else stays outside");
    inner.release().await?;
    assert!(outer.is_held(), "one guard is left");
    outer.release().await?;

    // … or one for everything inside a scope.
    let holds = me
        .scope(async {
            let outer = lock.acquire().await?;
            let holds = transfer(&client).await?;
            outer.release().await?;
            Ok::<u32, tenure::Error>(holds)
        })
        .await?;
    println!("a function that locks by itself was entry number {holds}");
    assert_eq!(holds, 2);
    client.close().await
}
