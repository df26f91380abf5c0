//! Addresses: one line that says which store, and how.

#[cfg(any(feature = "redis", feature = "zookeeper"))]
mod parts;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redlock;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Backend, Client, Error, Memory, Result, Settings};

/// A client of the store at `address`, such as `memory:` or `sqlite:/var/lib/app/locks.db?lease=10s`.
///
/// # Errors
/// `Config` when the address is not understood, says something unknown, or names what cannot be a store; `Unsupported`
/// when it asks the store for more than it can; `Unavailable` when the store does not answer.
pub async fn connect(address: &str) -> Result<Client> {
    connect_with(address, Settings::default()).await
}

/// The same, beginning from other settings; those in the address win.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(address: &str, settings: Settings) -> Result<Client> {
    let mut address = Address::parse(address)?;
    let settings = address.settings(settings)?;
    let backend = address.open().await?;
    backend.info().require_durability(settings.durability)?;
    Ok(Client::with(backend, settings))
}

/// The store at `address` alone, for a client of one's own making.
///
/// # Errors
/// As [`connect`].
pub async fn open(address: &str) -> Result<Arc<dyn Backend>> {
    let mut address = Address::parse(address)?;
    address.settings(Settings::default())?;
    address.open().await
}

/// A store that an address names, not yet opened.
enum Place {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf, tenure_sqlite::Options),
    #[cfg(feature = "redis")]
    Redis(Box<tenure_redis::Options>),
    #[cfg(feature = "redis")]
    Redlock(Box<redlock::Nodes>),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(Box<tenure_zookeeper::Options>),
}

/// An address taken apart: `scheme:rest?option=value&…`.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    scheme: String,
    rest: String,
    options: BTreeMap<String, String>,
    /// The options that were asked for so far, to name the nearest of them in an error.
    known: Vec<&'static str>,
}

impl Address {
    /// Takes an address apart.
    ///
    /// # Errors
    /// `Config` when it has no scheme or an option without a value.
    pub fn parse(address: &str) -> Result<Self> {
        let wrong = |what: String| Error::Config(format!("address {address:?}: {what}"));
        let Some((scheme, rest)) = address.split_once(':') else {
            return Err(wrong(format!(
                "no scheme: expected one of {}, such as memory: or sqlite:PATH",
                schemes().join(", ")
            )));
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = BTreeMap::new();
        for option in query.split('&').filter(|o| !o.is_empty()) {
            let (key, value) =
                option.split_once('=').ok_or_else(|| wrong(format!("option {option:?} has no value")))?;
            if options.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(wrong(format!("option {key:?} is given twice")));
            }
        }
        Ok(Self { scheme: scheme.to_owned(), rest: rest.to_owned(), options, known: Vec::new() })
    }

    /// Takes an option out.
    fn take(&mut self, key: &'static str) -> Option<String> {
        self.known.push(key);
        self.options.remove(key)
    }

    fn duration(&mut self, key: &'static str, into: &mut Duration) -> Result<()> {
        if let Some(text) = self.take(key) {
            *into = parse_duration(&text).map_err(|e| Error::Config(format!("option {key}={text}: {e}")))?;
        }
        Ok(())
    }

    fn settings(&mut self, mut settings: Settings) -> Result<Settings> {
        self.duration("lease", &mut settings.lease)?;
        self.duration("call_timeout", &mut settings.call_timeout)?;
        self.duration("outage", &mut settings.outage)?;
        self.duration("close_timeout", &mut settings.close_timeout)?;
        let mut poll = Duration::ZERO;
        self.duration("poll", &mut poll)?;
        if !poll.is_zero() {
            settings.poll = Some(poll);
        }
        let mut warn_held = Duration::ZERO;
        self.duration("warn_held", &mut warn_held)?;
        if !warn_held.is_zero() {
            settings.warn_held = Some(warn_held);
        }
        if let Some(text) = self.take("deadlocks") {
            settings.deadlocks =
                text.parse().map_err(|e| Error::Config(format!("option deadlocks={text}: {e}")))?;
        }
        if let Some(text) = self.take("durability") {
            let durability = text.parse();
            settings.durability =
                durability.map_err(|e| Error::Config(format!("option durability={text}: {e}")))?;
        }
        Ok(settings)
    }

