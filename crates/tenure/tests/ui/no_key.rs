use tenure::{Result, distributed_lock};

#[distributed_lock]
async fn bare() -> Result<()> {
    Ok(())
}

#[distributed_lock(prefix = "user")]
async fn only_a_prefix() -> Result<()> {
    Ok(())
}

fn main() {}
