//! Without a runtime: threads that wait, and enter again what they hold.
//!
//!     cargo run --example blocking -- sqlite:/tmp/locks.db
//!
//! Prints:
//!     entry number 2 of this thread
//!     another thread is let in: false
//!     step 3, fence …

use std::thread;
use std::time::Duration;

use tenure::Result;
use tenure::blocking::{self, Client};

/// Takes the lock itself, whether or not its caller has it.
fn transfer(client: &Client) -> Result<u32> {
    let guard = client.lock("examples/account").acquire()?;
    let holds = guard.reentry_count();
    guard.release()?;
    Ok(holds)
}

pub(crate) fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = blocking::connect(&url)?;
    let lock = client.lock("examples/account");

    let outer = lock.acquire()?;
    println!("entry number {} of this thread", transfer(&client)?);
    let busy =
        thread::scope(|s| s.spawn(|| lock.try_acquire().map(|g| g.is_none())).join()).expect("no panic")?;
    println!("another thread is let in: {}", !busy);
    assert!(busy);

    // Nothing stops this thread when the lock is lost, so it asks before each effect.
    for step in 1..=3 {
        outer.ensure(Duration::from_secs(1))?;
        println!("step {step}, fence {:?}", outer.fence());
    }
    outer.release()?;

    // A thread that waits cannot be called back: a limit is part of the call.
    match lock.try_acquire_for(Duration::from_secs(3))? {
        Some(guard) => guard.release()?,
        None => println!("busy for three seconds"),
    }
    client.close()
}
