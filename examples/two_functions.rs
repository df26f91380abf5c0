//! The two functions of a lock written by hand, `tryGet(key, requestId)` and `release(key, requestId)`: there is no guard,
//! and whoever knows the request id gives the lock back, in this process or another. In Redis it is a plain key with the
//! request id as its value, shared with those who still write it by hand.
//!
//!     cargo run -p tenure --example two_functions
//!
//! Starts a server of its own, and stops it.
//!
//! Needs: redis-server
//!
//! Prints:
//!     request-1 gets it: true
//!     request-2 gets it: false
//!     in Redis: orders/42 = request-1
//!     request-2 releases it: false
//!     request-1 releases it, from another process: true
//!     request-1 releases it again: false
//!     request-2 gets it now: true

use std::error::Error;
use std::time::Duration;

use tenure::{Client, Guard};
use testbed::{Redis, RedisOptions};

/// How long it is held if nobody releases it. Nothing renews it: no guard tells that somebody still works.
const LEASE: Duration = Duration::from_secs(30);

/// Takes the lock for this request, if it is free.
async fn try_get(client: &Client, key: &str, request_id: &str) -> tenure::Result<bool> {
    let guard = client.lock(key).token(request_id).lease(LEASE).try_acquire().await?;
    // Dropped, it would release.
    Ok(guard.map(Guard::detach).is_some())
}

/// Gives it back, if it is this request's: to compare and to delete is one step. Whether it was.
async fn release(client: &Client, key: &str, request_id: &str) -> tenure::Result<bool> {
    client.lock(key).release_by(request_id).await
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let server = Redis::start(RedisOptions::default())?;
    let url = format!("{}?layout=plain", server.url());
    let (here, elsewhere) = (tenure::connect(&url).await?, tenure::connect(&url).await?);

    println!("request-1 gets it: {}", try_get(&here, "orders/42", "request-1").await?);
    println!("request-2 gets it: {}", try_get(&here, "orders/42", "request-2").await?);
    println!("in Redis: orders/42 = {}", server.cmd(&["GET", "orders/42"])?.text());
    println!("request-2 releases it: {}", release(&here, "orders/42", "request-2").await?);
    println!(
        "request-1 releases it, from another process: {}",
        release(&elsewhere, "orders/42", "request-1").await?
    );
    println!("request-1 releases it again: {}", release(&here, "orders/42", "request-1").await?);
    println!("request-2 gets it now: {}", try_get(&elsewhere, "orders/42", "request-2").await?);
    Ok(())
}
