//! Locks written by hand on Redis, each with the interleaving that breaks it, against a real server; and the same with
//! Tenure. The guide, docs/guide.md, tells the story.
//!
//!     cargo run -p tenure --example handwritten
//!
//! Starts a server of its own, and stops it.
//!
//! Needs: redis-server
//!
//! Prints:
//!     1. no time limit: its holder died, and the key stays for ever: locked out
//!     2. the limit in a second step: its holder died in between: locked out
//!     3. the same value for all: a late holder deleted the lock of the next one: two inside
//!     4. look, compare, delete: it changed hands after the look: two inside
//!     5. tenure: a dead holder is out after its lease
//!     6. tenure: a late release takes nothing away: …its lease ended … ago
//!     7. tenure: whoever lives is renewed, for as long as it takes

use std::error::Error;
use std::time::Duration;

use testbed::{PATIENCE, Redis, RedisOptions, Resp, eventually};

type Outcome = Result<(), Box<dyn Error>>;

/// `SET key value NX`, with more words if any. Whether it was free.
fn set(redis: &mut Resp, key: &str, value: &str, more: &[&str]) -> Result<bool, Box<dyn Error>> {
    Ok(!redis.cmd(&[&["SET", key, value, "NX"], more].concat())?.is_nil())
}

fn exists(redis: &mut Resp, key: &str) -> bool {
    redis.cmd(&["EXISTS", key]).is_ok_and(|n| n.int() == Some(1))
}

/// The lock is there and will be: no time limit ends it.
fn stays(redis: &mut Resp, key: &str) -> Result<bool, Box<dyn Error>> {
    Ok(redis.cmd(&["PTTL", key])?.int() == Some(-1))
}

/// Waits until the key has gone by itself, as it does under a holder that is paused.
fn until_over(redis: &mut Resp, key: &str) -> Outcome {
    Ok(eventually("the end of its time", PATIENCE, || (!exists(redis, key)).then_some(()))?)
}

fn no_time_limit(server: &Redis) -> Outcome {
    let mut holder = server.client()?;
    assert!(set(&mut holder, "a", "1", &[])?);
    drop(holder); // it dies

    let mut next = server.client()?;
    assert!(!set(&mut next, "a", "1", &[])? && stays(&mut next, "a")?);
    println!("1. no time limit: its holder died, and the key stays for ever: locked out");
    Ok(())
}

fn limit_in_a_second_step(server: &Redis) -> Outcome {
    let mut holder = server.client()?;
    assert!(set(&mut holder, "b", "1", &[])?);
    drop(holder); // it dies before its EXPIRE

    let mut next = server.client()?;
    assert!(!set(&mut next, "b", "1", &[])? && stays(&mut next, "b")?);
    println!("2. the limit in a second step: its holder died in between: locked out");
    Ok(())
}

fn one_value_for_all(server: &Redis) -> Outcome {
    let (mut slow, mut next, mut third) = (server.client()?, server.client()?, server.client()?);
    assert!(set(&mut slow, "c", "1", &["PX", "50"])?);
    until_over(&mut slow, "c")?; // it is paused
    assert!(set(&mut next, "c", "1", &["PX", "60000"])?);

    slow.cmd(&["DEL", "c"])?; // done: gives back what it thinks it holds
    assert!(set(&mut third, "c", "1", &["PX", "60000"])?, "and a third one is in beside the next");
    println!("3. the same value for all: a late holder deleted the lock of the next one: two inside");
    Ok(())
}

fn look_compare_delete(server: &Redis) -> Outcome {
    let (mut slow, mut next, mut third) = (server.client()?, server.client()?, server.client()?);
    assert!(set(&mut slow, "d", "slow", &["PX", "3000"])?);
    assert_eq!(slow.cmd(&["GET", "d"])?.text(), "slow"); // still its own …
    until_over(&mut slow, "d")?; // … and it is paused here
    assert!(set(&mut next, "d", "next", &["PX", "60000"])?);

    slow.cmd(&["DEL", "d"])?;
    assert!(set(&mut third, "d", "third", &["PX", "60000"])?, "and a third one is in beside the next");
    println!("4. look, compare, delete: it changed hands after the look: two inside");
    Ok(())
}

async fn tenure(server: &Redis) -> Outcome {
    let client = tenure::connect(&format!("{}?lease=9s", server.url())).await?;
    let (wait, lease) = (Duration::from_secs(60), Duration::from_secs(3));

    // Set, limit and owner are one step on the server, so nothing can come in between.
    client.lock("e").lease(lease).acquire().await?.detach(); // it dies: nobody renews or releases any more
    let next = client.lock("e").try_acquire_for(wait).await?.expect("after one lease");
    println!("5. tenure: a dead holder is out after its lease");
    next.release().await?;

    // To compare and to delete is one step, too, and the value is the holder's own.
    let slow = client.lock("f").lease(lease).acquire().await?;
    let next = client.lock("f").try_acquire_for(wait).await?.expect("after one lease");
    let late = slow.release().await.expect_err("it is not its own any more");
    assert!(late.is_lost() && next.is_held() && client.lock("f").try_acquire().await?.is_none());
    println!("6. tenure: a late release takes nothing away: {late}");
    next.release().await?;

    // Who gave no lease has one that is renewed.
    let guard = client.lock("g").acquire().await?;
    let work = async { tokio::time::sleep(Duration::from_secs(10)).await };
    guard.while_held(work).await?;
    assert!(guard.is_held() && guard.fence().is_some());
    println!("7. tenure: whoever lives is renewed, for as long as it takes");
    guard.release().await?;
    client.close().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Outcome {
    let server = Redis::start(RedisOptions::default())?;
    no_time_limit(&server)?;
    limit_in_a_second_step(&server)?;
    one_value_for_all(&server)?;
    look_compare_delete(&server)?;
    tenure(&server).await
}