    /// Opens the store, once all that the address says is understood.
    async fn open(&mut self) -> Result<Arc<dyn Backend>> {
        let place = self.place()?;
        self.finish()?;
        Ok(match place {
            Place::Memory => Arc::new(Memory::new()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(path, options) => Arc::new(tenure_sqlite::open(&path, options)?),
            #[cfg(feature = "redis")]
            Place::Redis(options) => Arc::new(tenure_redis::Redis::open(*options).await?),
            #[cfg(feature = "redis")]
            Place::Redlock(nodes) => nodes.open().await?,
            #[cfg(feature = "zookeeper")]
            Place::ZooKeeper(options) => Arc::new(tenure_zookeeper::ZooKeeper::open(*options).await?),
        })
    }

    fn place(&mut self) -> Result<Place> {
        match self.scheme.as_str() {
            "memory" if self.rest.is_empty() => Ok(Place::Memory),
            "memory" => Err(Error::Config(format!("memory: takes no path, but {:?} was given", self.rest))),
            "sqlite" => self.sqlite(),
            "redlock" => self.redlock(),
            "zookeeper" | "zookeeper+tls" => self.zookeeper(),
            other if REDIS.contains(&other) => self.redis(),
            other => {
                let hint =
                    nearest(other, &schemes()).map(|s| format!("; did you mean {s}:?")).unwrap_or_default();
                Err(Error::Config(format!(
                    "unknown scheme {other:?}: expected one of {}{hint}",
                    schemes().join(", ")
                )))
            }
        }
    }

    #[cfg(feature = "sqlite")]
    fn sqlite(&mut self) -> Result<Place> {
        let mut options = tenure_sqlite::Options::default();
        match self.take("network_fs").as_deref() {
            None | Some("refuse") => {}
            Some("allow") => options.network_fs = true,
            Some(other) => {
                return Err(Error::Config(format!("option network_fs={other}: expected allow or refuse")));
            }
        }
        let path = match self.rest.strip_prefix("//").unwrap_or(&self.rest) {
            "" => tenure_sqlite::default_path().path,
            path => path.into(),
        };
        Ok(Place::Sqlite(path, options))
    }

    #[cfg(not(feature = "sqlite"))]
    fn sqlite(&mut self) -> Result<Place> {
        Err(Error::Config("sqlite: is not compiled in: enable the cargo feature \"sqlite\" of tenure".into()))
    }

    #[cfg(not(feature = "redis"))]
    fn redlock(&mut self) -> Result<Place> {
        self.redis()
    }

    #[cfg(not(feature = "redis"))]
    fn redis(&mut self) -> Result<Place> {
        let scheme = &self.scheme;
        Err(Error::Config(format!(
            "{scheme}: is not compiled in: enable the cargo feature \"redis\" of tenure"
        )))
    }

    #[cfg(not(feature = "zookeeper"))]
    fn zookeeper(&mut self) -> Result<Place> {
        let scheme = &self.scheme;
        Err(Error::Config(format!(
            "{scheme}: is not compiled in: enable the cargo feature \"zookeeper\" of tenure"
        )))
    }

    /// Refuses what nobody asked for.
    fn finish(&self) -> Result<()> {
        let Some(key) = self.options.keys().next() else { return Ok(()) };
        let hint = nearest(key, &self.known).map(|k| format!("; did you mean {k}?")).unwrap_or_default();
        Err(Error::Config(format!(
            "{}: unknown option {key:?}{hint} (known: {})",
            self.scheme,
            self.known.join(", ")
        )))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest may hold a password.
        f.debug_struct("Address").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

const REDIS: &[&str] = &[
    "redis",
    "rediss",
    "redis+unix",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
];

fn schemes() -> Vec<&'static str> {
    ["memory", "sqlite"]
        .into_iter()
        .chain(REDIS.iter().copied())
        .chain(["redlock", "zookeeper", "zookeeper+tls"])
        .collect()
}

/// The one that differs least, if that is little.
fn nearest<'a>(word: &str, from: &[&'a str]) -> Option<&'a str> {
    from.iter().map(|&w| (distance(word, w), w)).filter(|(d, _)| *d <= 2).min().map(|(_, w)| w)
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// A duration as people write it: `300ms`, `30s`, `5m`, `2h`, `1d`, or sums such as `1m30s`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_duration(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || {
        format!("{text:?} is not a duration: expected a number with a unit, such as 300ms, 30s, 5m or 1h30m")
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        total += Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        rest = &rest[unit..];
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Deadlocks;

    #[test]
    fn durations() {
        for (text, ms) in
            [("300ms", 300), ("30s", 30_000), ("1.5s", 1500), ("1h30m", 5_400_000), ("1m 30s", 0)]
        {
            match parse_duration(text) {
                Ok(d) => assert_eq!(d.as_millis(), ms, "{text}"),
                Err(_) => assert_eq!(ms, 0, "{text}"),
            }
        }
        for bad in ["", "5", "s", "5x", "-1s", "1e9d"] {
            assert!(parse_duration(bad).unwrap_err().contains("not a duration"), "{bad}");
        }
    }

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
            ("memory:?durability=2", "expected master, or replicas:N"),
            ("memory:?durability=replicas:0", "expected master, or replicas:N"),
            ("memory:?durability=replicas:2", "durability replicas:2 is not supported"),
            ("memory:?durabilty=master", "did you mean durability?"),
            ("memory:?warn_held=30", "option warn_held=30: \"30\" is not a duration"),
            ("memory:?deadlocks=yes", "option deadlocks=yes: \"yes\" is no way to treat deadlocks"),
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
        assert_eq!(client.settings().deadlocks, Deadlocks::Report);
        assert_eq!(client.settings().lease, Duration::from_secs(3));
        assert_eq!(client.settings().poll, Some(Duration::from_millis(100)));
    }
}
