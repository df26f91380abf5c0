use std::fmt::Display;

use tenure::distributed_lock;

#[distributed_lock(key = id)]
async fn hidden(id: u64) -> impl Display {
    id
}

fn main() {}
