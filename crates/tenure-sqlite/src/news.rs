//! What a change means for others: those who watch here are told, those in other processes woken, and those who are
//! gone make room.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tenure_core::ledger::{Effects, Ledger, Now};
use tenure_core::{ClientId, Name, Process};

use crate::Result;
use crate::database::Database;
use crate::folder::Folder;
use crate::ledgers::look;
use crate::shared::Shared;
use crate::wake::{self, Reach};

/// How often one change looks for dead clients at most; the next change goes on.
const SKIPS: usize = 16;

/// What a change did, and who of other processes watches.
pub(crate) struct News {
    pub(crate) effects: Effects,
    pub(crate) watchers: Vec<ClientId>,
}

/// Those whom a wake-up did not reach.
#[derive(Default)]
pub(crate) struct Missed {
    dead: HashSet<ClientId>,
    /// Whether there was one of whom nothing is known: it may poll, or be dead without a trace.
    unknown: bool,
}

/// Wake-ups for one name, one for each client.
struct Calls<'a> {
    shared: &'a Shared,
    name: &'a Name,
    message: Vec<u8>,
    folder: Option<Option<Folder>>,
    made: HashMap<ClientId, Reach>,
    /// Those who listen in this process.
    here: Vec<ClientId>,
}

impl<'a> Calls<'a> {
    fn new(shared: &'a Shared, name: &'a Name) -> Self {
        let (message, made, here) = (Vec::new(), HashMap::new(), Vec::new());
        Self { shared, name, message, folder: None, made, here }
    }

    fn reach(&mut self, client: ClientId) -> Reach {
        if let Some(reach) = self.made.get(&client) {
            return *reach;
        }
        let reach = self.call(client);
        self.made.insert(client, reach);
        reach
    }

    fn call(&mut self, client: ClientId) -> Reach {
        let shared = self.shared;
        // One that does not listen here at the moment looks before it listens.
        if shared.ears.has(client) || shared.watched.hears(self.name, client) {
            self.here.push(client);
            return Reach::Told;
        }
        if self.message.is_empty() {
            self.message = wake::message(self.name);
        }
        let folder = self.folder.get_or_insert_with(|| Folder::open(&shared.path).ok());
        folder.as_ref().map_or(Reach::Unknown, |folder| wake::wake(folder, client, &self.message))
    }

    fn dead(&self) -> HashSet<ClientId> {
        self.made.iter().filter(|(_, reach)| **reach == Reach::Dead).map(|(client, _)| *client).collect()
    }
}

impl Shared {
    /// A client that is seen to wait must have a FIFO, or it is passed over. One that queued just now is the last,
    /// and shares the record of its process with us.
    pub(crate) fn hear_new_waiter(&self, ledger: &Ledger) {
        let Some(last) = ledger.waiters.last() else { return };
        if Arc::ptr_eq(&last.process, Process::current())
            && let Err(error) = self.ears.open(last.id.client, &self.background)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot be woken by other processes, polling");
        }
    }

    /// Passes the effects on to those who watch, here and in other processes. Where one is not reached, the next is.
    pub(crate) async fn pass_on(&self, name: &Name, news: News) {
        let missed = self.tell(name, &news);
        self.go_on(name, missed).await;
    }

    /// In the place of those who were not reached tells those behind them. The dead leave the queue first: whoever is
    /// told looks at it.
    pub(crate) async fn go_on(&self, name: &Name, mut missed: Missed) {
        for _ in 0..SKIPS {
            if missed.dead.is_empty() && !missed.unknown {
                return;
            }
            if !missed.dead.is_empty() {
                let forget = |ledger: &mut Ledger, _: Now| ledger.forget_waiters(&missed.dead);
                let Ok(_) = self.update(name, forget).await else { return };
            }
            let Ok(dead) = self.tell_next(name).await else { return };
            missed = Missed { dead, unknown: false };
        }
    }

    /// Tells those whom the change concerns. Those in whose place others have to be told.
    pub(crate) fn tell(&self, name: &Name, news: &News) -> Missed {
        self.watched.tell(name, &news.effects);
        let mut calls = Calls::new(self, name);
        let mut missed = Missed::default();
        for &client in &news.effects.admit {
            missed.unknown |= calls.reach(client) == Reach::Unknown;
        }
        for &client in &news.watchers {
            calls.reach(client);
        }
        missed.dead = calls.dead();
        missed
    }

    /// Tells those who would be let in as the ledger stands, past those who cannot be reached. Those who turned out to be
    /// gone.
    async fn tell_next(&self, name: &Name) -> Result<HashSet<ClientId>> {
        let job = |database: &Database| {
            let found = look(&database.conn, name).map_err(|e| self.judge(e))?;
            let mut calls = Calls::new(self, name);
            if let Some(mut ledger) = found {
                ledger.prune(self.now());
                ledger.each_admitted(|client| calls.reach(client) == Reach::Told);
            }
            Ok((calls.dead(), calls.here))
        };
        let (dead, admit) = self.run(|| format!("look at {name}"), job).await?;
        self.watched.tell(name, &Effects { admit, ..Effects::default() });
        Ok(dead)
    }

    pub(crate) async fn register(&self, name: &Name, client: ClientId) -> Result<()> {
        let ((), news) = self.update(name, |ledger, now| ledger.watch(client, now)).await?;
        self.pass_on(name, news).await;
        Ok(())
    }
}
