//! Real servers: one of each deployment per test process, started on first use. A world is a prefix of its own.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use tenure::{Backend, Error, Result};
use testbed::RedisOptions;

use super::{Store, World};

pub(super) struct Redis;

impl Store for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn world(&self) -> Result<Box<dyn World>> {
        static SERVER: OnceLock<std::result::Result<testbed::Redis, String>> = OnceLock::new();
        let server =
            SERVER.get_or_init(|| testbed::Redis::start(RedisOptions::default()).map_err(|e| e.to_string()));
        let server = server.as_ref().map_err(|e| Error::Config(e.clone()))?;
        Ok(Box::new(Prefixed::new(&server.url())))
    }
}

struct Prefixed(String);

impl Prefixed {
    fn new(url: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(format!("{url}?prefix=w{}:", NEXT.fetch_add(1, SeqCst)))
    }
}

impl World for Prefixed {
    fn backend(&self) -> Result<Arc<dyn Backend>> {
        // Opened on a runtime that is gone afterwards, as any other that uses the store may be.
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|e| Error::Config(e.to_string()))?;
                runtime.block_on(tenure::open(&self.0))
            });
            opening.join().map_err(|_| Error::Config("opening the store panicked".into()))?
        })
    }

    fn url(&self) -> Option<String> {
        Some(self.0.clone())
    }
}
