//! Opens a store by its address.

use std::sync::Arc;

use tenure_core::{Backend, Client, Result, Settings};

use crate::Address;

/// Connects to the store at `address`, such as `memory:` or `sqlite:/var/lib/app/locks.db?lease=10s`.
///
/// # Errors
/// `Config` when the address cannot be parsed, has an unknown option, or cannot be a store; `Unsupported` when the
/// store cannot do what the address asks for; `Unavailable` when the store does not answer.
pub async fn connect(address: &str) -> Result<Client> {
    connect_with(address, Settings::default()).await
}

/// Connects with `settings` as defaults; options in the address override them.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(address: &str, settings: Settings) -> Result<Client> {
    Address::parse(address)?.raw.validate(settings)?.connect().await
}

/// Opens the store at `address` without a client, to build a client by hand.
///
/// # Errors
/// As [`connect`].
pub async fn open(address: &str) -> Result<Arc<dyn Backend>> {
    Address::parse(address)?.raw.validate(Settings::default())?.open().await
}
