//! Addresses: a store and its options in one line. An address is parsed into configuration keys.
//!
//! Errors never quote parts that may belong to a password which was not percent-encoded.

use std::fmt;

use tenure_core::{Error, Result};

use crate::config::keys::{self, About, KEYS, Key};
use crate::config::raw::{Given, Origin};
use crate::config::suggest::hint;

/// A parsed address: `scheme:rest?option=value&…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) given: Given,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// `Config` when it does not match the syntax of its scheme, or has an unknown option.
    pub fn parse(address: &str) -> Result<Self> {
        let given = Parts::of(address, &Origin::Address("address".to_owned()))?.given()?;
        Ok(Self { given })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Address");
        for setting in self.given.iter() {
            shown.field(setting.key.name, &setting.shown());
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

/// The parts of an address, and the keys parsed so far.
pub(crate) struct Parts<'a> {
    scheme: &'a str,
    rest: &'a str,
    query: &'a str,
    from: Origin,
    given: Given,
}

impl<'a> Parts<'a> {
    /// Splits an address; `from` is its origin.
    pub(crate) fn of(address: &'a str, from: &Origin) -> Result<Self> {
        let expected = || SCHEMES.join(", ");
        let Some((scheme, rest)) = address.split_once(':') else {
            let why = format!(
                "no scheme: expected one of {}, such as memory: or sqlite:PATH{}",
                expected(),
                hint(address, SCHEMES.iter().copied())
            );
            return Err(from.wrong(keys::URL, why));
        };
        let from = match from {
            Origin::Address(_) => Origin::Address(scheme.to_owned()),
            elsewhere => elsewhere.clone(),
        };
        if !SCHEMES.contains(&scheme) && address != WITHHELD {
            let hint = hint(scheme, SCHEMES.iter().copied()).replace('?', ":?");
            let why = format!("unknown scheme {scheme:?}: expected one of {}{hint}", expected());
            return Err(from.wrong(keys::URL, why));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        Ok(Self { scheme, rest, query, from, given: Given::default() })
    }

    fn wrong(&self, why: impl fmt::Display) -> Error {
        self.from.wrong(keys::URL, why)
    }

    fn say(&mut self, key: &'static str, text: impl Into<String>) -> Result<()> {
        let key = Key::named(key).expect("a key of the table");
        self.given.say(key, text, &self.from)
    }

    /// Parses all keys of the address.
    pub(crate) fn given(mut self) -> Result<Given> {
        let (base, deployment) = self.scheme.split_once('+').unwrap_or((self.scheme, ""));
        let kind = match (base, deployment) {
            ("redis" | "rediss", "sentinel") => "redis-sentinel",
            ("redis" | "rediss", "cluster") => "redis-cluster",
            ("rediss", _) => "redis",
            (base, _) => base,
        };
        self.say("type", kind)?;
        if base == "rediss" || deployment == "tls" {
            self.say("tls", "true")?;
        }
        let local = self.rest.strip_prefix("//").unwrap_or(self.rest);
        match (kind, deployment) {
            ("memory" | "withheld", _) if local.is_empty() => {}
            ("memory", _) => return Err(self.wrong("memory: takes no path")),
            ("sqlite", _) if local.is_empty() => {}
            ("sqlite", _) => self.say("path", local)?,
            ("redis", "unix") if local.is_empty() => {
                return Err(self.wrong("expected the path of a socket"));
            }
            ("redis", "unix") => self.say_decoded("socket", local)?,
            ("redlock", _) if local.contains("://") => self.say("nodes", local)?,
            _ => self.servers(kind)?,
        }
        self.options()?;
        Ok(self.given.named_by_address())
    }

    /// `//[user:password@]host[:port],…[/path]`
    fn servers(&mut self, kind: &str) -> Result<()> {
        let scheme = self.scheme;
        let rest = self.rest.strip_prefix("//");
        let rest = rest.ok_or_else(|| self.wrong(format!("expected {scheme}://host")))?;
        let (servers, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') {
            return Err(self.wrong("an @ after the first /: in a password a / is written %2F"));
        }
        let hosts = match servers.rsplit_once('@') {
            Some((login, hosts)) => {
                let (user, password) = login.split_once(':').unwrap_or((login, ""));
                for (key, text) in [("user", user), ("password", password)] {
                    if !text.is_empty() {
                        self.say_decoded(key, text)?;
                    }
                }
                hosts
            }
            None => servers,
        };
        match (kind, hosts) {
            ("redlock", "") => return Err(self.wrong("expected redlock://host,host,host")),
            (_, "") => self.say("nodes", "localhost")?,
            ("redis", many) if many.contains(',') => {
                return Err(self.wrong(format!(
                    "one server expected, {} given: did you mean redis+cluster:// or redis+sentinel://?",
                    many.split(',').count()
                )));
            }
            (_, hosts) => self.say("nodes", hosts)?,
        }
        self.path(kind, path)
    }

    fn path(&mut self, kind: &str, path: &str) -> Result<()> {
        if kind == "zookeeper" {
            let path = path.trim_end_matches('/');
            return if path.is_empty() { Ok(()) } else { self.say_decoded("chroot", &format!("/{path}")) };
        }
        let mut parts = path.split('/').filter(|p| !p.is_empty());
        if kind == "redis-sentinel"
            && let Some(master) = parts.next()
        {
            self.say_decoded("master", master)?;
        }
        if let Some(db) = parts.next() {
            self.say("db", db)?;
        }
        match parts.next() {
            Some(more) => Err(self.wrong(format!("{more:?} is too much in the path"))),
            None => Ok(()),
        }
    }

    fn options(&mut self) -> Result<()> {
        let query = self.query;
        for option in query.split('&').filter(|o| !o.is_empty()) {
            // If a password contains an unescaped `?`, its end looks like an option.
            let quoted =
                |text: &str| if option.contains('@') { "here".to_owned() } else { format!("{text:?}") };
            let Some((name, value)) = option.split_once('=') else {
                return Err(self.wrong(format!("option {} has no value", quoted(option))));
            };
            let known = || KEYS.iter().filter(|k| k.about != About::Place);
            let Some(key) = known().find(|k| k.name == name) else {
                let hint = keys::hint(name, known().map(|k| k.name));
                return Err(self.wrong(format!("unknown option {}{hint}", quoted(name))));
            };
            match key.name {
                "prefix" | "client_name" | "sentinel_user" | "sentinel_password" => {
                    self.say_decoded(key.name, value)?;
                }
                name => self.say(name, value)?,
            }
        }
        Ok(())
    }

    fn say_decoded(&mut self, key: &'static str, text: &str) -> Result<()> {
        let Some(text) = decoded(text) else {
            return Err(self.from.wrong(key, "is not percent-encoded text: a % itself is written %25"));
        };
        self.say(key, text)
    }
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = after.get(..2).and_then(|h| std::str::from_utf8(h).ok())?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        rest = &after[2..];
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
            ("memory:?session=1s", "only zookeeper has it, and type is memory"),
            ("memory:?durability=2", "expected master, or replicas:N"),
            ("memory:?durability=replicas:0", "expected master, or replicas:N"),
            ("memory:?durability=replicas:2", "durability replicas:2 is not supported"),
            ("memory:?durabilty=master", "did you mean durability?"),
            ("memory:?warn_held=30", "is not a duration"),
            ("memory:?deadlocks=yes", "\"yes\" is no way to treat deadlocks"),
            ("memory:?deadlock=report", "did you mean deadlocks?"),
        ] {
            let error = connect(address).await.unwrap_err().to_string();
            assert!(error.contains(says), "{address}: {error}");
        }
    }

    #[tokio::test]
    async fn settings_in_the_address_win() {
        let client = connect("memory:?lease=3s&poll=100ms&durability=master&warn_held=1m&deadlocks=report");
        let client = client.await.unwrap();
        assert_eq!(client.settings().warn_held, Some(Duration::from_secs(60)));
        assert_eq!(client.settings().deadlocks, tenure_core::Deadlocks::Report);
        assert_eq!(client.settings().lease, Duration::from_secs(3));
        assert_eq!(client.settings().poll, Some(Duration::from_millis(100)));
    }

    /// Passwords that should have been percent-encoded, with each character that changes how the address is split.
    #[test]
    fn no_part_of_a_password_is_told() {
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
                        a.given.plan(Settings::default()).map(drop)
                    });
                    let Err(error) = outcome else { continue };
                    let error = error.to_string();
                    assert!(!error.contains("hun") && !error.contains("er2"), "{text}: {error}");
                }
            }
        }
    }
}
