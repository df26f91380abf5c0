use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, client = "redis://localhost")]
async fn address(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
