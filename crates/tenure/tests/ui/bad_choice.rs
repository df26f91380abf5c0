use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, on_busy = ignore)]
async fn busy(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, on_busy = skip)]
async fn skip(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, on_lost = ignore)]
async fn lost(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, on_fail = ignore)]
async fn fail(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
