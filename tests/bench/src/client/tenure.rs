//! Ours.

use tenure::{Client, Guard, Lock};

use super::{Gate, Library};
use crate::Result;

/// Permits of a semaphore; as many tasks as take turns may be inside.
const PERMITS: u32 = 64;

pub(crate) struct Tenure(Client);

impl Tenure {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(tenure::connect(url).await?))
    }
}

impl Library for Tenure {
    type Gate = Lock;

    fn gate(&self, kind: &str, name: &str) -> Result<Lock> {
        Ok(match kind {
            "plain" => self.0.lock(name),
            "fair" => self.0.lock(name).fair(),
            "read" => self.0.rwlock(name).read(),
            "write" => self.0.rwlock(name).write(),
            "permit" => self.0.semaphore(name, PERMITS).permits(1),
            _ => return Err(format!("no kind {kind:?}").into()),
        })
    }
}

impl Gate for Lock {
    type Held = Guard;

    async fn enter(&mut self) -> Result<Guard> {
        Ok(self.acquire().await?)
    }

    async fn leave(&mut self, held: Guard) -> Result<()> {
        Ok(held.release().await?)
    }
}
