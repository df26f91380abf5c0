//! What must compile: a library that can be used for the wrong ones.

use tenure::{Result, distributed_lock};

#[distributed_lock(key = id)]
async fn right(id: u64) -> Result<()> {
    Ok(())
}

fn main() {
    drop(right(1));
}
