//! What a task of a client does: acquires, holds, enters again, ends in every way, and counts latches.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use checker::{Acquire, Answer, Call, Granted, Kind, Wait, What};
use fastrand::Rng;
use tenure_core::{Client, Error, Guard, HoldId, Owner, Result};
use tokio::time::{sleep, timeout};

use crate::journal::Log;
use crate::plan::Use;

/// The permits of the semaphore.
const LIMIT: u32 = 3;
/// The longest time between two looks at a guard.
const LOOK: u64 = 15;

/// A task of a client.
pub(crate) struct Task {
    pub(crate) worker: u32,
    pub(crate) client: Client,
    pub(crate) log: Arc<Log>,
    pub(crate) rng: Rng,
    pub(crate) uses: Vec<Use>,
    /// Whether holds may be left to their leases: those who wait may notice that a poll cap later.
    pub(crate) may_leave: bool,
    /// When nothing new is begun, in nanoseconds.
    pub(crate) until: u64,
}

#[derive(Clone, Copy)]
enum End {
    Release,
    Drop,
    Detach,
    DetachAndRelease,
}

struct Held {
    op: u64,
    guard: Guard,
}

impl Task {
    /// Works until it is time to end.
    pub(crate) async fn work(mut self) {
        let mut owners = 0;
        while self.log.now() < self.until {
            let of = self.uses[self.rng.usize(..self.uses.len())];
            if of == Use::Latch {
                self.turn_latch().await;
            } else {
                owners += 1;
                self.section(of, owners).await;
            }
            let rest = self.rng.u64(..40);
            sleep(ms(rest)).await;
        }
    }

    /// Lets other tasks of this client run first, as the seed wants it.
    async fn shuffle(&mut self) {
        for _ in 0..self.rng.u32(..4) {
            tokio::task::yield_now().await;
        }
    }

    fn wait(&mut self) -> Wait {
        match self.rng.u32(..10) {
            0..=2 => Wait::Try,
            3..=5 => Wait::For(self.rng.u64(1..700) * 1_000_000),
            _ => Wait::Forever,
        }
    }

    fn kind(&mut self, of: Use) -> Kind {
        match of {
            Use::Lock | Use::Latch => Kind::Lock,
            Use::Fair => Kind::Fair,
            Use::Rwlock if self.rng.u32(..3) == 0 => Kind::Write,
            Use::Rwlock => Kind::Read,
            Use::Permits => Kind::Permits { n: self.rng.u32(1..=LIMIT), limit: LIMIT },
            Use::Leader => Kind::Leader,
        }
    }

    async fn section(&mut self, of: Use, owners: u32) {
        let (kind, wait) = (self.kind(of), self.wait());
        let again = match kind {
            Kind::Lock | Kind::Fair | Kind::Write => self.rng.u32(..5) == 0,
            _ => false,
        };
        let owner = again.then(|| (Owner::new(), format!("{}.{owners}", self.worker)));
        let lease = (self.rng.u32(..4) == 0).then(|| ms(self.rng.u64(300..1000)));
        let patience = (self.rng.u32(..8) == 0).then(|| ms(self.rng.u64(..120)));
        let Some(held) = self.acquire(of, kind, wait, lease, patience, owner.as_ref()).await else { return };
        let time = match self.rng.u32(..20) {
            0 => self.rng.u64(500..1500),
            1..=6 => self.rng.u64(..150),
            _ => self.rng.u64(..20),
        };
        let mut ok = self.hold(&held, time / 2).await;
        if again && ok {
            let inner = self.acquire(of, kind, Wait::For(50_000_000), None, None, owner.as_ref()).await;
            if let Some(inner) = inner {
                self.hold(&inner, 3).await;
                self.release(inner).await;
            }
        }
        ok = ok && self.hold(&held, time / 2).await;
        let end = match self.rng.u32(..20) {
            0 if ok && !again && kind != Kind::Leader && self.may_leave => End::Detach,
            1 if ok && !again && kind != Kind::Leader => End::DetachAndRelease,
            2..=6 => End::Drop,
            _ => End::Release,
        };
        self.end(of, kind, end, held).await;
    }

    async fn acquire(
        &mut self,
        of: Use,
        kind: Kind,
        wait: Wait,
        lease: Option<Duration>,
        patience: Option<Duration>,
        owner: Option<&(Owner, String)>,
    ) -> Option<Held> {
        self.shuffle().await;
        let call = Acquire {
            name: of.name().into(),
            kind,
            owner: owner.map(|(_, word)| word.clone()),
            wait,
            lease: lease.map(|lease| lease.as_nanos() as u64),
            least: None,
        };
        let op = self.log.call(self.worker, Call::Acquire(call));
        // Nobody polls it for a while, as in a loop that is busy elsewhere.
        let idle =
            (self.may_leave && self.rng.u32(..20) == 0).then(|| (self.rng.u64(..60), self.rng.u64(..900)));
        let mut asking = pin!(ask(&self.client, of.name(), kind, wait, lease, owner.map(|(owner, _)| owner)));
        let mut result = None;
        if let Some((from, time)) = idle {
            result = timeout(ms(from), asking.as_mut()).await.ok();
            if result.is_none() {
                sleep(ms(time)).await;
            }
        }
        let result = match (result, patience) {
            (Some(result), _) => Some(result),
            (None, Some(patience)) => timeout(patience, asking).await.ok(),
            (None, None) => Some(asking.await),
        };
        let (answer, guard) = match result {
            Some(Ok(Some(guard))) => {
                let granted = Granted {
                    fence: guard.fence().map(|fence| fence.0),
                    hold: Some(guard.recorded_id().to_string()),
                    remaining: Some(guard.remaining().as_nanos() as u64),
                };
                (Answer::Granted(granted), Some(guard))
            }
            Some(Ok(None)) if wait == Wait::Try => (Answer::Busy, None),
            Some(Ok(None)) => (Answer::TimedOut, None),
            Some(Err(error)) => (failed(&error), None),
            None => (Answer::Unknown { error: "its future was dropped".into() }, None),
        };
        self.log.answer(op, answer);
        guard.map(|guard| Held { op, guard })
    }

