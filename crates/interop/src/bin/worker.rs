//! Tenure, in a process of its own, for tests.

#[tokio::main]
async fn main() {
    interop::serve().await;
}
