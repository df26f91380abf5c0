use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, wait = "5 seconds")]
async fn words(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, lease = 30)]
async fn number(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
