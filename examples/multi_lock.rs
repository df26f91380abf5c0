//! Several locks as one, all or nothing: no order of names is needed, and nobody waits while holding.
//!
//! Prints:
//!     fifteen transfers in a ring: [100, 100, 100]
//!     one fence each: …

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let accounts = Arc::new([100, 100, 100].map(AtomicI64::new));

    // Each transfer needs two accounts, in its own order: a ring in which two locks in turn would block for ever.
    let mut transfers = Vec::new();
    for from in 0..3 {
        let to = (from + 1) % 3;
        let name = |n: usize| format!("examples/account/{n}");
        let both = tenure::multi([client.lock(name(from)), client.lock(name(to))]);
        let accounts = accounts.clone();
        transfers.push(tokio::spawn(async move {
            for _ in 0..5 {
                let guard = both.acquire().await?;
                let (a, b) = (accounts[from].load(Relaxed), accounts[to].load(Relaxed));
                tokio::task::yield_now().await; // another task would come between here
                accounts[from].store(a - 10, Relaxed);
                accounts[to].store(b + 10, Relaxed);
                guard.release().await?;
            }
            Ok::<(), tenure::Error>(())
        }));
    }
    for transfer in transfers {
        transfer.await.expect("no panic")?;
    }
    println!("fifteen transfers in a ring: {accounts:?}");
    assert!(accounts.iter().all(|account| account.load(Relaxed) == 100));

    let all = tenure::multi((0..3).map(|n| client.lock(format!("examples/account/{n}")))).acquire().await?;
    println!("one fence each: {:?}", all.fences());
    assert_eq!(all.fences().len(), 3);
    all.release().await?;
    client.close().await
}
