//! Addresses: a store and its options in one line. An address is parsed into configuration keys.
//!
//! Errors never quote parts that may belong to a password which was not percent-encoded.

use std::fmt;

use tenure_core::{Error, Result};

use crate::config::keys::{self, KEYS, Key, Scope, StoreType};
use crate::config::raw::{Origin, RawConfig};
use crate::config::suggest::did_you_mean;

/// A parsed address: `scheme:rest?option=value&…`. [`connect`](crate::connect) parses addresses itself; this is for
/// programs that check one before they use it, or show one without its password.
///
/// ```
/// # fn main() -> tenure::Result<()> {
/// let address = tenure::Address::parse("redis://:secret@cache-1?lease=10s")?;
/// assert!(!format!("{address:?}").contains("secret"));
/// assert!(tenure::Address::parse("redsi://cache-1").is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) raw: RawConfig,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// `Config` when it does not match the syntax of its scheme, or has an unknown option.
    pub fn parse(address: &str) -> Result<Self> {
        let raw = parse(address, &Origin::Address("address".to_owned()))?;
        Ok(Self { raw })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Address");
        for setting in self.raw.iter() {
            shown.field(setting.key.name, &setting.masked());
        }
        shown.finish()
    }
}

const SCHEMES: &[&str] = &[
    "memory",
    "sqlite",
    "redis",
    "rediss",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "redlock",
    "zookeeper",
    "zookeeper+tls",
];

/// What `tenure run` puts into `TENURE_URL` instead of an address with a password. It cannot be opened, but another
/// address overrides it.
#[doc(hidden)]
pub const WITHHELD: &str = "withheld:";

/// Reads an address, which comes from `origin`, with everything that is wrong in it.
pub(crate) fn read(address: &str, origin: &Origin) -> RawConfig {
    match Parser::new(address, origin) {
        Ok(parser) => parser.read(),
        Err(error) => RawConfig::failed(error),
    }
}

/// Parses an address, which comes from `origin`.
pub(crate) fn parse(address: &str, origin: &Origin) -> Result<RawConfig> {
    read(address, origin).strict()
}

/// The type of store that an address names.
pub(crate) fn store_type(address: &str) -> Option<StoreType> {
    StoreType::named(type_name(address.split_once(':')?.0))
}

/// The type that a scheme stands for.
fn type_name(scheme: &str) -> &str {
    match scheme.split_once('+').unwrap_or((scheme, "")) {
        ("redis" | "rediss", "sentinel") => "redis-sentinel",
        ("redis" | "rediss", "cluster") => "redis-cluster",
        ("rediss", _) => "redis",
        (base, _) => base,
    }
}

/// The parts of an address, and the keys parsed so far.
struct Parser<'a> {
    scheme: &'a str,
    rest: &'a str,
    query: &'a str,
    origin: Origin,
    raw: RawConfig,
}

