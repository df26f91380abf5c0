//! Semaphores whose size in the code differs from the stored one, which applies.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::backend::{Claim, ClientId, Kind, Name};

/// How many names are remembered; then all are forgotten, and warned of again.
const MOST: usize = 10_000;

/// Warns of a size that differs, once per client and name. A backend calls it with the size that each attempt finds.
///
/// ```
/// # use tenure_core::backend::{Claim, Info};
/// fn granted(info: &Info, claim: &Claim, stored: u64) {
///     info.sizes.check(info.scheme, claim, stored);
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct SizeWarnings(Arc<Mutex<HashSet<(ClientId, Name)>>>);

impl SizeWarnings {
    /// Compares the limit of a claim with the stored size.
    pub fn check(&self, store: &'static str, claim: &Claim, size: u64) {
        let Kind::Permit { limit, .. } = claim.kind else { return };
        if size == u64::from(limit) {
            return;
        }
        let mut warned = self.0.lock().unwrap();
        if warned.len() >= MOST {
            warned.clear();
        }
        let is_new = warned.insert((claim.id.client, claim.name.clone()));
        drop(warned);
        if is_new {
            tracing::warn!(
                target: "tenure",
                name = %claim.name,
                kind = "permit",
                store,
                limit,
                size,
                "the semaphore is stored with another size than this limit; the stored size applies until it is resized"
            );
        }
    }
}
