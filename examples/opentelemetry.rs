//! Traces for OpenTelemetry: what a request waited for, and behind whom, is in the trace of that request.
//!
//! Prints:
//!     order [released]
//!       acquire name="examples/stock" kind="lock" store="memory" outcome="acquired" [acquired]
//!       release name="examples/stock" kind="lock" store="memory"
//!     report
//!       acquire name="examples/stock" kind="lock" store="memory" outcome="timed out" …[timed out]
//!     draft
//!     release name="examples/stock" kind="lock" store="memory"
//!     1 waited behind the hold of the order

use std::error::Error;
use std::time::Duration;

use opentelemetry::trace::{SpanId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing::{Instrument, Level, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    // A program exports to its collector: `with_batch_exporter`, and the exporter of the crate `opentelemetry-otlp`.
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders"));
    // All spans of Tenure have this target, and the level debug.
    let wanted = Targets::new().with_default(Level::INFO).with_target("tenure", Level::DEBUG);
    tracing_subscriber::registry().with(layer.with_filter(wanted)).init();

    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".into());
    let client = tenure::connect(&url).await?;
    let lock = client.lock("examples/stock");

    // The caller's span is the parent, whichever thread runs the task.
    let order = info_span!("order", id = 42);
    let guard = lock.acquire().instrument(order.clone()).await?;
    let id = guard.id().to_string();
    let report = lock.try_acquire_for(Duration::from_millis(20)).instrument(info_span!("report"));
    assert!(report.await?.is_none());
    guard.release().instrument(order).await?;

    // Nobody waits for the release of a guard that is dropped: it is a trace of its own.
    drop(lock.acquire().instrument(info_span!("draft")).await?);
    // First the client, which waits for releases, and then what exports their spans.
    client.close().await?;
    provider.force_flush()?;
    let mut spans = exporter.get_finished_spans()?;
    spans.sort_by_key(|span| span.start_time);
    for root in spans.iter().filter(|span| span.parent_span_id == SpanId::INVALID) {
        println!("{}", described(root));
        let is_child = |span: &&SpanData| span.parent_span_id == root.span_context.span_id();
        for child in spans.iter().filter(is_child) {
            println!("  {}", described(child));
        }
    }
    let behind = spans.iter().filter(|span| attribute(span, "behind") == Some(id.clone())).count();
    println!("{behind} waited behind the hold of the order");
    provider.shutdown()?;
    Ok(())
}

/// Its name, some of its attributes, and its events.
fn described(span: &SpanData) -> String {
    let shown = ["name", "kind", "store", "outcome"].into_iter();
    let attributes = shown.filter_map(|key| Some(format!(" {key}={:?}", attribute(span, key)?)));
    let events = span.events.iter().map(|event| format!(" [{}]", event.name));
    format!("{}{}", span.name, attributes.chain(events).collect::<String>())
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    span.attributes.iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value.to_string())
}
