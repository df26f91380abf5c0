//! The store: transactions inline in the caller's task, patience with a busy file, and news for those who wait.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tenure_core::backend::{Info, Interest, Liveness, Signal, Watch};
use tenure_core::ledger::{Effects, Ledger, LedgerStore, Now, Watched};
use tenure_core::{ClientId, Drift, Family, Name, Process, wall_micros};

use crate::background::Background;
use crate::database::{Database, beside};
use crate::ear::{Ear, Ears};
use crate::fault::{Fault, Phase, SCHEME, judge};
use crate::ledgers::{RowError, Tx, scan};
use crate::pause::Pause;
use crate::wake::{self, Reach};
use crate::{Clock, Options, Result, place};

const ALL: &[Family] = &[
    Family::Lock,
    Family::Fair,
    Family::Leader,
    Family::ReadWrite,
    Family::Permit,
    Family::Latch,
    Family::Count,
];

/// How many dead clients one change skips at most; the next change goes on.
const SKIPS: usize = 1024;
/// A watcher is remembered for longer than this.
const WATCH_AGAIN: Duration = Duration::from_secs(3);

/// The ledgers of a [`Sqlite`](crate::Sqlite).
#[derive(Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    folder: PathBuf,
    options: Options,
    info: Info,
    boot: u128,
    database: Mutex<Database>,
    watched: Arc<Watched>,
    ears: Ears,
    background: Background,
}

/// What a change did, and who of other processes watches.
struct News {
    effects: Effects,
    watchers: Vec<ClientId>,
}

impl SqliteStore {
    pub(crate) fn open(path: &Path, options: Options) -> Result<Self> {
        let path = place::settle(path, &options)?;
        let mut pause = Pause::new(options.busy_limit());
        let database = loop {
            match Database::connect(&path, &options) {
                Err(Fault::Busy) if pause.wait_here() => {}
                other => break other.map_err(|fault| fault.into_error(&path, "open"))?,
            }
        };
        let folder = beside(&path, "-wake");
        wake::sweep(&folder);
        let watched = Arc::<Watched>::default();
        let info = Info {
            scheme: SCHEME,
            families: ALL,
            fenced: true,
            liveness: Liveness::Lease,
            poll: Duration::from_secs(2),
            clock: options.clock.clone().unwrap_or_else(Clock::boot),
            drift: Drift::default(),
        };
        let shared = Shared {
            ears: Ears::new(&path, watched.clone()),
            boot: options.boot_id.unwrap_or_else(boot_id),
            database: Mutex::new(database),
            background: Background::default(),
            path,
            folder,
            options,
            info,
            watched,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Which boot of which kernel this is; zero where the system does not say.
fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}

impl Shared {
    fn now(&self) -> Now {
        Now { clock: self.boot, tick: self.info.clock.now().as_nanos() / 1000, wall: wall_micros() }
    }

    fn judge(&self, error: RowError) -> Fault {
        match error {
            RowError::Sqlite(error) => judge(&self.path, Phase::Running, &error),
            RowError::Body(name, error) => Fault::Config(format!(
                "{}: the ledger of {name} cannot be read: {error}",
                self.path.display()
            )),
        }
    }

    /// Does `job` with the file, as soon as no other process holds it.
    async fn run<T>(
        &self,
        what: impl Fn() -> String,
        mut job: impl FnMut(&Database) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        let mut pause = Pause::new(self.options.busy_limit());
        loop {
            let fault = match self.attempt(&mut job) {
                Ok(done) => return Ok(done),
                Err(fault) => fault,
            };
            let again = matches!(fault, Fault::Busy | Fault::Moved);
            if !again || !pause.wait(&self.background).await {
                return Err(fault.into_error(&self.path, what()));
            }
        }
    }

    fn attempt<T>(
        &self,
        job: &mut impl FnMut(&Database) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        let mut database = self.database.lock().unwrap_or_else(|e| e.into_inner());
        match job(&database) {
            Err(Fault::Moved) => {
                tracing::warn!(path = %self.path.display(), "the store's file was removed or replaced, opening anew");
                *database = Database::connect(&self.path, &self.options).map_err(|fault| match fault {
                    Fault::Config(why) => {
                        Fault::Unavailable(format!("the file was removed or replaced: {why}"))
                    }
                    other => other,
                })?;
                job(&database)
            }
            other => other,
        }
    }

    /// A transaction on the file that others use.
    fn begin<'a>(&self, database: &'a Database) -> std::result::Result<Tx<'a>, Fault> {
        // A transaction that could not be rolled back is left behind with its connection.
        if !database.conn.is_autocommit() {
            return Err(Fault::Moved);
        }
        let tx = Tx::begin(&database.conn, &database.written).map_err(|e| self.judge(e))?;
        // After the lock: from here to the commit, others wait for it, unless they lock another file.
        if database.is_current(&self.path) { Ok(tx) } else { Err(Fault::Moved) }
    }

