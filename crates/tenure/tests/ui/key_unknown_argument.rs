use tenure::{Result, distributed_lock};

#[distributed_lock(key = usr_id, prefix = "user")]
async fn handle(user_id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = "{usr_id}")]
async fn text(user_id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
