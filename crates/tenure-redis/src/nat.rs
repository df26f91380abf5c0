//! Where servers are reached that announce other addresses: behind NAT, in a container network, through forwarded ports.
//!
//! A server stays known by the address that it announces; only what is dialled, and the name that TLS verifies, come
//! from here. So a fail-over between servers behind one address is noticed, and answers of servers are compared with
//! one another.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use tenure_core::Error;

use crate::options::Address;

/// Where to reach servers that announce addresses which this client cannot reach: the nodes of a cluster, or the masters
/// that sentinels name. Applies to every address, also to those in [`Topology`](crate::Topology). What is not mapped is
/// reached as it is.
///
/// ```
/// use tenure_redis::{Address, Nat, Options, Route};
///
/// let mut options = Options::default();
/// options.nat = Nat::table([
///     (Address::tcp("10.0.0.5", 7001), Route::new(Address::tcp("lb.example.com", 17001))),
///     (Address::tcp("10.0.0.6", 7001), Route::named(Address::tcp("lb.example.com", 17002), "node-6.internal")),
/// ]);
///
/// // The same, as in a configuration.
/// options.nat = "10.0.0.5:7001=lb.example.com:17001, 10.0.0.6:7001=lb.example.com:17002/node-6.internal".parse()?;
///
/// // By a function, for instance for ports that are forwarded from this machine.
/// options.nat = Nat::with(|announced| match announced {
///     Address::Tcp { port, .. } => Some(Address::tcp("localhost", port + 10_000).into()),
///     _ => None,
/// });
/// # Ok::<_, tenure_core::Error>(())
/// ```
///
/// As text, it is a list of `ANNOUNCED=REACHED`, separated by commas. Both are a host and a port, or both are only a
/// host, for all of its ports. `/NAME` after it is the name that the certificate must have, instead of the host.
#[derive(Clone, Default)]
pub struct Nat(Mapping);

#[derive(Clone, Default)]
enum Mapping {
    #[default]
    None,
    Table(Arc<Table>),
    Function(Arc<Function>),
}

type Function = dyn Fn(&Address) -> Option<Route> + Send + Sync;

#[derive(Debug, Default)]
struct Table {
    addresses: HashMap<Address, Route>,
    /// By host, each with the host and the TLS name that replace it.
    hosts: HashMap<String, (String, Option<String>)>,
}

/// How to reach a server.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Route {
    /// The address to connect to.
    pub address: Address,
    /// The name that its certificate must have; the host of `address` if `None`.
    pub tls_name: Option<String>,
}

impl Route {
    /// Reached at this address.
    pub fn new(address: Address) -> Self {
        Self { address, tls_name: None }
    }

    /// Reached at this address, with a certificate for this name.
    pub fn named(address: Address, tls_name: impl Into<String>) -> Self {
        Self { address, tls_name: Some(tls_name.into()) }
    }
}

impl From<Address> for Route {
    fn from(address: Address) -> Self {
        Self::new(address)
    }
}

impl Nat {
    /// Maps these announced addresses.
    pub fn table(entries: impl IntoIterator<Item = (Address, Route)>) -> Self {
        let addresses = entries.into_iter().map(|(from, to)| (normalised(&from), to)).collect();
        Self(Mapping::Table(Arc::new(Table { addresses, ..Table::default() })))
    }

    /// Calls a function at each connect, with the address that is announced or configured. `None` means that it is
    /// reached as it is. It must not block.
    pub fn with(route: impl Fn(&Address) -> Option<Route> + Send + Sync + 'static) -> Self {
        Self(Mapping::Function(Arc::new(route)))
    }

    /// Whether there is a mapping at all.
    pub(crate) fn is_set(&self) -> bool {
        !matches!(self.0, Mapping::None)
    }

    /// How to reach this address, if it is mapped.
    pub(crate) fn route(&self, announced: &Address) -> Option<Route> {
        match &self.0 {
            Mapping::None => None,
            Mapping::Function(route) => route(announced),
            Mapping::Table(table) => table.route(&normalised(announced)),
        }
    }
}

