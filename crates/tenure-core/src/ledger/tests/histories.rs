//! Random histories of all kinds with many holders and waiters. After each step the index of the entries is compared
//! with a plain scan of them, and the result of the step with that of a ledger whose entries have no index; and each
//! waiter that would be admitted has been told so since its last attempt.

use super::*;
use crate::backend::Chance;
use crate::ledger::entries::Entry;

/// Random numbers that follow from a seed.
struct Dice(Chance);

impl Dice {
    fn below(&self, n: u64) -> u64 {
        self.0.next().unwrap() % n
    }
}

/// Of which ids, clients and names of operations there are so many in one history.
const IDS: u64 = 60;

#[derive(Clone, Debug)]
enum Step {
    Try(Claim),
    Renew(Vec<Claim>),
    Release(Claim, u32),
    Count(Counter, CountOp, OpId),
    Forget(ClientId),
    Watch(ClientId),
    Prune,
}

impl Step {
    /// Takes the step, and returns what the caller is told.
    fn take(&self, ledger: &mut Ledger, now: Now) -> String {
        ledger.effects = Effects::default();
        match self {
            Self::Try(claim) => format!("{:?}", ledger.attempt(claim, &process(), now)),
            Self::Renew(claims) => format!("{:?}", ledger.renew(claims, now)),
            Self::Release(claim, left) => format!("{:?}", ledger.release(claim, *left, now)),
            Self::Count(of, op, id) => format!("{:?}", ledger.count(&name(), *of, *op, *id, now)),
            Self::Forget(dead) => format!("{:?}", ledger.forget_waiters(&HashSet::from([*dead]))),
            Self::Watch(client) => format!("{:?}", ledger.watch(*client, now)),
            Self::Prune => format!("{:?}", ledger.prune(now)),
        }
    }
}

/// A history on one name.
struct History {
    dice: Dice,
    family: u64,
    now: Now,
    /// How often an id was released: then another one takes its turn, since a released id is dead.
    released: BTreeMap<u64, u64>,
    op: u64,
}

impl History {
    fn kind(&self, n: u64) -> Kind {
        match (self.family, n % 4) {
            (0, 3) => Kind::Leader,
            (0, _) => Kind::Lock,
            // Of these families one name may have both.
            (1, 3) => Kind::Lock,
            (1, _) => Kind::FairLock,
            (2, 0) => Kind::Write,
            (2, 1) => Kind::Read { under_write: Some(id(n - 1 + IDS * self.times(n - 1))) },
            (2, _) => Kind::Read { under_write: None },
            (_, m) => Kind::Permit { n: m as u32 + 1, limit: 9 },
        }
    }

    fn times(&self, n: u64) -> u64 {
        self.released.get(&n).copied().unwrap_or(0)
    }

    fn claim(&self) -> Claim {
        let n = self.dice.below(IDS);
        let lease = LEASE * (1 + self.dice.below(3) as u32);
        let wait = (self.dice.below(4) > 0).then_some(Duration::MAX);
        Claim { lease, wait, ..claim(n + IDS * self.times(n), self.kind(n)) }
    }

    fn step(&mut self) -> Step {
        match self.dice.below(40) {
            0..16 => Step::Try(self.claim()),
            16..18 => Step::Try(Claim { holds: 2, ..self.claim() }),
            18..21 => {
                let claims = (0..self.dice.below(9)).map(|_| self.claim());
                Step::Renew(claims.collect())
            }
            21 => Step::Renew(vec![Claim { lease: Duration::ZERO, ..self.claim() }]),
            22 => Step::Release(self.claim(), 1),
            23..32 => {
                let claim = self.claim();
                *self.released.entry(claim.id.n % IDS).or_default() += 1;
                Step::Release(claim, 0)
            }
            32..34 => self.count(),
            34 => Step::Forget(client(self.dice.below(3) as u8)),
            35 => Step::Watch(client(self.dice.below(3) as u8)),
            _ => {
                self.pass();
                Step::Prune
            }
        }
    }

    /// Permits are resized; other families are used as a count, which is refused while they are in use.
    fn count(&mut self) -> Step {
        self.op += 1;
        let id = OpId { client: client(self.dice.below(3) as u8), n: self.op, settled: self.op - 1 };
        let n = self.dice.below(12);
        let of = match self.dice.below(8) {
            0 => Counter::Latch,
            1 => Counter::Semaphore,
            _ if self.family == 3 => Counter::Size,
            _ => Counter::Semaphore,
        };
        let op = match self.dice.below(6) {
            0 => CountOp::Get,
            1 => CountOp::TakeIfAtLeast(n),
            2 => CountOp::Undo(self.op.saturating_sub(1)),
            3 => CountOp::Delete,
            _ => CountOp::Set(n),
        };
        Step::Count(of, op, id)
    }

    /// Time passes, mostly. Now and then the clock is set back, or it is that of another machine.
    fn pass(&mut self) {
        let by = self.dice.below(2_000_000);
        match self.dice.below(20) {
            0 => self.now.tick = self.now.tick.saturating_sub(by),
            1 => self.now.clock = u128::from(self.dice.below(3)),
            2..5 => self.now.tick += 10 * by,
            _ => self.now.tick += by,
        }
        self.now.wall += 1;
    }
}

/// These entries without an index, as a store reads them.
fn unindexed(ledger: &Ledger) -> Ledger {
    Ledger {
        holders: ledger.holders.iter().cloned().collect::<Vec<_>>().into(),
        waiters: ledger.waiters.iter().cloned().collect::<Vec<_>>().into(),
        ..ledger.clone()
    }
}

