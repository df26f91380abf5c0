//! A Tenure client in a separate process, for tests.

#[tokio::main]
async fn main() {
    interop::serve().await;
}
