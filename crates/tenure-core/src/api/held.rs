//! A read-only view of a hold, which does not keep it held.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Fence, Name, Result};
use crate::engine::hold::Hold;

/// A view of what a [`Guard`](crate::Guard) holds, for code that runs under it. Cheap to clone; it does not keep the
/// name held after the guards are gone.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// let held = guard.held();
/// assert_eq!((held.is_held(), held.name(), held.fence()), (true, guard.name(), guard.fence()));
/// held.ensure(Duration::from_secs(5))?; // certain to be held for that long
/// assert!(held.remaining() > Duration::from_secs(5));
/// guard.release().await?;
/// assert!(!held.is_held());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Held(pub(crate) Arc<Hold>);

impl Held {
    /// Returns the name that is held.
    pub fn name(&self) -> &Name {
        &self.0.claim.name
    }

    /// Returns the fencing token, as [`Guard::fence`](crate::Guard::fence).
    pub fn fence(&self) -> Option<Fence> {
        self.0.fence
    }

    /// Returns how long it is certain to be held. Zero when lost or released.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether it is certain to be held now.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Fails unless it is certain to be held for another `d`: call it before an operation that takes that long.
    ///
    /// # Errors
    /// `Lost` if it has ended or would end before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.0.ensure(d)
    }
}
