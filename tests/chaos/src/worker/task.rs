//! One task or thread: acquires, holds, enters again, writes, and ends in every way, until it is told to stop.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use checker::{Acquire, Answer, Call, Granted, Kind, Wait, What};
use tenure::Owner;

use crate::clock::{nanos, now};
use crate::kinds::Use;
use crate::log::Log;
use crate::register::{Register, Value};
use crate::worker::answers::{done, failed, released};
use crate::worker::api::{Api, Held, Wanted};
use crate::worker::choice::{End, Section, rest};
use crate::worker::{Orders, latches};

/// The longest time between two looks at a guard.
const LOOK: Duration = Duration::from_millis(25);

/// A worker of a process.
pub(crate) struct Task {
    pub(crate) worker: u32,
    orders: Arc<Orders>,
    pub(crate) log: Arc<Log>,
    stop: Arc<AtomicBool>,
    pub(crate) rng: fastrand::Rng,
    registers: HashMap<String, Register>,
    owners: u32,
}

/// A guard, and the acquire that returned it.
struct Grant<G> {
    op: u64,
    fence: Option<u64>,
    guard: G,
}

impl Task {
    pub(crate) fn new(worker: u32, orders: Arc<Orders>, log: Arc<Log>, stop: Arc<AtomicBool>) -> Self {
        let seed = orders.seed ^ u64::from(orders.number) << 32 ^ u64::from(worker);
        let rng = fastrand::Rng::with_seed(seed);
        Self { worker, orders, log, stop, rng, registers: HashMap::new(), owners: 0 }
    }

    /// Works until it is told to stop.
    pub(crate) async fn work<A: Api>(mut self, api: A) {
        while !self.stop.load(SeqCst) {
            let of = self.orders.uses[self.rng.usize(0..self.orders.uses.len())];
            if !api.can(of) {
                // Others are busy with it.
            } else if of == Use::Latch {
                latches::turn(&mut self, &api).await;
            } else {
                let section = api.fit(Section::draw(&mut self.rng, of, &self.orders));
                self.section(&api, &section).await;
            }
            let rest = rest(&mut self.rng);
            api.sleep(rest).await;
        }
    }

    async fn section<A: Api>(&mut self, api: &A, section: &Section) {
        self.owners += 1;
        let owner = section.again.map(|_| (Owner::new(), format!("{}.{}", self.worker, self.owners)));
        let Some(grant) = self.acquire(api, section, section.kind, owner.as_ref()).await else { return };
        let half = section.hold / 2;
        let before = match section.writes {
            true => self.register(section).read(grant.op, grant.fence).expect("the register is read"),
            false => None,
        };
        let mut held = self.hold(api, &grant, half).await;
        if let Some(kind) = section.again.filter(|_| held) {
            let again =
                Section { wait: Wait::For(nanos(LOOK)), lease: None, patience: None, ..section.clone() };
            if let Some(inner) = self.acquire(api, &again, kind, owner.as_ref()).await {
                self.hold(api, &inner, Duration::ZERO).await;
                self.release(inner).await;
            }
        }
        held = held && self.hold(api, &grant, half).await;
        // A fence is for those who do not know that they are late. Without one it is best to look before.
        if let Some(value) = before.filter(|_| held || grant.fence.is_some()) {
            self.change(section, &grant, value);
        }
        self.end(api, section, grant).await;
    }

    fn register(&mut self, section: &Section) -> &mut Register {
        let Orders { registers, number, .. } = &*self.orders;
        self.registers.entry(section.name.clone()).or_insert_with(|| {
            Register::open(registers, &section.name, *number).expect("the register is opened")
        })
    }

    fn change<G>(&mut self, section: &Section, grant: &Grant<G>, value: Value) {
        let (op, fence) = (grant.op, grant.fence);
        self.register(section).write(op, fence, value).expect("the register is written");
    }

    async fn acquire<A: Api>(
        &mut self,
        api: &A,
        section: &Section,
        kind: Kind,
        owner: Option<&(Owner, String)>,
    ) -> Option<Grant<A::Guard>> {
        let Section { name, wait, lease, patience, .. } = section.clone();
        let call = Acquire {
            name: name.clone(),
            kind,
            owner: owner.map(|(_, word)| word.clone()),
            wait: api.expected(wait),
            lease: lease.map(nanos),
            least: None,
        };
        let wanted = Wanted { name, kind, owner: owner.map(|(owner, _)| owner.clone()), lease };
        let op = self.log.call(self.worker, Call::Acquire(call));
        let asking = async {
            match wait {
                Wait::Try => api.try_acquire(&wanted).await,
                Wait::For(limit) => api.try_acquire_for(&wanted, Duration::from_nanos(limit)).await,
                Wait::Forever => api.acquire(&wanted).await.map(Some),
            }
        };
        let result = match patience {
            Some(patience) => api.within(patience, asking).await,
            None => Some(asking.await),
        };
        let at = now();
        let (answer, guard) = match result {
            Some(Ok(Some(guard))) => {
                let remaining = Some(nanos(guard.remaining()));
                let granted =
                    Granted { fence: guard.fence(), hold: guard.id().map(|id| id.to_string()), remaining };
                (Answer::Granted(granted), Some(guard))
            }
            Some(Ok(None)) if wait == Wait::Try => (Answer::Busy, None),
            Some(Ok(None)) => (Answer::TimedOut, None),
            Some(Err(error)) => (failed(&error), None),
            None => (Answer::Unknown { error: "its future was dropped".into() }, None),
        };
        self.log.answer(op, at, answer);
        guard.map(|guard| Grant { op, fence: guard.fence(), guard })
    }

    /// Holds it for this time, or until it is lost; asks the guard again and again.
    async fn hold<A: Api>(&mut self, api: &A, grant: &Grant<A::Guard>, time: Duration) -> bool {
        let end = now() + nanos(time);
        loop {
            let at = now();
            if !grant.guard.is_held() {
                self.log.write(now(), What::NotHeld { of: grant.op, reason: None });
                return false;
            }
            self.log.write(at, What::Held { of: grant.op });
            let left = Duration::from_nanos(end.saturating_sub(now()));
            if left.is_zero() {
                return true;
            }
            api.sleep(left.min(LOOK)).await;
        }
    }

    async fn release<G: Held>(&mut self, grant: Grant<G>) {
        let op = self.log.call(self.worker, Call::Release { of: grant.op });
        let result = grant.guard.release().await;
        let at = now();
        self.log.answer(op, at, released(result));
    }

    async fn end<A: Api>(&mut self, api: &A, section: &Section, grant: Grant<A::Guard>) {
        match section.end {
            End::Release => self.release(grant).await,
            End::Drop => {
                self.log.write(now(), What::Dropped { of: grant.op });
                drop(grant.guard);
            }
            End::Detach { release } => {
                let at = now();
                let remaining = nanos(grant.guard.remaining());
                self.log.write(at, What::Detached { of: grant.op, remaining });
                let hold = grant.guard.detach();
                if release {
                    let pause = Duration::from_millis(self.rng.u64(0..50));
                    api.sleep(pause).await;
                    let op = self.log.call(self.worker, Call::ReleaseBy { hold: hold.to_string() });
                    let Section { name, kind, .. } = section.clone();
                    let wanted = Wanted { name, kind, owner: None, lease: None };
                    let result = api.release_by(&wanted, hold).await;
                    let at = now();
                    self.log.answer(op, at, done(result.map(|freed| Some(u64::from(freed)))));
                }
            }
        }
    }
}
