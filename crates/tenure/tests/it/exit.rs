//! The end of the process: what was dropped just before is released.

use std::process::Command;

use tenure::connect;

const STORE: &str = "EXIT_TEST_STORE";

#[tokio::test]
async fn a_guard_dropped_just_before_the_end_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("locks.db").display());
    let client = connect(&store).await.unwrap();
    for _ in 0..10 {
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "exit::the_process_that_ends"])
            .env(STORE, &store)
            .status()
            .unwrap();
        assert!(ended.success());
        let left = client.list("", 10).await.unwrap();
        assert!(left.iter().all(|name| name.holders.is_empty()), "{left:?}");
    }
}

/// Does something only in the process that the test above starts.
#[test]
fn the_process_that_ends() {
    let Ok(store) = std::env::var(STORE) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = connect(&store).await.unwrap();
        for name in ["a", "b", "c"] {
            drop(client.lock(name).acquire().await.unwrap());
        }
    });
    std::process::exit(0);
}
