//! What a function answers when it is busy, or the store fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tenure::testing::{Call, Fate, Faults};
use tenure::{Client, Error, Memory, Result, distributed_lock};
use testbed::{until, within};

use super::harness::memory;

#[derive(Debug, PartialEq)]
enum AppError {
    Lock(String),
    Busy(u64),
    Own,
}

impl From<Error> for AppError {
    fn from(error: Error) -> Self {
        Self::Lock(error.to_string())
    }
}

type AppResult<T> = std::result::Result<T, AppError>;

#[tokio::test]
async fn busy_is_an_error_a_value_or_a_call() {
    #[distributed_lock(key = "x", wait = "10ms", client = client)]
    async fn error(client: &Client) -> AppResult<u32> {
        Ok(1)
    }
    #[distributed_lock(key = "x", wait = Duration::ZERO, on_busy = skip(Err(AppError::Busy(user.0))), client = client)]
    async fn skip(client: &Client, user: (u64, String)) -> AppResult<usize> {
        Ok(user.1.len())
    }
    #[distributed_lock(key = "x", wait = "0s", on_busy = call(when_busy), client = client)]
    async fn call(client: &Client) -> AppResult<u32> {
        Ok(1)
    }
    fn when_busy(error: Error) -> AppResult<u32> {
        if error.is_busy() { Ok(2) } else { Err(error.into()) }
    }
    #[distributed_lock(key = "x", wait = "0s", on_busy = skip(None), client = client)]
    async fn option(client: &Client) -> Option<u32> {
        Some(1)
    }
    #[distributed_lock(key = "x", wait = "0s", on_busy = skip(()), client = client)]
    async fn nothing(client: &Client, ran: &AtomicBool) {
        ran.store(true, SeqCst);
    }
    #[distributed_lock(key = "x", wait = "0s", on_busy = skip("busy"), client = client)]
    async fn hidden(client: &Client) -> impl std::fmt::Display {
        "free"
    }
    let (client, ran) = (memory().await, AtomicBool::new(false));
    let user = || (42, "name".to_owned());
    let guard = client.lock("x").acquire().await.unwrap();
    let says = "memory: acquire x: busy: still held by others after 10ms".to_owned();
    assert_eq!(error(&client).await, Err(AppError::Lock(says)));
    assert_eq!(skip(&client, user()).await, Err(AppError::Busy(42)));
    assert_eq!(call(&client).await, Ok(2));
    assert_eq!(option(&client).await, None);
    assert_eq!(hidden(&client).await.to_string(), "busy");
    nothing(&client, &ran).await;
    assert!(!ran.load(SeqCst));
    guard.release().await.unwrap();
    assert_eq!(error(&client).await, Ok(1));
    assert_eq!(skip(&client, user()).await, Ok(4));
    assert_eq!(call(&client).await, Ok(1));
    assert_eq!(option(&client).await, Some(1));
    assert_eq!(hidden(&client).await.to_string(), "free");
    nothing(&client, &ran).await;
    assert!(ran.load(SeqCst));
}

/// Not being able to ask is not being busy: a `Result` says so, and only what has no error answers as if it were.
#[tokio::test]
async fn a_failure_is_not_taken_for_busy() {
    #[distributed_lock(key = "x", on_busy = skip(Ok(0)), client = client)]
    async fn result(client: &Client) -> AppResult<u32> {
        Ok(1)
    }
    #[distributed_lock(key = "x", on_busy = skip(None), client = client)]
    async fn option(client: &Client) -> Option<u32> {
        Some(1)
    }
    #[distributed_lock(key = "x", on_busy = call(|error: Error| error.to_string()), client = client)]
    async fn told(client: &Client) -> String {
        String::new()
    }
    let client = memory().await;
    client.close().await.unwrap();
    assert_eq!(result(&client).await, Err(AppError::Lock("the client is closed".into())));
    assert_eq!(option(&client).await, None);
    assert_eq!(told(&client).await, "the client is closed");
}

