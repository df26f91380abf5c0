use tenure::distributed_lock;

struct AppError;

#[distributed_lock(key = id, on_busy = skip(Ok(())))]
async fn error(id: u64) -> Result<(), AppError> {
    Ok(())
}

fn main() {}
