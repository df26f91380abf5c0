//! What a change means for others: those who watch here are told, those in other processes woken, and those who are
//! gone make room.

use std::sync::Arc;

use tenure_core::ledger::{Effects, Ledger, Now};
use tenure_core::{ClientId, Name, Process};

use crate::Result;
use crate::shared::Shared;
use crate::wake::{self, Reach};

/// How many dead clients one change skips at most; the next change goes on.
const SKIPS: usize = 1024;

/// What a change did, and who of other processes watches.
pub(crate) struct News {
    pub(crate) effects: Effects,
    pub(crate) watchers: Vec<ClientId>,
}

impl Shared {
    /// A client that is seen to wait must have a FIFO, or it is taken for dead. One that queued just now is the last,
    /// and shares the record of its process with us.
    pub(crate) fn hear_new_waiter(&self, ledger: &Ledger) {
        let Some(last) = ledger.waiters.last() else { return };
        if Arc::ptr_eq(&last.process, Process::current())
            && let Err(error) = self.ears.open(last.id.client, &self.background)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "cannot be woken by other processes, polling");
        }
    }

    /// Passes the effects on to those who watch, here and in other processes. Those who are gone make room.
    pub(crate) async fn pass_on(&self, name: &Name, news: News) {
        let dead = self.tell(name, &news);
        self.make_room(name, dead).await;
    }

    /// Takes the dead out of the queue, and those whom that shows to be dead.
    pub(crate) async fn make_room(&self, name: &Name, mut dead: Vec<ClientId>) {
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
    pub(crate) fn tell(&self, name: &Name, news: &News) -> Vec<ClientId> {
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

    pub(crate) async fn register(&self, name: &Name, client: ClientId) -> Result<()> {
        let ((), news) = self.update(name, |ledger, now| ledger.watch(client, now)).await?;
        self.pass_on(name, news).await;
        Ok(())
    }
}
