//! Histories in few words. Times are milliseconds.

use checker::{
    Acquire, Answer, Call, Check, Class, Event, Expectations, Granted, History, Inspected, Kind, Phase,
    Report, Store, Target, Timing, Wait, What, check,
};

pub(crate) const MS: u64 = 1_000_000;
/// The number of a release, from that of its acquire.
const RELEASE: u64 = 1_000_000_000;

/// A lease of 1 s, a poll cap of 200 ms, a slack of 500 ms.
pub(crate) fn timing() -> Timing {
    Timing { lease: 1_000 * MS, poll: 200 * MS, restart_delay: 2_000 * MS, slack: 500 * MS }
}

pub(crate) fn expected(store: Store) -> Expectations {
    Expectations { timing: timing(), ..Expectations::of(store) }
}

#[derive(Default)]
pub(crate) struct Log {
    events: Vec<Event>,
    faults: u32,
}

/// An acquire that is being described.
#[derive(Clone)]
pub(crate) struct Want {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) owner: Option<&'static str>,
    pub(crate) wait: Wait,
    pub(crate) lease: Option<u64>,
}

pub(crate) const LOCK: Want =
    Want { name: "a", kind: Kind::Lock, owner: None, wait: Wait::Forever, lease: None };

pub(crate) fn of(kind: Kind) -> Want {
    Want { kind, ..LOCK }
}

impl Log {
    pub(crate) fn event(&mut self, at: u64, process: u32, what: What) -> &mut Self {
        self.events.push(Event { at: at * MS, process, what });
        self
    }

    pub(crate) fn started(&mut self, process: u32) -> &mut Self {
        self.event(0, process, What::Started { clients: vec![format!("c{process}")] })
    }

    pub(crate) fn call(&mut self, at: u64, process: u32, op: u64, call: Call) -> &mut Self {
        self.event(at, process, What::Call { op, worker: 0, call })
    }

    pub(crate) fn answer(&mut self, at: u64, process: u32, op: u64, answer: Answer) -> &mut Self {
        self.event(at, process, What::Answer { op, answer })
    }

    pub(crate) fn acquire(&mut self, at: u64, process: u32, op: u64, want: &Want) -> &mut Self {
        let call = Call::Acquire(Acquire {
            name: want.name.into(),
            kind: want.kind,
            owner: want.owner.map(str::to_owned),
            wait: want.wait,
            lease: want.lease.map(|lease| lease * MS),
            least: None,
        });
        self.call(at, process, op, call)
    }

    /// A grant that its guard confirms.
    pub(crate) fn granted(&mut self, at: u64, process: u32, op: u64, fence: u64) -> &mut Self {
        let hold = Some(format!("c{process}:{op}"));
        let granted = Granted { fence: (fence > 0).then_some(fence), hold, remaining: Some(MS) };
        self.answer(at, process, op, Answer::Granted(granted))
    }

    pub(crate) fn held(&mut self, at: u64, process: u32, of: u64) -> &mut Self {
        self.event(at, process, What::Held { of })
    }

    pub(crate) fn not_held(&mut self, at: u64, process: u32, of: u64) -> &mut Self {
        self.event(at, process, What::NotHeld { of, reason: None })
    }

    /// A release has a number of its own.
    pub(crate) fn release(&mut self, at: u64, answered: u64, process: u32, of: u64) -> &mut Self {
        self.call(at, process, of + RELEASE, Call::Release { of });
        self.answer(answered, process, of + RELEASE, Answer::Released)
    }

    /// All of a hold: acquired at once, held, and released a millisecond after its end.
    pub(crate) fn hold(
        &mut self,
        span: (u64, u64),
        process: u32,
        op: u64,
        fence: u64,
        want: &Want,
    ) -> &mut Self {
        self.acquire(span.0.saturating_sub(1), process, op, want);
        self.granted(span.0, process, op, fence);
        self.release(span.1, span.1 + 1, process, op)
    }

    pub(crate) fn fault(&mut self, span: (u64, u64), class: Class, target: Target) -> &mut Self {
        let phases = [
            (span.0, Phase::Begin),
            (span.0, Phase::InEffect),
            (span.1, Phase::Healing),
            (span.1, Phase::Healed),
        ];
        self.faults += 1;
        let id = self.faults;
        for (at, phase) in phases {
            self.event(at, 0, What::Fault { id, class, target, phase });
        }
        self
    }

    pub(crate) fn inspected(&mut self, at: u64, holders: &[&str], waiters: &[&str]) -> &mut Self {
        let [holders, waiters] =
            [holders, waiters].map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
        self.event(at, 0, What::Inspected(Inspected { name: "a".into(), holders, waiters }))
    }

    pub(crate) fn history(&self) -> History {
        History::new(self.events.clone())
    }

    pub(crate) fn report(&self, store: Store) -> Report {
        check(&self.history(), &expected(store))
    }

    /// The violations on `store`, as their checks.
    pub(crate) fn found(&self, store: Store) -> Vec<Check> {
        self.report(store).violations.iter().map(|violation| violation.check).collect()
    }
}
