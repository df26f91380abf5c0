//! Pairs of acquire and release on the memory store, for `cargo xtask bench --only telemetry`, which builds it twice:
//! once with spans, events and metrics, and once without. Each line of the input, a number of milliseconds, is answered
//! with the pairs per second of that time.

use std::io::BufRead;
use std::time::{Duration, Instant};

use tenure_core::{Client, Memory};

const BATCH: u32 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new(Memory::new());
    let lock = client.lock("bench");
    for line in std::io::stdin().lock().lines() {
        let time = Duration::from_millis(line?.trim().parse()?);
        let (begin, mut done) = (Instant::now(), 0.0);
        while begin.elapsed() < time {
            for _ in 0..BATCH {
                lock.acquire().await?.release().await?;
            }
            done += f64::from(BATCH);
        }
        println!("{}", done / begin.elapsed().as_secs_f64());
    }
    Ok(client.close().await?)
}
