use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, on_lost = cancel)]
fn plain(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
