//! The servers of a run, and what they say about it.

use testbed::{Redis, RedisOptions};

use crate::Result;

pub(crate) struct Servers {
    redis: Vec<Redis>,
}

/// How many commands a server has executed: all of them, those inside of scripts too, and the calls of scripts alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commands {
    pub(crate) all: f64,
    pub(crate) scripts: f64,
}

impl Servers {
    /// So many servers of Redis.
    pub(crate) fn redis(n: usize) -> Result<Self> {
        let redis = (0..n).map(|_| Redis::start(RedisOptions::default()));
        Ok(Self { redis: redis.collect::<testbed::Result<_>>()? })
    }

    /// Each `HOST:PORT`.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.redis.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect()
    }

    /// Our URL with these parameters.
    pub(crate) fn url(&self, settings: &str) -> String {
        let mark = if settings.is_empty() { "" } else { "?" };
        match &self.redis[..] {
            [one] => format!("{}{mark}{settings}", one.url()),
            _ => {
                let nodes = self.addresses().join(",");
                format!("redlock://{nodes}?restart_delay=off&{settings}").trim_end_matches('&').to_owned()
            }
        }
    }

    /// Commands of all servers so far, without those that ask for this.
    pub(crate) fn commands(&self) -> Result<Commands> {
        let mut sum = Commands::default();
        for server in &self.redis {
            for (name, text) in server.info("commandstats")? {
                let Some(name) = name.strip_prefix("cmdstat_") else { continue };
                let calls = text.strip_prefix("calls=").and_then(|text| text.split(',').next());
                let calls: f64 = calls.ok_or_else(|| format!("{name}: {text}"))?.parse()?;
                if name != "info" {
                    sum.all += calls;
                }
                if name == "evalsha" || name == "eval" {
                    sum.scripts += calls;
                }
            }
        }
        Ok(sum)
    }
}

impl std::ops::Sub for Commands {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { all: self.all - before.all, scripts: self.scripts - before.scripts }
    }
}
