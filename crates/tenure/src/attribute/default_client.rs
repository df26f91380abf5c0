//! The default client of annotated functions.

use std::sync::{Arc, OnceLock};

use tenure_core::{Client, Error, Result};

static INSTALLED: OnceLock<Client> = OnceLock::new();

/// Sets the client of every function that is annotated with [`distributed_lock`](crate::distributed_lock) and names no
/// other. Once per process: if it could be replaced, calls before and after would not exclude each other.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// tenure::install(tenure::connect("memory:").await?)?;
/// # assert!(tenure::install(tenure::connect("memory:").await?).is_err()); Ok(()) }
/// ```
///
/// It is never dropped. Call [`Client::close`] on a clone before the process ends.
///
/// # Errors
/// `Config` when a client is installed already.
pub fn install(client: Client) -> Result<()> {
    INSTALLED.set(client).map_err(|client| {
        let installed = INSTALLED.get().unwrap_or(&client);
        Error::Config(format!(
            "a client is installed already, {installed:?}: a process can install only one; pass others with `client = …`"
        ))
    })
}

/// The installed client.
pub fn installed_client() -> Result<Client> {
    INSTALLED.get().cloned().ok_or_else(|| {
        Error::Config(
            "no client is installed: call tenure::install(client) when the program starts, or pass one with `client = …`"
                .into(),
        )
    })
}

/// The client that the attribute names.
pub fn explicit_client(client: &(impl AsClient + ?Sized)) -> Result<Client> {
    Ok(client.as_client().clone())
}

/// Types that `client = …` accepts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a client",
    label = "expected a `tenure::Client`",
    note = "`client = …` takes a `tenure::Client`, a reference to one, or an `Arc` of one"
)]
pub trait AsClient {
    /// The client.
    fn as_client(&self) -> &Client;
}

impl AsClient for Client {
    fn as_client(&self) -> &Client {
        self
    }
}

// Hidden: the page of `blocking::Client` would show a trait that has no page.
#[doc(hidden)]
impl AsClient for crate::blocking::Client {
    fn as_client(&self) -> &Client {
        self.async_client()
    }
}

impl<C: AsClient + ?Sized> AsClient for &C {
    fn as_client(&self) -> &Client {
        (**self).as_client()
    }
}

impl<C: AsClient + ?Sized> AsClient for Arc<C> {
    fn as_client(&self) -> &Client {
        (**self).as_client()
    }
}
