//! Work that is done at most once in a period, by whichever process comes first.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::api::{Client, Guard, Held, Lock};
use crate::backend::{Error, Kind, Name, Owner, Result};

/// Work that is done at most once in a period, across all processes: a nightly report that every replica schedules.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure_core::Result<()> {
/// # let client = tenure_core::Client::new(tenure_core::Memory::new());
/// // Every replica does this at midnight.
/// let report = client.once("report/daily", Duration::from_secs(23 * 3600)).at_most(Duration::from_secs(3600));
/// let sent = report.run(async |_| Ok::<_, tenure_core::Error>("sent")).await?;
/// assert_eq!(sent, Some("sent"));
///
/// let again = report.run(async |_| Ok::<_, tenure_core::Error>("sent")).await?; // here or in any other process
/// assert_eq!(again, None);
///
/// // Work that is not a future. If it fails, the next one may try after a minute.
/// let backup = client.once("backup", Duration::from_secs(3600)).at_least(Duration::from_secs(60)).note("cron");
/// if let Some(guard) = backup.try_begin().await? {
///     // … back up …
///     guard.keep_at_least(backup.period())?;
///     guard.release().await?;
/// }
/// # Ok(()) }
/// ```
///
/// **For a timetable choose a period shorter than the interval**, or put the date into the name. A period of 24 hours
/// for a nightly job skips every second night: the store kept the name from a moment after midnight, so the attempt of the
/// next midnight comes a moment too early. Take 23 hours; 22 if the timetable follows summer time, where one night is
/// followed by the next after 23.
///
/// The work holds a lock of that name while it runs. If it returns `Ok`, the lock is kept until the period is over,
/// counted from the call, whether or not this process still runs then. If it fails, panics, loses the lock
/// or dies with its process, it does not count: the next one who asks runs it. So work that was done by half may run
/// again within the period.
///
/// The store remembers it. A store that loses its data forgets that the work was done.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until it is run"]
pub struct Once {
    lock: Lock,
    period: Duration,
}

impl Once {
    pub(crate) fn new(client: &Client, name: Result<Name>, period: Duration) -> Self {
        Self { lock: Lock::new(client, name, Kind::Lock).renewed_for(period), period }
    }

    /// Ends the hold after this long, even if the work still runs: it is dropped then, and the next one who asks runs
    /// it. Without a limit the hold is renewed for as long as the work runs.
    pub fn at_most(self, limit: Duration) -> Self {
        Self { lock: self.lock.max_hold(limit), ..self }
    }

    /// Keeps others from running it for at least this long also after a failure, even if the process was killed, so that
    /// it is not tried again at once. Refused together with a shorter [`at_most`](Once::at_most).
    pub fn at_least(self, least: Duration) -> Self {
        Self { lock: self.lock.at_least(least), ..self }
    }

    /// Sets a note that is shown to people with the holder.
    pub fn note(self, note: impl Into<Arc<str>>) -> Self {
        Self { lock: self.lock.note(note), ..self }
    }

    /// Begins the work, unless it was done in this period or another process does it now. For work that is not a future:
    /// when it is done, call [`Guard::keep_at_least`] with the period, and release the guard.
    ///
    /// # Errors
    /// As [`Once::run`].
    ///
    /// # Cancel safety
    /// Safe: dropping the future leaves nothing behind.
    pub async fn try_begin(&self) -> Result<Option<Guard>> {
        let core = self.lock.request.core();
        core.backend.info().require_at_least(self.period)?;
        let call = core.clock.now();
        // An owner of its own, so that work which asks for itself does not re-enter.
        let guard = self.lock.clone().owner(&Owner::new()).try_acquire().await?;
        // A slow store must not make the period end later than a timetable expects.
        guard.iter().for_each(|guard| guard.hold().leases.count_from(call));
        Ok(guard)
    }

    /// Returns the period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Runs `work`, unless it was done in this period or another process runs it now: then the result is `None`.
    ///
    /// # Errors
    /// The error of `work`; as [`Lock::try_acquire`]; `Lost` if the lock was lost before `work` was done; `Unsupported`
    /// on a store where a hold ends with its process (ZooKeeper); `Config` on a quorum whose `max_lease` is shorter
    /// than the period. `Unknown`, and not the value, if `work` was done and the store did not answer until the lease was
    /// over: the next one who asks may do it again within the period.
    ///
    /// # Cancel safety
    /// As safe as `work` is: dropping the future drops `work`, which then does not count.
    pub async fn run<T, E, F>(&self, work: impl FnOnce(Held) -> F) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<T, E>>,
        E: From<Error>,
    {
        let Some(guard) = self.try_begin().await? else { return Ok(None) };
        let result = guard.while_held(work(guard.held())).await?;
        if result.is_ok() {
            // The release tells the store.
            guard.hold().keep_at_least(self.period);
        }
        let released = guard.finish().await;
        let value = result?;
        released?;
        Ok(Some(value))
    }
}
