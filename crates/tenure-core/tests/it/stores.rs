//! What stores in memory share: nothing, unless it is one store.

use std::sync::Arc;

use tenure_core::{Client, Memory, Settings};

/// H8. Each store in memory has its own names, so tests that use one each do not meet.
#[tokio::test]
async fn two_memory_stores_are_two() {
    let (one, other) = (Client::new(Memory::new()), Client::new(Memory::new()));
    let held = one.lock("x").acquire().await.unwrap();
    let also = other.lock("x").try_acquire().await.unwrap().expect("nobody has it there");
    also.release().await.unwrap();
    assert!(other.list_all("", 10).await.unwrap().is_empty());
    assert!(held.is_held());
    // Two clients of one store do meet.
    let store = Arc::new(Memory::new());
    let (one, other) =
        (Client::with(store.clone(), Settings::default()), Client::with(store, Settings::default()));
    let _held = one.lock("x").acquire().await.unwrap();
    assert!(other.lock("x").try_acquire().await.unwrap().is_none());
}
