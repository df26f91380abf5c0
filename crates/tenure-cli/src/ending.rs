//! When a command has to go: TERM early enough that KILL still comes before the hold ends. Pure: time is handed in.

use std::time::Duration;

use tenure::{LostReason, Time};

/// A hold is looked at this often at least, since timers stand still while the machine sleeps.
const LOOK: Duration = Duration::from_secs(1);
/// Two ends that are less than this apart are one.
const SAME: Duration = Duration::from_millis(100);

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Look again after this long.
    Wait(Duration),
    /// Tell the command to end, because of this.
    Term(String),
    /// End it.
    Kill,
}

/// A time that is bounded, and how much of its end is set aside.
#[derive(Debug, Clone, Copy)]
struct Span {
    length: Duration,
    /// TERM comes this long before the end,
    grace: Duration,
    /// and KILL this long.
    margin: Duration,
}

impl Span {
    fn new(length: Duration, grace: Duration) -> Self {
        let margin = Duration::from_millis(500).min(length / 10);
        Self { length, grace: grace.min(length / 3).max(margin), margin }
    }
}

#[derive(Debug)]
pub(crate) struct Ending {
    grace: Duration,
    lease: Span,
    /// What ends, for people.
    what: String,
    renewed: bool,
    max_hold: Option<(Span, Time)>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Held,
    Ending { kill_at: Time },
    Killed,
}

impl Ending {
    /// For a hold granted at `now`.
    pub(crate) fn new(
        now: Time,
        grace: Duration,
        lease: Duration,
        renewed: bool,
        max_hold: Option<Duration>,
    ) -> Self {
        let max_hold = max_hold.map(|limit| (Span::new(limit, grace), now.after(limit)));
        let what = format!("lease of {lease:?}");
        Self { grace, lease: Span::new(lease, grace), what, renewed, max_hold, phase: Phase::Held }
    }

    /// The same where a session keeps the hold alive, which is certain for this long at a time.
    pub(crate) fn with_session(mut self, certain: Duration) -> Self {
        if certain < self.lease.length {
            self.lease = Span::new(certain, self.grace);
            self.what = "session".into();
        }
        self
    }

    /// Whether the command was told to end.
    pub(crate) fn begun(&self) -> bool {
        self.phase != Phase::Held
    }

