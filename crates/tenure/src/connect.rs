//! Opens a store by its address.

use std::sync::Arc;

use tenure_core::{Backend, Client, Result, Settings};

use crate::Address;

/// Connects to the store at `address`, such as `memory:` or `sqlite:/var/lib/app/locks.db?lease=10s`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// let client = tenure::connect("memory:?lease=10s").await?;
/// client.lock("orders/42").acquire().await?.release().await
/// # }
/// ```
///
/// # Errors
/// `Config` when the address cannot be parsed, has an unknown option, or cannot be a store; `Unsupported` when the
/// store cannot do what the address asks for; `Unavailable` when the store does not answer.
pub async fn connect(address: &str) -> Result<Client> {
    connect_with(address, Settings::default()).await
}

/// Connects with `settings` as defaults; options in the address override them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # use std::time::Duration;
/// let mut settings = tenure::Settings::default();
/// settings.warn_held = Some(Duration::from_secs(60));
/// let client = tenure::connect_with("memory:?lease=10s", settings).await?;
/// assert_eq!(client.settings().lease, Duration::from_secs(10));
/// # Ok(()) }
/// ```
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(address: &str, settings: Settings) -> Result<Client> {
    Address::parse(address)?.raw.validate(settings)?.connect().await
}

/// Opens the store at `address` without a client, to build a client by hand: two clients of one store, for example, or
/// a store wrapped in another one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// use tenure::{Client, Settings};
///
/// let store = tenure::open("memory:").await?;
/// let one = Client::with(store.clone(), Settings::default());
/// let other = Client::with(store, Settings::default());
/// let guard = one.lock("orders/42").acquire().await?;
/// assert!(other.lock("orders/42").try_acquire().await?.is_none());
/// # guard.release().await }
/// ```
///
/// # Errors
/// As [`connect`].
pub async fn open(address: &str) -> Result<Arc<dyn Backend>> {
    Address::parse(address)?.raw.validate(Settings::default())?.open().await
}
