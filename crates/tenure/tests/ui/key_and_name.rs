use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, name = "x")]
async fn both(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(name = id, prefix = "x")]
async fn name_with_a_prefix(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(name = (id, id))]
async fn name_of_parts(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