/// Asserts that what is asked of entries is what a scan of them says.
fn assert_scanned<T: Entry + PartialEq + std::fmt::Debug>(entries: &Entries<T>, of: HoldId, now: Now) {
    let all: Vec<&T> = entries.iter().collect();
    assert!(entries.is_indexed_right(), "{entries:?}");
    assert_eq!(entries.len(), all.len());
    assert_eq!((entries.first(), entries.last()), (all.first().copied(), all.last().copied()));
    assert_eq!(entries.get(of), all.iter().find(|e| e.id() == of).copied());
    let barring = entries.first_barring().map(|(_, e)| e.id());
    assert_eq!(barring, all.iter().find(|e| e.is_barring()).map(|e| e.id()));
    assert_eq!(entries.permits(), all.iter().map(|e| e.permits()).sum::<u64>());
    let left = entries.first_end(now).map(|end| end.left(now));
    assert_eq!(left, all.iter().map(|e| e.expiry().left(now)).min());
}

/// Asserts that who is admitted is who would be if all holders and all waiters ahead were looked at. Returns them.
fn assert_admitted(ledger: &Ledger, kinds: &[Kind]) -> Vec<HoldId> {
    let mut ahead = InTheWay::default();
    ledger.holders.iter().for_each(|h| ahead.inside(h.id, &h.kind));
    let (size, mut would) = (|limit: u32| ledger.size.unwrap_or(limit), ahead);
    let mut woken = Vec::new();
    for waiter in ledger.waiters.iter() {
        let (place, n) = (ledger.waiters.find(waiter.id), permits(&waiter.kind));
        let quick = ledger.ahead_of(place).admits(&waiter.kind, size(n.1)).is_ok();
        assert_eq!(quick, ahead.admits(&waiter.kind, size(n.1)).is_ok(), "{waiter:?} of {ledger:?}");
        ahead.ahead(waiter.id, &waiter.kind);
        if n.0 > size(n.1) {
            woken.push(waiter.id);
        } else if would.admits(&waiter.kind, size(n.1)).is_ok() {
            woken.push(waiter.id);
            would.inside(waiter.id, &waiter.kind);
        } else {
            would.ahead(waiter.id, &waiter.kind);
        }
    }
    for kind in kinds {
        let limit = permits(kind).1;
        let quick = ledger.ahead_of(None).admits(kind, size(limit)).is_ok();
        assert_eq!(quick, ahead.admits(kind, size(limit)).is_ok(), "a new {kind:?} of {ledger:?}");
    }
    let mut admitted = Vec::new();
    ledger.each_admitted(|client| {
        admitted.push(client);
        true
    });
    assert!(admitted.iter().eq(woken.iter().map(|id| &id.client)), "{admitted:?} of {ledger:?}");
    woken
}

/// Who was told that it would be admitted, and has not tried since.
#[derive(Default)]
struct Notified(HashSet<HoldId>);

impl Notified {
    fn after(&mut self, step: &Step, ledger: &Ledger) {
        let told = ledger.waiters.iter().filter(|waiter| ledger.effects.admit.contains(&waiter.id.client));
        self.0.extend(told.map(|waiter| waiter.id));
        if let Step::Try(claim) = step {
            self.0.remove(&claim.id);
        }
    }
}

/// The number of permits and the limit.
fn permits(kind: &Kind) -> (u32, u32) {
    match kind {
        Kind::Permit { n, limit } => (*n, *limit),
        _ => (0, 0),
    }
}

/// Runs one history. Returns the largest number of entries, and how often there was an index.
fn run(seed: u64) -> (usize, usize) {
    let dice = Dice(Chance::seeded(seed));
    let family = dice.below(4);
    let now = Now { clock: 0, tick: 60_000_000, wall: 1_000_000 };
    let mut history = History { dice, family, now, released: BTreeMap::new(), op: 0 };
    let (mut ledger, mut backup) = (Ledger::default(), Ledger::default());
    let (mut most, mut indexed, mut notified) = (0, 0, Notified::default());
    for _ in 0..400 {
        let step = history.step();
        match history.dice.below(80) {
            // The store has lost what was written since.
            0 => {
                ledger = backup.clone();
                // All try again where the store may have lost something.
                notified.0.extend(ledger.waiters.iter().map(|waiter| waiter.id));
            }
            1 => backup = ledger.clone(),
            2 => ledger = serde_json::from_str(&serde_json::to_string(&ledger).unwrap()).unwrap(),
            _ => {}
        }
        let mut plain = unindexed(&ledger);
        let before = format!("{ledger:?}");
        let told = step.take(&mut ledger, history.now);
        assert_eq!(told, step.take(&mut plain, history.now), "seed {seed}, {step:?} of {before}");
        assert_eq!(ledger, plain, "seed {seed}, {step:?} of {before}");
        notified.after(&step, &ledger);
        let any = history.claim();
        assert_scanned(&ledger.holders, any.id, history.now);
        assert_scanned(&ledger.waiters, any.id, history.now);
        let waits = assert_admitted(&ledger, &[any.kind]).into_iter().find(|id| !notified.0.contains(id));
        // A claim for permits that passes the queue may leave fewer than those told want, but enough for others.
        let waits = waits.filter(|_| family != 3);
        assert_eq!(waits, None, "waits for nobody: seed {seed}, {step:?} of {before}");
        most = most.max(ledger.holders.len()).max(ledger.waiters.len());
        indexed += usize::from(ledger.holders.is_indexed() || ledger.waiters.is_indexed());
    }
    (most, indexed)
}

#[test]
fn the_index_agrees_with_a_scan_in_every_history() {
    let (mut most, mut indexed) = (0, 0);
    for seed in 0..80 {
        let (many, times) = run(seed);
        (most, indexed) = (most.max(many), indexed + times);
    }
    assert!(most > 20 && indexed > 8_000, "histories of up to {most} entries, {indexed} steps with an index");
}
