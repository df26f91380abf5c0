//! A process for the cases that need several: see `conformance::worker`.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    conformance::worker::serve().await;
}
