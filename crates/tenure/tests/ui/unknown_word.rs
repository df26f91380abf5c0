use tenure::{Result, distributed_lock};

#[distributed_lock(key = id, timeout = "5s")]
async fn unknown(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(kye = id)]
async fn mistyped(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, wait = "5s", wait = "6s")]
async fn twice(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id, wait)]
async fn without_a_value(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock("users")]
async fn without_a_word(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
