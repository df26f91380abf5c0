//! What a store offers to the people who run it, beside what the library needs to lock.

use async_trait::async_trait;

use crate::backend::{Backend, Claim, Error, Finding, Kind, Name, Query, Released, Result, Snapshot, Watch};

/// Inspection and administration of a store. Optional: locks, waiting and renewal use [`Backend`] alone.
///
/// ```
/// # use tenure_core as tenure;
/// use tenure::backend::{Claim, Kind, Query};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let client = tenure::Client::new(tenure::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// let admin = client.backend().require_admin()?;
/// let seen = admin.inspect(Query::Prefix { prefix: "orders/".to_owned(), limit: 10, idle: false }).await?;
/// assert_eq!(seen[0].holders[0].hold_id(), Some(guard.id()));
/// for finding in admin.diagnose().await? {
///     println!("{finding}");
/// }
/// // What a store does not have is `Unsupported`: memory is not shared with other libraries.
/// let name = guard.name();
/// assert!(admin.expel(name, Kind::Lock, "id of another library").await.is_err());
/// assert!(admin.revoke(name, Kind::Lock).await.is_err());
/// assert!(admin.revoked(&Claim::of(guard.id(), name.clone(), Kind::Lock)).await.is_err());
/// # guard.release().await }
/// ```
#[async_trait]
pub trait Admin: Backend {
    /// Lists holders and waiters, for display.
    async fn inspect(&self, query: Query) -> Result<Vec<Snapshot>>;

    /// Checks whether the store is configured so that the guarantees can be kept. Fails if it cannot be reached at all.
    async fn diagnose(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// Takes `name` from a holder of another library, identified by that library's own text, and signals all waiters.
    async fn expel(&self, name: &Name, kind: Kind, holder: &str) -> Result<Released> {
        let _ = kind;
        Err(Error::Unsupported {
            backend: self.info().scheme,
            what: format!("taking {name} from {holder}"),
            reason: "this store is not shared with other libraries".to_owned(),
        })
    }

    /// Asks the holders of `name` that block a claim of this kind to release it. Returns whether anybody was asked.
    /// Nobody is forced to.
    async fn revoke(&self, name: &Name, kind: Kind) -> Result<bool> {
        let _ = kind;
        Err(self.info().no_revocation(name))
    }

    /// Signals when somebody asks the holder of `claim` to release it, including requests made before this returns.
    async fn revoked(&self, claim: &Claim) -> Result<Box<dyn Watch>> {
        Err(self.info().no_revocation(&claim.name))
    }
}

impl dyn Backend {
    /// Returns its administration, or `Unsupported` if it has none.
    ///
    /// # Errors
    /// `Unsupported`, see above.
    pub fn require_admin(&self) -> Result<&dyn Admin> {
        self.admin().ok_or_else(|| Error::Unsupported {
            backend: self.info().scheme,
            what: "inspection".to_owned(),
            reason: "this store cannot list holders and waiters".to_owned(),
        })
    }
}