impl Table {
    fn route(&self, announced: &Address) -> Option<Route> {
        if let Some(route) = self.addresses.get(announced) {
            return Some(route.clone());
        }
        let Address::Tcp { host, port } = announced else { return None };
        let (host, tls_name) = self.hosts.get(host)?.clone();
        Some(Route { address: Address::tcp(host, *port), tls_name })
    }
}

impl fmt::Debug for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Mapping::None => f.write_str("none"),
            Mapping::Function(_) => f.write_str("called at each connect"),
            Mapping::Table(table) => table.fmt(f),
        }
    }
}

/// The text is described at [`Nat`].
impl FromStr for Nat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut table = Table::default();
        for entry in text.split(',').map(str::trim) {
            table.add(entry).map_err(Error::Config)?;
        }
        Ok(Self(Mapping::Table(Arc::new(table))))
    }
}

impl Table {
    fn add(&mut self, entry: &str) -> Result<(), String> {
        // First, so that no other error quotes a login.
        if entry.contains('@') {
            return Err("an address cannot contain a login: set user and password instead".to_owned());
        }
        if entry.is_empty() {
            return Err("an entry is empty".to_owned());
        }
        let wrong = |why: &str| format!("{entry:?}: {why}");
        if entry.contains("://") {
            return Err(wrong("write addresses without a scheme, as host:port"));
        }
        let (announced, reached) = entry.split_once('=').ok_or_else(|| {
            wrong("expected the announced address, `=`, and the address to connect to instead")
        })?;
        let (reached, name) = match reached.split_once('/') {
            Some((reached, name)) => (reached, Some(tls_name(name.trim()).map_err(|why| wrong(&why))?)),
            None => (reached, None),
        };
        let announced = host_and_port(announced.trim()).map_err(|why| wrong(&why))?;
        let reached = host_and_port(reached.trim()).map_err(|why| wrong(&why))?;
        let is_new = match (announced, reached) {
            ((host, Some(port)), (to, Some(to_port))) => {
                let announced = normalised(&Address::tcp(host, port));
                let route = Route { address: Address::tcp(to, to_port), tls_name: name };
                self.addresses.insert(announced, route).is_none()
            }
            ((host, None), (to, None)) => self.hosts.insert(normalised_host(&host), (to, name)).is_none(),
            ((_, Some(_)), (_, None)) | ((_, None), (_, Some(_))) => {
                return Err(wrong("one side has a port: write a port on both sides, or on neither"));
            }
        };
        if is_new { Ok(()) } else { Err(wrong("its announced address is mapped twice")) }
    }
}

/// Checks the name that a certificate must have.
fn tls_name(name: &str) -> Result<String, String> {
    match tokio_rustls::rustls::pki_types::ServerName::try_from(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(_) => Err("what follows the slash is not the name of a host".to_owned()),
    }
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    let port = |text: &str| match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is not a port")),
        Ok(port) => Ok(Some(port)),
    };
    let (host, port) = if let Some(v6) = text.strip_prefix('[') {
        let (host, rest) = v6.split_once(']').ok_or("a host has no closing bracket")?;
        match rest.strip_prefix(':') {
            Some(text) => (host, port(text)?),
            None if rest.is_empty() => (host, None),
            None => return Err("expected a colon and a port after the closing bracket".to_owned()),
        }
    } else {
        match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err("write an IPv6 address in brackets".to_owned());
            }
            Some((host, text)) => (host, port(text)?),
            None => (text, None),
        }
    };
    if host.is_empty() {
        return Err("a host is missing".to_owned());
    }
    match host.contains(|c: char| c.is_whitespace() || "=/?#".contains(c)) {
        true => Err(format!("{host:?} is not a host")),
        false => Ok((host.to_owned(), port)),
    }
}

/// Equal for two spellings of one address.
fn normalised(address: &Address) -> Address {
    match address {
        Address::Tcp { host, port } => Address::tcp(normalised_host(host), *port),
        unix => unix.clone(),
    }
}

