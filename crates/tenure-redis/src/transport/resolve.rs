//! Resolves a host to its addresses, at each connect. Nothing is cached.

use std::net::SocketAddr;
use std::sync::Arc;
use std::{fmt, io};

type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The system's resolver, unless another one is given.
#[derive(Clone, Default)]
pub(crate) struct Resolver(pub(crate) Option<Arc<Lookup>>);

impl Resolver {
    /// All addresses, in random order: this spreads the load, and a server that is down is not always tried first.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let mut all = match &self.0 {
            Some(lookup) => lookup(host, port)?,
            None => tokio::net::lookup_host((host, port)).await?.collect(),
        };
        if all.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name stands for no address"));
        }
        fastrand::shuffle(&mut all);
        Ok(all)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "given" } else { "of the system" })
    }
}
