use tenure::distributed_lock;

#[distributed_lock(key = id)]
async fn number(id: u64) -> u64 {
    id
}

#[distributed_lock(key = id)]
async fn nothing(id: u64) {}

#[distributed_lock(key = id)]
fn plain(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
