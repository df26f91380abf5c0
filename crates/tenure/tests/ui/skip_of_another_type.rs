use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, on_busy = skip(0))]
async fn skip(id: u64) -> Result<u64> {
    Ok(id)
}

fn main() {}
