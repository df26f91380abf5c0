use tenure::{Result, distributed_lock};

struct User {
    user_id: u64,
}

#[distributed_lock(key = "#user.userId", prefix = "ACCOUNT:DISTRIBUTEDLOCK:USER")]
async fn handle(user: User) -> Result<u64> {
    Ok(user.user_id)
}

#[distributed_lock(key = "'user:' + #user.id")]
async fn sum(user: User) -> Result<u64> {
    Ok(user.user_id)
}

fn main() {}
