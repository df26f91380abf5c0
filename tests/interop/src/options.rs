//! Where and how a peer connects, as words of its command line.

use std::time::Duration;

/// Addresses of the servers, each `HOST:PORT`.
#[derive(Clone, Debug)]
pub enum Address {
    /// One server.
    Single(String),
    /// The master of this name, found through these sentinels.
    Sentinel {
        /// The sentinels.
        nodes: Vec<String>,
        /// The name of the master.
        master: String,
    },
    /// A cluster; these are some of its nodes.
    Cluster(Vec<String>),
}

/// Options of a Redisson client; what is not set keeps Redisson's default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The lease of a lock acquired without one, renewed every third of it.
    pub watchdog: Option<Duration>,
    /// How long the queue position of a fair waiter is kept.
    pub fair_wait: Option<Duration>,
    /// Size of the connection pool per server; connections are opened on demand.
    pub connections: Option<u32>,
    /// Threads for callbacks.
    pub threads: Option<u32>,
    /// Threads for the network.
    pub netty_threads: Option<u32>,
    /// Connections for subscriptions, each of which carries five: a fair waiter needs one of its own.
    pub subscriptions: Option<u32>,
    /// Enables the optimizing JIT compiler, at the cost of a slower start: for benchmarks.
    pub optimised: bool,
}

impl Options {
    /// Small pools that start fast: for tests.
    pub fn small() -> Self {
        Self { connections: Some(8), threads: Some(4), netty_threads: Some(4), ..Self::default() }
    }

    /// Sets the watchdog lease.
    pub fn watchdog(mut self, lease: Duration) -> Self {
        self.watchdog = Some(lease);
        self
    }

    /// The driver's command line.
    pub(crate) fn words(&self, address: &Address) -> Vec<String> {
        let mut words = match address {
            Address::Single(node) => vec![("mode", "single".to_owned()), ("addresses", node.clone())],
            Address::Cluster(nodes) => vec![("mode", "cluster".to_owned()), ("addresses", nodes.join(","))],
            Address::Sentinel { nodes, master } => vec![
                ("mode", "sentinel".to_owned()),
                ("addresses", nodes.join(",")),
                ("master", master.clone()),
            ],
        };
        let millis = |d: Option<Duration>| d.map(|d| d.as_millis().to_string());
        let number = |n: Option<u32>| n.map(|n| n.to_string());
        let given = [
            ("watchdog", millis(self.watchdog)),
            ("fair-wait", millis(self.fair_wait)),
            ("connections", number(self.connections)),
            ("threads", number(self.threads)),
            ("netty-threads", number(self.netty_threads)),
            ("subscriptions", number(self.subscriptions)),
        ];
        words.extend(given.into_iter().filter_map(|(word, value)| Some((word, value?))));
        words.into_iter().flat_map(|(word, value)| [word.to_owned(), value]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_given_is_said() {
        let one = Address::Single("h:1".into());
        assert_eq!(Options::default().words(&one), ["mode", "single", "addresses", "h:1"]);
        let options = Options { watchdog: Some(Duration::from_secs(3)), ..Options::default() };
        let nodes = vec!["h:1".to_owned(), "h:2".to_owned()];
        let words = options.words(&Address::Sentinel { nodes, master: "m".into() }).join(" ");
        assert_eq!(words, "mode sentinel addresses h:1,h:2 master m watchdog 3000");
    }
}