fn normalised_host(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_string(),
        Err(_) => host.to_ascii_lowercase(),
    }
}

/// A server as errors and findings show it: the address that it is known by, and where it is reached, if that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    known_as: Address,
    reached_at: Option<Address>,
}

impl Place {
    pub(crate) fn new(known_as: &Address, route: Option<&Route>) -> Self {
        let reached_at = route.map(|route| route.address.clone()).filter(|at| at != known_as);
        Self { known_as: known_as.clone(), reached_at }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reached_at {
            None => self.known_as.fmt(f),
            Some(at) => write!(f, "{} via {at}", self.known_as),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(nat: &str, host: &str, port: u16) -> Option<(String, Option<String>)> {
        let route = nat.parse::<Nat>().unwrap().route(&Address::tcp(host, port))?;
        Some((route.address.to_string(), route.tls_name))
    }

    #[test]
    fn addresses_and_hosts_are_mapped_however_they_are_spelt() {
        let nat = "10.0.0.5:7001=lb:17001, 10.0.0.5=other/node, [fd00::5]:1=[fd00::6]:2, Node.Internal:3=x:4";
        let plain = |address: &str| Some((address.to_owned(), None));
        assert_eq!(route(nat, "10.0.0.5", 7001), plain("lb:17001"));
        assert_eq!(route(nat, "10.0.0.5", 7002), Some(("other:7002".to_owned(), Some("node".to_owned()))));
        assert_eq!(route(nat, "fd00:0:0::5", 1), plain("[fd00::6]:2"));
        assert_eq!(route(nat, "node.INTERNAL", 3), plain("x:4"));
        for (host, port) in [("10.0.0.6", 7001), ("lb", 17001), ("node.internal", 4)] {
            assert_eq!(route(nat, host, port), None, "{host}:{port}");
        }
        assert_eq!(nat.parse::<Nat>().unwrap().route(&Address::Unix("10.0.0.5".into())), None);
        let none = Nat::default();
        assert!(!none.is_set() && none.route(&Address::tcp("10.0.0.5", 7001)).is_none());
    }

    #[test]
    fn malformed_entries_say_what_is_wrong() {
        for (text, says) in [
            ("", "an entry is empty"),
            ("a:1=b:2,", "an entry is empty"),
            ("a:1", "expected the announced address"),
            ("a:1=b", "write a port on both sides, or on neither"),
            ("a=b:1", "write a port on both sides, or on neither"),
            ("a:1=", "a host is missing"),
            ("=b:1", "a host is missing"),
            ("a:0=b:1", "\"0\" is not a port"),
            ("a:1=b:70000", "\"70000\" is not a port"),
            ("redis://a:1=b:1", "without a scheme"),
            ("::1:7=b:1", "in brackets"),
            ("[::1=b:1", "closing bracket"),
            ("[::1]7=b:1", "colon and a port"),
            ("a:1=b:1/", "not the name of a host"),
            ("a:1=b:1/x y", "not the name of a host"),
            ("a:1=b:1,A:1=c:1", "\"A:1=c:1\": its announced address is mapped twice"),
            ("a=b,a=c", "mapped twice"),
            ("a b:1=c:1", "\"a b\" is not a host"),
            ("a=b=c", "\"b=c\" is not a host"),
        ] {
            let error = text.parse::<Nat>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let login = "me:hunter2@a:1=b:1".parse::<Nat>().unwrap_err().to_string();
        assert!(login.contains("login") && !login.contains("hunter2"), "{login}");
    }

    #[test]
    fn both_addresses_are_shown() {
        let known_as = Address::tcp("10.0.0.5", 7001);
        let shown = |route: Option<Route>| Place::new(&known_as, route.as_ref()).to_string();
        assert_eq!(shown(Some(Address::tcp("lb", 17001).into())), "10.0.0.5:7001 via lb:17001");
        assert_eq!(shown(Some(Route::named(known_as.clone(), "x"))), "10.0.0.5:7001");
        assert_eq!(shown(None), "10.0.0.5:7001");
    }
}
