//! An assertion that a future only runs while a lock is held.

use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;

use super::good;
use crate::Client;

/// Runs `block`, and panics if it is polled while `client` does not hold `name`. Works on every store.
///
/// ```
/// # use tenure_core as tenure;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use tenure::testing::{Store, assert_holds};
///
/// let client = Store::new().client();
/// let guard = client.lock("books").acquire().await?;
/// let total = assert_holds(&client, "books", async { 40 + 2 }).await;
/// assert_eq!(total, 42);
/// guard.release().await
/// # }
/// ```
///
/// # Panics
/// If it is not held. The message contains the location of this call.
#[track_caller]
pub fn assert_holds<N: AsRef<str>, F: Future>(
    client: &Client,
    name: N,
    block: F,
) -> impl Future<Output = F::Output> + use<N, F> {
    let (client, name, caller) = (client.clone(), good(name), Location::caller());
    async move {
        let mut block = pin!(block);
        poll_fn(|cx| {
            let holds = client.engine.core.keeper.all();
            let held = holds.iter().any(|hold| hold.claim.name == name && hold.is_held());
            assert!(held, "a step of the block at {caller} ran while its client did not hold {name:?}");
            block.as_mut().poll(cx)
        })
        .await
    }
}
