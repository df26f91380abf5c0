use tenure::{Result, distributed_lock};

#[distributed_lock(key = [])]
async fn no_keys() -> Result<()> {
    Ok(())
}

#[distributed_lock(key = ())]
async fn no_parts() -> Result<()> {
    Ok(())
}

#[distributed_lock(key = [[id]])]
async fn nested(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
