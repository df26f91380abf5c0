//! The process started by cases that need several: see `conformance::worker`.

/// Runs on several threads, as services do: on a single one tasks reach a gate in the order in which the store answered
/// them, which would hide errors.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() {
    conformance::worker::serve().await;
}