impl<'a> Parser<'a> {
    /// Splits the address into its parts.
    fn new(address: &'a str, origin: &Origin) -> Result<Self> {
        let expected = || SCHEMES.join(", ");
        let Some((scheme, rest)) = address.split_once(':') else {
            let why = format!(
                "no scheme: expected one of {}, such as memory: or sqlite:PATH{}",
                expected(),
                did_you_mean(address, SCHEMES.iter().copied())
            );
            return Err(origin.error(keys::URL, why));
        };
        let origin = match origin {
            Origin::Address(_) => Origin::Address(scheme.to_owned()),
            other => other.clone(),
        };
        if !SCHEMES.contains(&scheme) && address != WITHHELD {
            let hint = did_you_mean(scheme, SCHEMES.iter().copied()).replace('?', ":?");
            let why = format!("unknown scheme {scheme:?}: expected one of {}{hint}", expected());
            return Err(origin.error(keys::URL, why));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        Ok(Self { scheme, rest, query, origin, raw: RawConfig::default() })
    }

    fn error(&self, why: impl fmt::Display) -> Error {
        self.origin.error(keys::URL, why)
    }

    #[expect(
        clippy::expect_used,
        reason = "callers name keys that are in the table, whatever the address is"
    )]
    fn set(&mut self, key: &'static str, value: impl Into<String>) -> Result<()> {
        let key = Key::named(key).expect("a key of the table");
        self.raw.set(key, value, &self.origin)
    }

    /// Reads all keys of the address.
    fn read(mut self) -> RawConfig {
        if let Err(error) = self.parse_location() {
            match Key::named("nodes") {
                Some(nodes) => self.raw.keep_unread(nodes, error),
                None => self.raw.keep_error(Err(error)),
            }
        }
        for option in self.query.split('&').filter(|o| !o.is_empty()) {
            let outcome = self.parse_option(option);
            self.raw.keep_error(outcome);
        }
        self.raw.with_address()
    }

    /// The part before the `?`.
    fn parse_location(&mut self) -> Result<()> {
        let (base, deployment) = self.scheme.split_once('+').unwrap_or((self.scheme, ""));
        let kind = type_name(self.scheme);
        self.set("type", kind)?;
        if base == "rediss" || deployment == "tls" {
            self.set("tls", "true")?;
        }
        let local = self.rest.strip_prefix("//").unwrap_or(self.rest);
        match (kind, deployment) {
            ("memory" | "withheld", _) if local.is_empty() => {}
            ("memory", _) => return Err(self.error("memory: takes no path")),
            ("sqlite", _) if local.is_empty() => {}
            ("sqlite", _) => self.set("path", local)?,
            ("redis", "unix") if local.is_empty() => {
                return Err(self.error("expected the path of a socket"));
            }
            ("redis", "unix") => self.set_decoded("socket", local)?,
            ("redlock", _) if local.contains("://") => self.set("nodes", local)?,
            _ => self.parse_servers(kind)?,
        }
        Ok(())
    }

    /// `//[user:password@]host[:port],…[/path]`
    fn parse_servers(&mut self, kind: &str) -> Result<()> {
        let scheme = self.scheme;
        let rest = self.rest.strip_prefix("//");
        let rest = rest.ok_or_else(|| self.error(format!("expected {scheme}://host")))?;
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(self.error("there is an @ after the first /: write a / in a password as %2F"));
        }
        let hosts = match servers.rsplit_once('@') {
            Some((login, hosts)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                for (key, text) in [("user", user), ("password", password)] {
                    if !text.is_empty() {
                        self.set_decoded(key, text)?;
                    }
                }
                hosts
            }
            None => servers,
        };
        match (kind, hosts) {
            ("redlock", "") => return Err(self.error("expected redlock://host,host,host")),
            (_, "") => self.set("nodes", "localhost")?,
            ("redis", many) if many.contains(',') => {
                return Err(self.error(format!(
                    "expected one server, found {}: did you mean redis+cluster:// or redis+sentinel://?",
                    many.split(',').count()
                )));
            }
            (_, hosts) => self.set("nodes", hosts)?,
        }
        self.parse_path(kind, path)
    }

    fn parse_path(&mut self, kind: &str, path: &str) -> Result<()> {
        if kind == "zookeeper" {
            let path = path.trim_end_matches('/');
            return if path.is_empty() { Ok(()) } else { self.set_decoded("chroot", &format!("/{path}")) };
        }
        let mut parts = path.split('/').filter(|p| !p.is_empty());
        if kind == "redis-sentinel"
            && let Some(master) = parts.next()
        {
            self.set_decoded("master", master)?;
        }
        if let Some(db) = parts.next() {
            self.set("db", db)?;
        }
        match parts.next() {
            Some(more) => Err(self.error(format!("{more:?} is not expected in the path"))),
            None => Ok(()),
        }
    }

    fn parse_option(&mut self, option: &str) -> Result<()> {
        // If a password contains an unescaped `?`, its end looks like an option.
        let quoted =
            |text: &str| if self.query.contains('@') { "here".to_owned() } else { format!("{text:?}") };
        let Some((name, value)) = option.split_once('=') else {
            return Err(self.error(format!("option {} has no value", quoted(option))));
        };
        let is_option = |key: &&Key| key.scope != Scope::Location;
        let Some(key) = KEYS.iter().filter(is_option).find(|k| k.name == name) else {
            let store = StoreType::named(type_name(self.scheme));
            let known = Key::of(store).filter(is_option).map(|key| key.name);
            let hint = keys::did_you_mean(name, known);
            return Err(self.error(format!("unknown option {}{hint}", quoted(name))));
        };
        match key.name {
            "prefix" | "client_name" | "sentinel_user" | "sentinel_password" => {
                self.set_decoded(key.name, value)
            }
            name => self.set(name, value),
        }
    }

    fn set_decoded(&mut self, key: &'static str, text: &str) -> Result<()> {
        let Some(text) = decode(text) else {
            return Err(self.origin.error(key, "is not percent-encoded: write a % as %25"));
        };
        self.set(key, text)
    }
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (hex, after) = after.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect;
    use std::time::Duration;
    use tenure_core::Settings;

    #[tokio::test]
    async fn wrong_addresses_say_what_is_wrong() {
        for (address, says) in [
            ("orders", "no scheme"),
            ("memry:", "did you mean memory:?"),
            ("memory:x", "takes no path"),
            ("memory:?leese=3s", "did you mean lease?"),
            ("memory:?lease=3", "not a duration"),
            ("memory:?lease", "has no value"),
            ("memory:?lease=1s&lease=2s", "twice"),
            ("memory:?chroot=/x", "unknown option"),
            ("memory:?session=1s", "only supported by zookeeper, but type is memory"),
            ("memory:?durability=2", "expected master, or replicas:N"),
            ("memory:?durability=replicas:0", "expected master, or replicas:N"),
            ("memory:?durability=replicas:2", "durability replicas:2 is not supported"),
            ("memory:?durabilty=master", "did you mean durability?"),
            ("memory:?warn_held=30", "is not a duration"),
            ("memory:?local_handover=no", "is not a duration"),
            ("memory:?deadlocks=yes", "\"yes\" is no way to treat deadlocks"),
            ("memory:?deadlock=report", "did you mean deadlocks?"),
        ] {
            let error = connect(address).await.unwrap_err().to_string();
            assert!(error.contains(says), "{address}: {error}");
        }
    }

    #[tokio::test]
    async fn settings_in_the_address_win() {
        for (set, bound) in [("5ms", Some(5)), ("20ms", Some(20)), ("0s", None), ("off", None)] {
            let client = connect(&format!("memory:?local_handover={set}")).await.unwrap();
            assert_eq!(client.settings().local_handover, bound.map(Duration::from_millis), "{set}");
        }
        let default = connect("memory:").await.unwrap().settings().local_handover;
        assert_eq!(default, Some(Duration::from_millis(5)));
        let client = connect("memory:?lease=3s&poll=100ms&durability=master&warn_held=1m&deadlocks=report");
        let client = client.await.unwrap();
        assert_eq!(client.settings().warn_held, Some(Duration::from_secs(60)));
        assert_eq!(client.settings().deadlocks, tenure_core::Deadlocks::Report);
        assert_eq!(client.settings().lease, Duration::from_secs(3));
        assert_eq!(client.settings().poll, Some(Duration::from_millis(100)));
    }

    /// Passwords that should have been percent-encoded, with each character that changes how the address is split.
    #[test]
    fn no_part_of_a_password_is_in_an_error() {
        for password in [
            "hun%ter2",
            "hun/ter2",
            "hun?ter2",
            "hun?t=er2",
            "1/hunter2",
            "1?hun=ter2",
            "hun#ter2",
            "hun,ter2",
        ] {
            for scheme in ["redis", "redis+sentinel", "redis+cluster", "redlock", "zookeeper"] {
                for rest in ["h:1", "h:x", "h?leese=1s", "h?lease", "h/1/2/3", "h?lease=5"] {
                    let text = format!("{scheme}://me:{password}@{rest}");
                    let outcome = Address::parse(&text).and_then(|a| {
                        let shown = format!("{a:?}");
                        assert!(!shown.contains("hun") && !shown.contains("er2"), "{text}: {shown}");
                        a.raw.validate(Settings::default()).map(drop)
                    });
                    let Err(error) = outcome else { continue };
                    let error = error.to_string();
                    assert!(!error.contains("hun") && !error.contains("er2"), "{text}: {error}");
                }
            }
        }
    }
}
