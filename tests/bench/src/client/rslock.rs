//! The crate rslock.

use std::time::Duration;

use rslock::{LockGuard, LockManager};

use super::{Gate, Library};
use crate::Result;

/// As long as the leases of the others.
const TTL: Duration = Duration::from_secs(30);

pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) async fn connect(addresses: &[&str]) -> Result<Self> {
        let urls: Vec<String> = addresses.iter().map(|address| format!("redis://{address}")).collect();
        Ok(Self(LockManager::new(urls)))
    }
}

impl Library for Rslock {
    type Gate = (LockManager, String);

    fn gate(&self, _kind: &str, name: &str) -> Result<Self::Gate> {
        Ok((self.0.clone(), name.to_owned()))
    }
}

impl Gate for (LockManager, String) {
    type Held = LockGuard;

    async fn enter(&mut self) -> Result<LockGuard> {
        Ok(self.0.acquire(self.1.as_str(), TTL).await?)
    }

    async fn leave(&mut self, held: LockGuard) -> Result<()> {
        held.release().await;
        Ok(())
    }
}