#[tokio::test]
async fn a_function_may_panic_instead() {
    #[distributed_lock(key = "x", wait = "0s", on_fail = panic, client = client)]
    async fn count(client: Client) -> usize {
        1
    }
    let client = memory().await;
    assert_eq!(count(client.clone()).await, 1);
    let guard = client.lock("x").acquire().await.unwrap();
    let panic = tokio::spawn(count(client.clone())).await.unwrap_err().into_panic();
    assert!(panic.downcast_ref::<String>().unwrap().contains("acquire x: busy"));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_failed_body_releases_and_its_error_is_passed_on() {
    #[distributed_lock(key = "x", client = client)]
    async fn fails(client: &Client) -> AppResult<()> {
        Err(AppError::Own)?;
        unreachable!()
    }
    #[distributed_lock(key = "x", client = client)]
    async fn panics(client: Client) -> AppResult<()> {
        panic!("in the body")
    }
    let client = memory().await;
    assert_eq!(fails(&client).await, Err(AppError::Own));
    assert!(client.lock("x").try_acquire().await.unwrap().is_some());
    assert!(tokio::spawn(panics(client.clone())).await.unwrap_err().is_panic());
    within("its end", client.lock("x").acquire()).await.unwrap().release().await.unwrap();
}

/// Polls a call that does not end until `holds`.
async fn drive(what: &str, mut call: impl Future + Unpin, holds: impl AsyncFn() -> bool) {
    let drives = async {
        while !holds().await {
            assert!(futures_util::poll!(&mut call).is_pending());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(what, drives).await;
}

/// Dropped while it waits, and while it runs: nothing is left.
#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    #[distributed_lock(key = "x", client = client)]
    async fn stays(client: &Client) -> Result<()> {
        std::future::pending().await
    }
    let client = memory().await;
    let free = || async {
        client.show("x").await.unwrap().is_none_or(|s| s.holders.is_empty() && s.waiters.is_empty())
    };
    {
        let mut holds = Box::pin(stays(&client));
        drive("one holds", &mut holds, async || client.lock("x").is_locked().await.unwrap()).await;
        let mut waits = Box::pin(stays(&client));
        let queues = async || !client.lock("x").waiters().await.unwrap().is_empty();
        drive("the other waits", &mut waits, queues).await;
    }
    until("nothing is left", free).await;
}

/// The body is gone before others come in, also when its call is dropped.
#[tokio::test]
async fn a_dropped_body_is_gone_before_the_release() {
    struct Last(Client, Arc<AtomicBool>);
    impl Drop for Last {
        fn drop(&mut self) {
            let free = futures_util::FutureExt::now_or_never(self.0.lock("x").try_acquire());
            self.1.store(matches!(free, Some(Ok(None))), SeqCst);
        }
    }
    #[distributed_lock(key = "x", client = last.0)]
    async fn stays(last: Last, held: &AtomicBool) -> Result<()> {
        let _last = last;
        held.store(true, SeqCst);
        std::future::pending().await
    }
    let (client, was_held, begun) =
        (memory().await, Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let mut call = Box::pin(stays(Last(client.clone(), was_held.clone()), &begun));
    drive("it runs", &mut call, async || begun.load(SeqCst)).await;
    drop(call);
    assert!(was_held.load(SeqCst), "released before the body was gone");
}

fn faulty(lease: Duration, plan: impl Fn(Call<'_>) -> Fate + Send + Sync + 'static) -> Client {
    let mut settings = tenure::Settings::default();
    settings.lease = lease;
    settings.call_timeout = Duration::from_secs(1);
    Client::with(Arc::new(Faults::new(Arc::new(Memory::new()), plan)), settings)
}

/// Work that was done while the lock was held is done, whether or not the store can be told.
#[tokio::test]
async fn a_release_without_an_answer_is_no_failure() {
    #[distributed_lock(key = "x", client = client)]
    async fn work(client: &Client) -> Result<u32> {
        Ok(42)
    }
    let plan = |call: Call<'_>| Fate { refused: matches!(call, Call::Release(_)), ..Fate::default() };
    let client = faulty(Duration::from_secs(3), plan);
    assert_eq!(within("its end", work(&client)).await, Ok(42));
    // Nothing was released, and yet it is free again, by its lease.
    assert_eq!(within("its end", work(&client)).await, Ok(42));
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_found_again() {
    #[distributed_lock(key = "x", client = client)]
    async fn work(client: &Client) -> Result<u32> {
        Ok(42)
    }
    let first = AtomicBool::new(true);
    let client = faulty(Duration::from_secs(30), move |call| Fate {
        reply_lost: matches!(call, Call::TryAcquire(_)) && first.swap(false, SeqCst),
        ..Fate::default()
    });
    assert_eq!(within("its end", work(&client)).await, Ok(42));
    assert!(!client.lock("x").is_locked().await.unwrap());
}

/// One process has one installed client, so this is one test.
#[tokio::test]
async fn the_client_that_is_installed() {
    #[distributed_lock(key = "x")]
    async fn call() -> Result<u32> {
        Ok(1)
    }
    let error = call().await.unwrap_err().to_string();
    assert!(error.contains("no client is installed: call tenure::install(client)"), "{error}");
    let client = memory().await;
    tenure::install(client.clone()).unwrap();
    assert_eq!(call().await, Ok(1));
    assert!(client.lock("x").acquire().await.unwrap().fence().is_some());
    let error = tenure::install(memory().await).unwrap_err().to_string();
    assert!(error.contains("installed already"), "{error}");
}
