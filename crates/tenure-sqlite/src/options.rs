//! Options for opening a store.

use std::time::Duration;

use tenure_core::Clock;

/// Options for opening a store. Begin with `Options::default()` and assign.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Whether a file on a network file system is accepted. File locks are not reliable there.
    pub network_fs: bool,
    /// The permissions of a new file, such as `0o660`. If `None` they follow its folder: group access if the group may
    /// write to the folder and new files belong to that group (`chmod g+ws`); access for all if all may write there
    /// and replace files of others, which is not so in `/tmp`; otherwise access for the creator only.
    pub mode: Option<u32>,
    /// The clock that leases are measured on; the machine's boot clock if `None`.
    pub clock: Option<Clock>,
    /// How long a call waits while another process holds the file, before it fails with `Unavailable`. 1 s if `None`:
    /// the client retries for as long as its settings say.
    pub busy_limit: Option<Duration>,
    /// Replaces the boot id of this machine.
    #[doc(hidden)]
    pub boot_id: Option<u128>,
    /// On average, one in this many new names triggers a sweep of old rows.
    #[doc(hidden)]
    pub sweep_every: Option<u64>,
    /// Limits the file to this many pages, to simulate a full disk.
    #[doc(hidden)]
    pub max_pages: Option<u32>,
}

impl Options {
    pub(crate) fn busy_limit(&self) -> Duration {
        self.busy_limit.unwrap_or(Duration::from_secs(1))
    }

    pub(crate) fn sweep_every(&self) -> u64 {
        self.sweep_every.unwrap_or(256).max(1)
    }
}
