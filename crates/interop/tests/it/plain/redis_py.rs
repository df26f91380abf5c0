//! Locks shared with redis-py.

#[path = "../plain/mod.rs"]
mod plain;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use interop::Plain;
use interop::trials::Way;
use plain::side::granted;
use plain::stage::{LEASE, Stage, assert_soon};
use plain::{Case, KIND, Library};

fn main() -> ExitCode {
    let library = Library {
        name: "redis-py",
        quorum: false,
        start: |servers| Box::pin(async move { Plain::redis_py(&servers[0]).await }),
    };
    plain::run(
        library,
        vec![Case::new(KIND, "the_peer_holds_without_a_lease", Way::FromPeer, without_a_lease)],
    )
}

/// Its lock has none unless it is given one.
async fn without_a_lease(stage: Stage) {
    let (peer, rust) = (stage.peer(0).await, stage.rust(0).await);
    peer.enter(Duration::ZERO).await;
    assert_eq!(stage.life(), -1);
    let token = stage.token();
    assert!(!rust.attempt().await, "two are in");
    let mut askers = stage.watch();
    let waiting = rust.wait(LEASE);
    askers.asked(&stage, 2).await;
    assert!(waiting.is_open(), "two are in");
    assert_eq!(stage.token(), token);
    assert_eq!(stage.life(), -1);
    let begin = Instant::now();
    peer.leave().await;
    granted(waiting).await;
    assert_soon(begin, "the hand-over");
    assert!((1..=LEASE.as_millis() as i64).contains(&stage.life()));
    rust.leave().await;
}
