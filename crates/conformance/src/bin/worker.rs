//! A process for the cases that need several: see `conformance::worker`.

/// With several threads, as services have them: on one alone tasks come to a gate in the order in which the store answered
/// them, whatever else is wrong.
#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() {
    conformance::worker::serve().await;
}