    fn change<R>(
        &self,
        tx: &Tx<'_>,
        name: &Name,
        change: impl FnOnce(&mut Ledger, Now) -> R,
        sweep: &mut bool,
    ) -> std::result::Result<(R, News), RowError> {
        let now = self.now();
        let (mut ledger, has_row) = tx.read(name)?;
        let result = change(&mut ledger, now);
        let effects = std::mem::take(&mut ledger.effects);
        let mut watchers = Vec::new();
        if effects.dirty {
            self.hear_new_waiter(&ledger);
            if effects.count || effects.holder {
                watchers = ledger.watchers.iter().map(|w| w.client).collect();
            }
            tx.write(name, ledger, has_row)?;
            *sweep |= !has_row && now.wall.is_multiple_of(self.options.sweep_every());
        }
        Ok((result, News { effects, watchers }))
    }

    /// A client that is seen to wait must have a FIFO, or it is taken for dead. One that queued just now is the last,
    /// and shares the record of its process with us, which no ledger that was read does.
    fn hear_new_waiter(&self, ledger: &Ledger) {
        let Some(last) = ledger.waiters.last() else { return };
        if Arc::ptr_eq(&last.process, Process::current())
            && let Err(error) = self.ears.open(last.id.client, &self.background)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot be woken by other processes, polling");
        }
    }

    async fn update<R>(
        &self,
        name: &Name,
        mut change: impl FnMut(&mut Ledger, Now) -> R,
    ) -> Result<(R, News)> {
        let job = |database: &Database| {
            let mut sweep = false;
            let tx = self.begin(database)?;
            let done = self.change(&tx, name, &mut change, &mut sweep).map_err(|e| self.judge(e))?;
            tx.commit().map_err(|e| self.judge(e))?;
            self.sweep(database, sweep);
            Ok(done)
        };
        self.run(|| format!("change {name}"), job).await
    }

    /// Best effort: whoever makes the next new name may do it.
    fn sweep(&self, database: &Database, due: bool) {
        let sweep = || {
            let tx = Tx::begin(&database.conn, &database.written)?;
            tx.sweep(self.now())?;
            tx.commit()
        };
        if due && let Err(error) = sweep() {
            tracing::debug!(path = %self.path.display(), ?error, "not swept");
        }
    }

    /// Passes the effects on to those who watch, here and in other processes. Those who are gone make room.
    async fn pass_on(&self, name: &Name, news: News) {
        let mut dead = self.tell(name, &news);
        for _ in 0..SKIPS {
            if dead.is_empty() {
                return;
            }
            let forget = |ledger: &mut Ledger, _: Now| dead.iter().for_each(|c| ledger.forget_waiters(*c));
            let Ok(((), news)) = self.update(name, forget).await else { return };
            dead = self.tell(name, &news);
        }
    }

    /// Those who turned out to be gone.
    fn tell(&self, name: &Name, news: &News) -> Vec<ClientId> {
        self.watched.tell(name, &news.effects);
        let mut message = None;
        let mut dead = Vec::new();
        for &client in news.effects.admit.iter().chain(&news.watchers) {
            // One that does not listen here at the moment looks before it listens.
            if self.ears.has(client) || self.watched.hears(name, client) {
                continue;
            }
            let message = message.get_or_insert_with(|| wake::message(name));
            if wake::wake(&self.folder, client, message) == Reach::Dead {
                dead.push(client);
            }
        }
        dead
    }

    async fn register(&self, name: &Name, client: ClientId) -> Result<()> {
        let ((), news) = self.update(name, |ledger, now| ledger.watch(client, now)).await?;
        self.pass_on(name, news).await;
        Ok(())
    }
}

