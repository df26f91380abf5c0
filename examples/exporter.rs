//! Metrics for Prometheus: a recorder with buckets, installed before the first lock, and `/metrics` to scrape.
//!
//!     cargo run -p tenure --example exporter -- redis://localhost --serve 127.0.0.1:9000
//!     curl localhost:9000/metrics
//!
//! With `--serve` it works until it is stopped, on a port of its own for `--serve 127.0.0.1:0`. Without, it works once
//! and reads its own page.
//!
//! Prints:
//!     tenure_acquire_seconds histogram
//!     tenure_acquired_total counter
//!     tenure_busy_total counter
//!     tenure_cancelled_total counter
//!     tenure_deadlocks_total counter
//!     tenure_failures_total counter
//!     tenure_held gauge
//!     tenure_hold_seconds histogram
//!     tenure_lost_total counter
//!     tenure_renewals_total counter
//!     tenure_timed_out_total counter
//!     tenure_waiting gauge
//!     tenure_acquired_total{store="memory",kind="count"} 1
//!     tenure_acquired_total{store="memory",kind="fair_lock"} 1
//!     tenure_acquired_total{store="memory",kind="leader"} 1
//!     tenure_acquired_total{store="memory",kind="lock"} 1
//!     tenure_acquired_total{store="memory",kind="permit"} 1
//!     tenure_acquired_total{store="memory",kind="read"} 1
//!     tenure_acquired_total{store="memory",kind="write"} 1
//!     tenure_busy_total{store="memory",kind="lock"} 1
//!     tenure_timed_out_total{store="memory",kind="lock"} 1
//!     tenure_held{store="memory",kind="leader"} 1

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tenure::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// From a millisecond to an hour: one set for waits and holds.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 3600.0];

/// Samples of a histogram are kept one by one until they are put into buckets.
const UPKEEP: Duration = Duration::from_secs(5);

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let url = words.first().map_or("memory:", String::as_str);
    let serve = words.iter().position(|word| word == "--serve");

    // Before the first lock: a client looks for a recorder when it first uses a kind, and not again.
    let prometheus = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Prefix("tenure_".into()), &BUCKETS)?
        .install_recorder()?;
    let client = tenure::connect(url).await?;

    let address = match serve {
        Some(at) => words.get(at + 1).ok_or("--serve needs an address, such as 127.0.0.1:9000")?.as_str(),
        None => "127.0.0.1:0",
    };
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, pages(prometheus)).await });

    // One process leads as long as it runs; others that run beside it stand by.
    let election = client.election("examples/exporter/leader");
    let campaign = tokio::spawn(async move { election.campaign().await });
    if serve.is_some() {
        println!("http://{address}/metrics");
        loop {
            work(&client).await?;
            sleep(Duration::from_millis(50)).await;
        }
    }
    let leadership = campaign.await??;
    work(&client).await?;
    let page = read(address).await?;
    let mut families: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    families.sort_unstable();
    println!("{}", families.join("\n"));
    let used =
        |line: &&str| line.starts_with("tenure_") && !line.contains("seconds") && !line.ends_with(" 0");
    let mut used: Vec<_> = page.lines().filter(used).collect();
    used.sort_unstable();
    println!("{}", used.join("\n"));
    leadership.release().await?;
    client.close().await?;
    Ok(())
}

fn pages(prometheus: PrometheusHandle) -> Router {
    let upkeep = prometheus.clone();
    tokio::spawn(async move {
        loop {
            sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    let page = move || async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], prometheus.render()) };
    Router::new().route("/metrics", get(page))
}

/// Each kind once, and what does not get in.
async fn work(client: &Client) -> tenure::Result<()> {
    let lock = client.lock("examples/exporter/lock");
    let guard = lock.acquire().await?;
    assert!(lock.try_acquire().await?.is_none(), "busy");
    assert!(lock.try_acquire_for(Duration::from_millis(10)).await?.is_none(), "timed out");
    guard.release().await?;

    let both = client.rwlock("examples/exporter/rwlock");
    for lock in [client.lock("examples/exporter/fair").fair(), both.read(), both.write()] {
        lock.acquire().await?.release().await?;
    }
    client.semaphore("examples/exporter/semaphore", 3).acquire().await?.release().await?;

    let slots = client.counting_semaphore("examples/exporter/slots");
    slots.try_set(1).await?;
    slots.acquire(1).await?;
    slots.release(1).await
}

async fn read(address: SocketAddr) -> Result<String, Box<dyn Error>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, page) = answer.split_once("\r\n\r\n").ok_or("half an answer")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("unexpected: {head}").into());
    }
    Ok(page.to_owned())
}
