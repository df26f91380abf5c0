//! Ours.

use tenure::{Client, Guard, Lock};

use super::{Gate, Library};
use crate::Result;

pub(crate) struct Tenure(Client);

impl Tenure {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        Ok(Self(tenure::connect(url).await?))
    }
}

impl Library for Tenure {
    type Gate = Lock;

    fn gate(&self, kind: &str, name: &str) -> Result<Lock> {
        if let Some(size) = kind.strip_prefix("permit:") {
            return Ok(self.0.semaphore(name, size.parse()?).permits(1));
        }
        Ok(match kind {
            "plain" => self.0.lock(name),
            "fair" => self.0.lock(name).fair(),
            "read" => self.0.rwlock(name).read(),
            "write" => self.0.rwlock(name).write(),
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
