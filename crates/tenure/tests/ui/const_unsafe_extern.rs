use tenure::{Result, distributed_lock};

#[distributed_lock(key = id)]
const fn constant(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id)]
unsafe fn dangerous(id: u64) -> Result<()> {
    Ok(())
}

#[distributed_lock(key = id)]
extern "C" fn foreign(id: u64) -> Result<()> {
    Ok(())
}

fn main() {}
