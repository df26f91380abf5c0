use tenure::{Result, distributed_lock};

#[distributed_lock(key = "x")]
struct Account;

#[distributed_lock(key = "x")]
impl Account {
    async fn pay(&self) -> Result<()> {
        Ok(())
    }
}

trait Pays {
    #[distributed_lock(key = "x")]
    fn pay(&self) -> Result<()>;
}

fn main() {}