impl LedgerStore for SqliteStore {
    fn info(&self) -> &Info {
        &self.shared.info
    }

    async fn update<R: Send + 'static>(
        &self,
        name: &Name,
        change: impl FnMut(&mut Ledger, Now) -> R + Send,
    ) -> Result<R> {
        let (result, news) = self.shared.update(name, change).await?;
        self.shared.pass_on(name, news).await;
        Ok(result)
    }

    async fn update_many<R: Send + 'static>(
        &self,
        names: &[&Name],
        mut change: impl FnMut(usize, &mut Ledger, Now) -> R + Send,
    ) -> Result<Vec<R>> {
        let shared = &self.shared;
        let job = |database: &Database| {
            let mut sweep = false;
            let tx = shared.begin(database)?;
            let each = names
                .iter()
                .enumerate()
                .map(|(i, name)| shared.change(&tx, name, |ledger, now| change(i, ledger, now), &mut sweep));
            let done = each.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| shared.judge(e))?;
            tx.commit().map_err(|e| shared.judge(e))?;
            shared.sweep(database, sweep);
            Ok(done)
        };
        let done = shared.run(|| format!("change {} names", names.len()), job).await?;
        let mut results = Vec::with_capacity(done.len());
        for (name, (result, news)) in names.iter().zip(done) {
            shared.pass_on(name, news).await;
            results.push(result);
        }
        Ok(results)
    }

    async fn watch(&self, name: &Name, interest: Interest<'_>) -> Result<Box<dyn Watch>> {
        let shared = &self.shared;
        let (client, registers) = match interest {
            Interest::Claim(claim) => (claim.id.client, false),
            Interest::Count(client) | Interest::Holder(client) => (client, true),
        };
        let inner = shared.watched.listen(name, interest);
        let ear = shared.ears.open(client, &shared.background).inspect_err(|error| {
            tracing::warn!(folder = %shared.folder.display(), %error, "cannot be woken by other processes, polling");
        });
        let mut again = None;
        if registers {
            shared.register(name, client).await?;
            again = Some(Again { shared: shared.clone(), name: name.clone(), client, last: Instant::now() });
        }
        Ok(Box::new(Listening { inner, _ear: ear.ok(), again }))
    }

    async fn scan(&self, prefix: &str, limit: usize) -> Result<Vec<(Name, Ledger, Now)>> {
        let shared = &self.shared;
        let job = |database: &Database| {
            if !database.is_current(&shared.path) {
                return Err(Fault::Moved);
            }
            scan(&database.conn, prefix, limit).map_err(|e| shared.judge(e))
        };
        let found = shared.run(|| format!("list {prefix:?}"), job).await?;
        let now = shared.now();
        Ok(found.into_iter().map(|(name, ledger)| (name, ledger, now)).collect())
    }
}

/// A watch here, with an ear for what other processes say.
struct Listening {
    inner: Box<dyn Watch>,
    _ear: Option<Arc<Ear>>,
    again: Option<Again>,
}

/// What keeps a watcher remembered in the store.
struct Again {
    shared: Arc<Shared>,
    name: Name,
    client: ClientId,
    last: Instant,
}

#[async_trait]
impl Watch for Listening {
    async fn signal(&mut self) -> Signal {
        if let Some(again) = &mut self.again
            && again.last.elapsed() >= WATCH_AGAIN
        {
            again.last = Instant::now();
            if let Err(error) = again.shared.register(&again.name, again.client).await {
                tracing::debug!(name = %again.name, %error, "not registered as a watcher, polling");
            }
        }
        self.inner.signal().await
    }
}
