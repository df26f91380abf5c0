//! What an opener may choose.

use std::time::Duration;

use tenure_core::Clock;

/// How a store is opened. Begin with `Options::default()` and assign.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Whether a file on a network file system is accepted. Locks of such files are not reliable.
    pub network_fs: bool,
    /// The permissions of the file if it is made, such as `0o660`. If `None` they follow its folder: the store is for the
    /// folder's group if that may write to it and what is made there is the group's (`chmod g+ws`), for all if all may
    /// write there and replace what belongs to others, which they cannot in `/tmp`, and else for its maker.
    pub mode: Option<u32>,
    /// The clock that leases are measured on; the machine's boot clock if `None`.
    pub clock: Option<Clock>,
    /// How long a call bears that another process holds the file, before it is `Unavailable`. 1 s if `None`:
    /// the client above tries again for as long as its settings say.
    pub busy_limit: Option<Duration>,
    /// Stands in for the boot id of this machine.
    #[doc(hidden)]
    pub boot_id: Option<u128>,
    /// Rows are swept once per this many new names, on average.
    #[doc(hidden)]
    pub sweep_every: Option<u64>,
    /// The file does not grow beyond this many pages, as if the disk were full.
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
