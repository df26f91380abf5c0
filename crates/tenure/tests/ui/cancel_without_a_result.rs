use tenure::distributed_lock;

#[distributed_lock(key = id, on_busy = skip(false), on_lost = cancel)]
async fn flag(id: u64) -> bool {
    true
}

fn main() {}
