//! Fencing: a lock cannot stop a holder that was paused; the resource can, if it refuses an older token.
//!
//! Prints:
//!     "slow, in time" with fence …
//!     "quick" with fence …
//!     "slow, too late" refused: a later holder has been here

use std::time::Duration;

use tenure::Fence;

/// What is protected. It remembers the highest fence it has seen.
#[derive(Default)]
struct Register {
    highest: Option<Fence>,
    value: String,
}

impl Register {
    fn write(&mut self, fence: Option<Fence>, value: &str) -> Result<(), String> {
        if fence < self.highest {
            return Err(format!("{value:?} refused: a later holder has been here"));
        }
        self.highest = fence; // equal is fine: one hold may write many times
        self.value = value.into();
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> tenure::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let lock = client.lock("examples/register");
    let mut register = Register::default();

    let slow = lock.clone().lease(Duration::from_millis(200)).acquire().await?;
    register.write(slow.fence(), "slow, in time").expect("the first");
    println!("{:?} with fence {:?}", register.value, slow.fence());

    // It is paused for longer than its lease, and another one comes.
    let quick = lock.acquire().await?;
    register.write(quick.fence(), "quick").expect("a later fence");
    println!("{:?} with fence {:?}", register.value, quick.fence());
    assert!(quick.fence() > slow.fence());

    // A request of the slow one that was on its way arrives only now.
    let refused = register.write(slow.fence(), "slow, too late").expect_err("an older fence");
    println!("{refused}");
    assert_eq!(register.value, "quick");
    assert!(slow.release().await.is_err_and(|e| e.is_lost()), "and it learns of it");
    quick.release().await?;
    client.close().await
}
