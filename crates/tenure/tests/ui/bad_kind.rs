use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, kind = mutex)]
async fn unknown(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, kind = permits)]
async fn how_many(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, kind = permits(5, 4))]
async fn too_many(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, kind = permits(0, 4))]
async fn none(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
