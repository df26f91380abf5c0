use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, wait = seconds)]
async fn expression(id: u64, seconds: u64) -> Result<()> {
    Ok(())
}

fn main() {}
