use std::pin::Pin;

use tenure::{Result, distributed_lock};

#[distributed_lock(key = id)]
fn hidden(id: u64) -> impl Future<Output = Result<u64>> {
    async move { Ok(id) }
}

#[distributed_lock(key = id)]
fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64>>>> {
    let future = async move { Ok(id) };
    Box::pin(future)
}

fn main() {}
