//! A hold as those see it who do not hold it: it can be asked, and keeps nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Fence, Name, Result};
use crate::engine::hold::Hold;

/// What a [`Guard`](crate::Guard) holds, to be handed to those who act under it. Cheap to clone; the name is freed
/// when the guards are gone, whoever still has one of these.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// let guard = client.lock("orders/42").acquire().await?;
/// let held = guard.held();
/// assert_eq!((held.is_held(), held.fence()), (true, guard.fence()));
/// guard.release().await?;
/// assert!(!held.is_held());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Held(pub(crate) Arc<Hold>);

impl Held {
    /// What is held.
    pub fn name(&self) -> &Name {
        &self.0.claim.name
    }

    /// The fencing token, as [`Guard::fence`](crate::Guard::fence).
    pub fn fence(&self) -> Option<Fence> {
        self.0.fence
    }

    /// For how long it is certain to be held. Zero when lost or released.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Whether it is certain to be held at this moment.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Fails unless it is certain to be held for another `d`: ask before an effect that takes that long.
    ///
    /// # Errors
    /// `Lost` when it is over already or would be before then.
    pub fn ensure(&self, d: Duration) -> Result<()> {
        self.0.ensure(d)
    }
}