    /// Holds it for this time, or until it is lost.
    async fn hold(&mut self, held: &Held, time: u64) -> bool {
        let end = self.log.now() + time * 1_000_000;
        loop {
            if !held.guard.is_held() {
                self.log.write(What::NotHeld { of: held.op, reason: None });
                return false;
            }
            self.log.write(What::Held { of: held.op });
            let left = end.saturating_sub(self.log.now()) / 1_000_000;
            if left == 0 {
                return true;
            }
            sleep(ms(left.min(LOOK))).await;
        }
    }

    async fn release(&mut self, held: Held) {
        let op = self.log.call(self.worker, Call::Release { of: held.op });
        let answer = match held.guard.release().await {
            Ok(()) => Answer::Released,
            Err(Error::Lost(lost)) => Answer::Lost { reason: lost.why() },
            Err(error) => failed(&error),
        };
        self.log.answer(op, answer);
    }

    async fn end(&mut self, of: Use, kind: Kind, end: End, held: Held) {
        self.shuffle().await;
        match end {
            End::Release => self.release(held).await,
            End::Drop => self.log.write(What::Dropped { of: held.op }),
            End::Detach | End::DetachAndRelease => {
                let remaining = held.guard.remaining().as_nanos() as u64;
                self.log.write(What::Detached { of: held.op, remaining });
                let hold = held.guard.detach();
                if matches!(end, End::DetachAndRelease) {
                    sleep(ms(self.rng.u64(..30))).await;
                    let op = self.log.call(self.worker, Call::ReleaseBy { hold: hold.to_string() });
                    let released = release_by(&self.client, of.name(), kind, hold).await;
                    self.log.answer(op, done(released.map(|freed| Some(u64::from(freed)))));
                }
            }
        }
    }

    async fn turn_latch(&mut self) {
        self.shuffle().await;
        let (name, latch) = (Use::Latch.name().to_owned(), self.client.latch(Use::Latch.name()));
        let turn = self.rng.u32(..10);
        let limit = self.rng.u64(1..400);
        let call = match turn {
            0 | 1 => Call::SetCount { name, to: 2 },
            2..=5 => Call::CountDown { name },
            6 => Call::Count { name },
            _ => Call::Wait { name, wait: Wait::For(limit * 1_000_000) },
        };
        let op = self.log.call(self.worker, call);
        let answer = match turn {
            0 | 1 => latch.try_set_count(2).await.map(|set| Some(u64::from(set))),
            2..=5 => latch.count_down().await.map(|()| None),
            6 => latch.count().await.map(Some),
            _ => latch.try_wait_for(ms(limit)).await.map(|open| Some(u64::from(open))),
        };
        self.log.answer(op, done(answer));
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn ask<'a>(
    client: &'a Client,
    name: &'a str,
    kind: Kind,
    wait: Wait,
    lease: Option<Duration>,
    owner: Option<&'a Owner>,
) -> Result<Option<Guard>> {
    if kind == Kind::Leader {
        let election = client.election(name);
        let election = match lease {
            Some(lease) => election.lease(lease),
            None => election,
        };
        return match wait {
            Wait::Try => election.try_campaign().await,
            Wait::For(limit) => election.try_campaign_for(Duration::from_nanos(limit)).await,
            Wait::Forever => election.campaign().await.map(Some),
        };
    }
    let lock = template(client, name, kind);
    let lock = match owner {
        Some(owner) => lock.owner(owner),
        None => lock,
    };
    let lock = match lease {
        Some(lease) => lock.lease(lease),
        None => lock,
    };
    match wait {
        Wait::Try => lock.try_acquire().await,
        Wait::For(limit) => lock.try_acquire_for(Duration::from_nanos(limit)).await,
        Wait::Forever => lock.acquire().await.map(Some),
    }
}

fn template(client: &Client, name: &str, kind: Kind) -> tenure_core::Lock {
    match kind {
        Kind::Fair => client.lock(name).fair(),
        Kind::Read => client.rwlock(name).read(),
        Kind::Write => client.rwlock(name).write(),
        Kind::Permits { n, limit } => client.semaphore(name, limit).permits(n),
        Kind::Lock | Kind::Leader => client.lock(name),
    }
}

async fn release_by(client: &Client, name: &str, kind: Kind, hold: HoldId) -> Result<bool> {
    template(client, name, kind).release_by(hold).await
}

fn done(result: Result<Option<u64>>) -> Answer {
    match result {
        Ok(value) => Answer::Done { value },
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> Answer {
    let text = error.to_string();
    match error {
        Error::Unknown { .. } => Answer::Unknown { error: text },
        Error::Several(all) if all.iter().any(Error::is_unknown) => Answer::Unknown { error: text },
        Error::Unavailable { .. } | Error::Several(_) | Error::GaveUp { .. } | Error::Lost(_) => {
            Answer::Unavailable { error: text }
        }
        _ => Answer::Refused { error: text },
    }
}
