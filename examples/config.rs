//! One program for every store: which one it is stands in a file, or in an address.
//!
//!     cargo run -p tenure --example config -- app.toml
//!
//! Prints:
//!     held, with a fence: true
//!     a second one: busy
//!     one of two permits: held
//!     locked: false

use tenure::{Config, Result};

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let config = match std::env::args().nth(1) {
        Some(file) if file.ends_with(".toml") => Config::from_file(file)?,
        Some(address) => Config::default().url(&address)?,
        None => Config::from_toml("type = 'memory'")?,
    };
    let client = config.connect().await?;

    let guard = client.lock("orders/42").acquire().await?;
    println!("held, with a fence: {}", guard.fence().is_some());
    let second = client.lock("orders/42").try_acquire().await?;
    println!("a second one: {}", if second.is_some() { "held" } else { "busy" });
    guard.release().await?;

    let permit = client.semaphore("api", 2).acquire().await?;
    println!("one of two permits: {}", if permit.is_held() { "held" } else { "lost" });
    permit.release().await?;
    println!("locked: {}", client.lock("orders/42").is_locked().await?);
    client.close().await
}
