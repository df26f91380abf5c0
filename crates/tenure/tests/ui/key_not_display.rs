use tenure::{Result, distributed_lock};

struct User {
    user_id: Option<u64>,
}

#[distributed_lock(key = user.user_id, prefix = "user")]
async fn handle(user: User) -> Result<()> {
    Ok(())
}

fn main() {}