    /// Whether KILL was sent.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Killed
    }

    /// What to do at `now`, when the hold is certain for another `left`, or is `lost`. Once begun, an ending goes on
    /// even if the hold turns out to be good again: the command has been told.
    pub(crate) fn step(&mut self, now: Time, left: Duration, lost: Option<LostReason>) -> Step {
        match self.phase {
            Phase::Killed => Step::Wait(LOOK),
            Phase::Ending { kill_at } if now >= kill_at => {
                self.phase = Phase::Killed;
                Step::Kill
            }
            Phase::Ending { kill_at } => Step::Wait(kill_at.since(now).min(LOOK)),
            Phase::Held => match lost {
                // The machine slept through the time that was set aside.
                Some(reason @ (LostReason::Expired | LostReason::MaxHold)) => {
                    self.begin(now, reason.to_string())
                }
                Some(reason) => self.begin(now.after(self.grace), reason.to_string()),
                None => self.while_held(now, left),
            },
        }
    }

    fn while_held(&mut self, now: Time, left: Duration) -> Step {
        let mut look = LOOK;
        let limit = self.max_hold.map(|(span, end)| (span, end.since(now)));
        // What a guard has left ends with its limit too, which was counted from a moment earlier. The lease has more.
        let limited = limit.is_some_and(|(_, limit)| left + SAME >= limit);
        if !limited {
            if left <= self.lease.grace {
                let why = match self.renewed {
                    true => format!("it could not be renewed, and its {} ends", self.what),
                    false => format!("its {} ends", self.what),
                };
                return self.begin(now.after(left.saturating_sub(self.lease.margin)), why);
            }
            look = look.min(left - self.lease.grace);
        }
        if let Some((span, limit)) = limit {
            let left = if limited { left.min(limit) } else { limit };
            if left <= span.grace {
                let why = format!("it was held for as long as --max-hold {:?} allows", span.length);
                return self.begin(now.after(left.saturating_sub(span.margin)), why);
            }
            look = look.min(left - span.grace);
        }
        Step::Wait(look)
    }

    fn begin(&mut self, kill_at: Time, why: String) -> Step {
        self.phase = Phase::Ending { kill_at };
        Step::Term(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000_000_000_000);

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn at(seconds: f64) -> Time {
        START.after(s(seconds))
    }

    #[test]
    fn a_lease_ends_with_term_and_then_kill_before_its_end() {
        let mut ending = Ending::new(START, s(5.0), s(3.0), false, None);
        assert_eq!(ending.step(at(0.0), s(2.9), None), Step::Wait(s(1.0)));
        assert_eq!(ending.step(at(1.5), s(1.4), None), Step::Wait(s(0.4)));
        assert!(matches!(ending.step(at(1.9), s(1.0), None), Step::Term(why) if why.contains("lease of 3s")));
        assert_eq!(ending.step(at(2.0), s(0.9), None), Step::Wait(s(0.6)));
        assert_eq!(ending.step(at(2.6), s(0.3), None), Step::Kill);
        assert_eq!(ending.step(at(2.7), s(0.2), None), Step::Wait(s(1.0)), "KILL is sent once");
    }

    #[test]
    fn a_session_may_be_shorter_than_the_lease() {
        let mut ending = Ending::new(START, s(5.0), s(30.0), true, None).with_session(s(3.6));
        assert_eq!(ending.step(at(0.0), s(3.6), None), Step::Wait(s(1.0)));
        assert_eq!(ending.step(at(9.0), s(2.2), None), Step::Wait(s(1.0)));
        assert!(
            matches!(ending.step(at(10.0), s(1.2), None), Step::Term(why) if why.contains("its session ends"))
        );
        assert_eq!(ending.step(at(10.9), s(0.3), None), Step::Kill);
    }

    #[test]
    fn the_grace_is_as_asked_for_where_the_lease_is_long() {
        let mut ending = Ending::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(ending.step(at(24.0), s(5.1), None), Step::Wait(s(0.1)));
        assert!(matches!(ending.step(at(24.1), s(5.0), None), Step::Term(why) if why.contains("renewed")));
    }

    #[test]
    fn a_renewal_after_term_changes_nothing() {
        let mut ending = Ending::new(START, s(5.0), s(30.0), true, None);
        assert!(matches!(ending.step(at(25.0), s(5.0), None), Step::Term(_)));
        assert_eq!(ending.step(at(29.0), s(29.0), None), Step::Wait(s(0.5)));
        assert_eq!(ending.step(at(29.5), s(28.5), None), Step::Kill);
    }

    #[test]
    fn max_hold_is_kept_although_the_lease_is_renewed() {
        let mut ending = Ending::new(START, s(5.0), s(30.0), true, Some(s(60.0)));
        assert_eq!(ending.step(at(54.8), s(29.0), None), Step::Wait(s(0.2)));
        assert!(
            matches!(ending.step(at(55.0), s(29.0), None), Step::Term(why) if why.contains("--max-hold 60s"))
        );
        assert_eq!(ending.step(at(59.5), s(29.0), None), Step::Kill);
    }

    #[test]
    fn max_hold_may_be_shorter_than_what_a_lease_sets_aside() {
        let mut ending = Ending::new(START, s(5.0), s(30.0), true, Some(s(3.0)));
        // The guard knows of the limit, and began a little earlier.
        assert_eq!(ending.step(at(0.0), s(2.99), None), Step::Wait(s(1.0)));
        assert_eq!(ending.step(at(1.5), s(1.49), None), Step::Wait(s(0.49)));
        assert!(
            matches!(ending.step(at(2.0), s(0.99), None), Step::Term(why) if why.contains("--max-hold 3s"))
        );
        assert_eq!(ending.step(at(2.7), s(0.29), None), Step::Kill);
    }

    #[test]
    fn what_was_taken_away_leaves_the_grace() {
        let mut ending = Ending::new(START, s(5.0), s(3.0), true, None);
        assert!(matches!(ending.step(at(1.0), s(0.0), Some(LostReason::Gone)), Step::Term(_)));
        assert_eq!(ending.step(at(5.9), s(0.0), Some(LostReason::Gone)), Step::Wait(s(0.1)));
        assert_eq!(ending.step(at(6.0), s(0.0), Some(LostReason::Gone)), Step::Kill);
    }

    #[test]
    fn after_a_sleep_through_the_lease_nothing_is_left_to_wait_for() {
        let mut ending = Ending::new(START, s(5.0), s(30.0), true, None);
        assert!(matches!(ending.step(at(900.0), s(0.0), Some(LostReason::Expired)), Step::Term(_)));
        assert_eq!(ending.step(at(900.0), s(0.0), None), Step::Kill);
    }

    #[test]
    fn without_grace_term_comes_with_kill() {
        let mut ending = Ending::new(START, s(0.0), s(10.0), false, None);
        assert!(matches!(ending.step(at(9.5), s(0.5), None), Step::Term(_)));
        assert_eq!(ending.step(at(9.5), s(0.5), None), Step::Kill);
    }
}
