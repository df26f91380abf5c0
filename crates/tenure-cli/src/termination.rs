//! Decides when a command has to end: TERM early enough that KILL still comes before the hold ends. Does no I/O and
//! takes the time as an argument.

use std::time::Duration;

use tenure::LostReason;
use tenure::backend::Time;

/// Longest interval between two checks of a hold: timers stand still while the machine is suspended.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of checks within the validity of a hold, so that the guardian gets the new deadline after each renewal.
const CHECKS: u32 = 8;
/// Two deadlines less than this apart count as one.
const TOLERANCE: Duration = Duration::from_millis(100);

/// What to do after a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Check again after this long.
    Wait(Duration),
    /// Send TERM to the command, for this reason.
    Term(String),
    /// Send KILL.
    Kill,
}

/// A bounded time, and how much of its end is reserved for ending the command.
#[derive(Debug, Clone, Copy)]
struct Span {
    length: Duration,
    /// TERM is sent this long before the end.
    grace: Duration,
    /// KILL is sent this long before the end.
    margin: Duration,
}

impl Span {
    fn new(length: Duration, grace: Duration) -> Self {
        let margin = Duration::from_millis(500).min(length / 10);
        Self { length, grace: grace.min(length / 3).max(margin), margin }
    }
}

/// A deadline that renewals do not extend.
#[derive(Debug)]
struct Limit {
    span: Span,
    at: Time,
    /// The reason shown to users.
    why: String,
}

#[derive(Debug)]
pub(crate) struct Termination {
    grace: Duration,
    /// The validity after a renewal.
    valid: Span,
    /// End of validity as of the last check.
    until: Time,
    /// What expires, for messages: the lease or the session.
    what: String,
    session: bool,
    renewed: bool,
    limits: Vec<Limit>,
    /// When the next check is due.
    planned: Time,
    /// After a late check: the renewal has until then before TERM is sent.
    renewal_wait: Time,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Held,
    Terminating { kill_at: Time },
    Killed,
}

impl Termination {
    /// Creates the schedule for a hold granted at `now`.
    pub(crate) fn new(
        now: Time,
        grace: Duration,
        lease: Duration,
        renewed: bool,
        max_hold: Option<Duration>,
    ) -> Self {
        let mut termination = Self {
            grace,
            valid: Span::new(lease, grace),
            until: now.after(lease),
            what: format!("lease of {lease:?}"),
            session: false,
            renewed,
            limits: Vec::new(),
            planned: now,
            renewal_wait: now,
            phase: Phase::Held,
        };
        if let Some(limit) = max_hold {
            let why = format!("the limit of --max-hold {limit:?} is reached");
            termination.limit(now, limit, why);
        }
        termination
    }

    /// Switches to a hold that a session keeps alive, whatever its lease. It is valid for `certain` at first.
    ///
    /// Each later renewal gives less: it may take up to half of the session timeout until all servers have seen it. How
    /// much less is measured once the session was renewed.
    pub(crate) fn with_session(mut self, now: Time, certain: Duration) -> Self {
        if !self.renewed {
            let why = format!("its {} ends", self.what);
            self.limit(now, self.valid.length, why);
        }
        self.valid = Span::new(certain / 2, self.grace);
        self.until = now.after(certain);
        self.what = "session".into();
        (self.session, self.renewed) = (true, true);
        self
    }

    fn limit(&mut self, now: Time, length: Duration, why: String) {
        self.limits.push(Limit { span: Span::new(length, self.grace), at: now.after(length), why });
    }

    /// Whether TERM was sent.
    pub(crate) fn is_terminating(&self) -> bool {
        self.phase != Phase::Held
    }

    /// Whether KILL was sent.
    pub(crate) fn is_killed(&self) -> bool {
        self.phase == Phase::Killed
    }

    /// Deadline for the guardian, given that the hold is valid for another `left` at `now`: later than tenure's own
    /// KILL, but still before the hold ends.
    pub(crate) fn guardian_deadline(&self, now: Time, left: Duration) -> Time {
        let before_its_end =
            self.limits.iter().map(|l| l.span.margin).fold(self.valid.margin, Duration::min) / 2;
        match self.phase {
            Phase::Held => now.after(left.saturating_sub(before_its_end)),
            Phase::Terminating { kill_at } => kill_at.after(before_its_end),
            Phase::Killed => now,
        }
    }

    /// Returns what to do at `now`, when the hold is valid for another `left`, or is `lost`. Once TERM was sent the
    /// termination goes on even if the hold is renewed after all.
    pub(crate) fn step(&mut self, now: Time, left: Duration, lost: Option<LostReason>) -> Step {
        let step = self.step_from(now, left, lost);
        if let Step::Wait(pause) = step {
            self.planned = now.after(pause);
        }
        step
    }

    fn step_from(&mut self, now: Time, left: Duration, lost: Option<LostReason>) -> Step {
        match self.phase {
            Phase::Killed => Step::Wait(CHECK_INTERVAL),
            Phase::Terminating { kill_at } if now >= kill_at => {
                self.phase = Phase::Killed;
                Step::Kill
            }
            Phase::Terminating { kill_at } => Step::Wait(kill_at.since(now).min(CHECK_INTERVAL)),
            Phase::Held => match lost {
                // The machine was suspended past the grace period, so KILL follows at once.
                Some(reason @ (LostReason::Expired | LostReason::MaxHold)) => {
                    self.begin_termination(now, reason.to_string())
                }
                Some(reason) => self.begin_termination(now.after(self.grace), reason.to_string()),
                None => self.while_held(now, left),
            },
        }
    }

    fn while_held(&mut self, now: Time, left: Duration) -> Step {
        // `left` is also capped by the limits, measured by the guard from slightly earlier. If it is well below them,
        // the lease is what ends first.
        let limited = self.limits.iter().any(|limit| left + TOLERANCE >= limit.at.since(now));
        let mut check_after = CHECK_INTERVAL.min(self.valid.length / CHECKS);
        if !limited {
            self.measure(now, left);
            if left <= self.valid.grace {
                if let Some(pause) = self.renewal_wait(now, left) {
                    return Step::Wait(pause);
                }
                let why = match self.renewed {
                    true => format!("it could not be renewed before its {} ends", self.what),
                    false => format!("its {} ends", self.what),
                };
                return self.begin_termination(now.after(left.saturating_sub(self.valid.margin)), why);
            }
            check_after = check_after.min(left - self.valid.grace);
        }
        for limit in &self.limits {
            let ends = limit.at.since(now);
            let left = if left + TOLERANCE >= ends { left.min(ends) } else { ends };
            if left <= limit.span.grace {
                let (why, margin) = (limit.why.clone(), limit.span.margin);
                return self.begin_termination(now.after(left.saturating_sub(margin)), why);
            }
            check_after = check_after.min(left - limit.span.grace);
        }
        Step::Wait(check_after)
    }

    /// Returns how long to wait for a renewal. A late check means that the process was stopped, and the renewal with
    /// it: it could not be attempted yet, and may still extend the hold in full.
    fn renewal_wait(&mut self, now: Time, left: Duration) -> Option<Duration> {
        let margin = self.valid.margin;
        if self.renewed && now.since(self.planned) > margin && left > margin * 2 {
            // Leave the rest of the time as grace for the command, in case the renewal fails.
            self.renewal_wait = now.after(margin.min((left - margin) / 2));
        }
        // Signals cause checks too, so this one may come before that wait is over.
        let rest = self.renewal_wait.since(now);
        (!rest.is_zero()).then_some(rest)
    }

    /// Records what the last renewal of a session gave, as seen by the first check after it. How much the next one
    /// gives is unknown; it comes after a third of this.
    fn measure(&mut self, now: Time, left: Duration) {
        let until = now.after(left);
        if self.session && until > self.until.after(TOLERANCE / 10) {
            self.valid = Span::new(left, self.grace);
        }
        self.until = until;
    }

    fn begin_termination(&mut self, kill_at: Time, why: String) -> Step {
        self.phase = Phase::Terminating { kill_at };
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
        let mut termination = Termination::new(START, s(5.0), s(3.0), false, None);
        assert_eq!(termination.step(at(0.0), s(2.9), None), Step::Wait(s(0.375)));
        assert_eq!(termination.step(at(1.7), s(1.2), None), Step::Wait(s(0.2)));
        assert!(
            matches!(termination.step(at(1.9), s(1.0), None), Step::Term(why) if why.contains("lease of 3s"))
        );
        assert_eq!(termination.step(at(2.0), s(0.9), None), Step::Wait(s(0.6)));
        assert_eq!(termination.step(at(2.6), s(0.3), None), Step::Kill);
        assert_eq!(termination.step(at(2.7), s(0.2), None), Step::Wait(s(1.0)), "KILL is sent once");
    }

    #[test]
    fn a_session_may_be_shorter_than_the_lease() {
        let mut termination =
            Termination::new(START, s(5.0), s(30.0), true, None).with_session(START, s(3.6));
        assert!(matches!(termination.step(at(0.0), s(3.6), None), Step::Wait(_)));
        assert!(matches!(termination.step(at(9.0), s(1.8), None), Step::Wait(_)), "it was renewed");
        assert!(
            matches!(termination.step(at(10.1), s(0.7), None), Step::Wait(_)),
            "a third of 1.8 s is left"
        );
        assert!(
            matches!(termination.step(at(10.2), s(0.6), None), Step::Term(why) if why.contains("its session ends"))
        );
        assert_eq!(termination.step(at(10.62), s(0.18), None), Step::Kill);
    }

    /// Models what is left of a hold in a session of this length, whose servers report a ping to the leader only after
    /// `lag`. The leader is asked every sixteenth of the session, and the hold renewed after a third of what it had
    /// left; both happen `late` seconds late.
    struct Session {
        length: f64,
        lag: f64,
        until: f64,
        renew_at: f64,
    }

    impl Session {
        fn new(length: f64) -> Self {
            Self { length, lag: f64::min(3.2, length / 2.0), until: length * 0.99, renew_at: length * 0.33 }
        }

        fn left(&mut self, now: f64, late: f64) -> f64 {
            while self.renew_at <= now {
                let every = self.length / 16.0;
                let answered = ((self.renew_at - late) / every).floor() * every;
                let heard = ((answered - self.lag) / every).floor() * every;
                self.until = self.until.max(heard.max(0.0) + self.length * 0.99);
                self.renew_at += (self.until - self.renew_at) / 3.0 + late;
            }
            self.until - now
        }
    }

    #[test]
    fn a_healthy_session_is_never_given_up() {
        for length in [4.0, 6.0, 8.0, 10.0, 30.0] {
            for late in [0.0, 0.05, 0.1, 0.2] {
                let mut session = Session::new(length);
                let mut termination = Termination::new(START, s(5.0), s(30.0), true, None)
                    .with_session(START, s(length * 0.99));
                let mut now = 0.0;
                while now < 120.0 {
                    let left = session.left(now, late);
                    match termination.step(at(now), s(left), None) {
                        Step::Wait(pause) => now += pause.as_secs_f64().max(0.001) + late,
                        step => panic!("{length} s, {late} s late: {step:?} after {now} s, {left} s left"),
                    }
                }
            }
        }
    }

    #[test]
    fn a_fixed_lease_in_a_session_ends_with_the_lease() {
        let mut termination =
            Termination::new(START, s(5.0), s(9.0), false, None).with_session(START, s(3.96));
        assert!(matches!(termination.step(at(0.0), s(3.96), None), Step::Wait(_)));
        assert!(matches!(termination.step(at(5.9), s(1.9), None), Step::Wait(_)));
        let ends = termination.step(at(6.0), s(1.9), None);
        assert!(matches!(&ends, Step::Term(why) if why.contains("its lease of 9s ends")), "{ends:?}");
    }

    #[test]
    fn the_guardian_comes_after_tenure_and_before_the_end() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(termination.guardian_deadline(at(1.0), s(29.0)), at(29.75));
        assert_eq!(termination.step(at(24.5), s(5.5), None), Step::Wait(s(0.5)));
        assert!(matches!(termination.step(at(25.0), s(5.0), None), Step::Term(_)));
        // KILL is due at 29.5 s, even if the hold is renewed now.
        assert_eq!(termination.guardian_deadline(at(26.0), s(30.0)), at(29.75));
        assert_eq!(termination.step(at(29.5), s(0.5), None), Step::Kill);
        assert_eq!(termination.guardian_deadline(at(29.5), s(0.0)), at(29.5));
    }

    #[test]
    fn the_grace_is_as_asked_for_where_the_lease_is_long() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(termination.step(at(24.0), s(5.1), None), Step::Wait(s(0.1)));
        assert!(
            matches!(termination.step(at(24.1), s(5.0), None), Step::Term(why) if why.contains("renewed"))
        );
    }

    #[test]
    fn a_renewal_after_term_changes_nothing() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(termination.step(at(24.5), s(5.5), None), Step::Wait(s(0.5)));
        assert!(matches!(termination.step(at(25.0), s(5.0), None), Step::Term(_)));
        assert_eq!(termination.step(at(29.0), s(29.0), None), Step::Wait(s(0.5)));
        assert_eq!(termination.step(at(29.5), s(28.5), None), Step::Kill);
    }

    #[test]
    fn max_hold_is_kept_although_the_lease_is_renewed() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, Some(s(60.0)));
        assert_eq!(termination.step(at(54.8), s(29.0), None), Step::Wait(s(0.2)));
        assert!(
            matches!(termination.step(at(55.0), s(29.0), None), Step::Term(why) if why.contains("--max-hold 60s"))
        );
        assert_eq!(termination.step(at(59.5), s(29.0), None), Step::Kill);
    }

    #[test]
    fn max_hold_may_be_shorter_than_what_a_lease_sets_aside() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, Some(s(3.0)));
        // The guard applies the limit too, counted from slightly earlier.
        assert_eq!(termination.step(at(0.0), s(2.99), None), Step::Wait(s(1.0)));
        assert_eq!(termination.step(at(1.5), s(1.49), None), Step::Wait(s(0.49)));
        assert!(
            matches!(termination.step(at(2.0), s(0.99), None), Step::Term(why) if why.contains("--max-hold 3s"))
        );
        assert_eq!(termination.step(at(2.7), s(0.29), None), Step::Kill);
    }

    #[test]
    fn a_hold_that_was_taken_away_leaves_the_grace() {
        let mut termination = Termination::new(START, s(5.0), s(3.0), true, None);
        assert!(matches!(termination.step(at(1.0), s(0.0), Some(LostReason::Gone)), Step::Term(_)));
        assert_eq!(termination.step(at(5.9), s(0.0), Some(LostReason::Gone)), Step::Wait(s(0.1)));
        assert_eq!(termination.step(at(6.0), s(0.0), Some(LostReason::Gone)), Step::Kill);
    }

    #[test]
    fn after_a_sleep_through_the_lease_nothing_is_left_to_wait_for() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert!(matches!(termination.step(at(900.0), s(0.0), Some(LostReason::Expired)), Step::Term(_)));
        assert_eq!(termination.step(at(900.0), s(0.0), None), Step::Kill);
    }

    #[test]
    fn without_grace_term_comes_with_kill() {
        let mut termination = Termination::new(START, s(0.0), s(10.0), false, None);
        assert!(matches!(termination.step(at(9.5), s(0.5), None), Step::Term(_)));
        assert_eq!(termination.step(at(9.5), s(0.5), None), Step::Kill);
    }

    #[test]
    fn after_a_pause_that_the_hold_survived_it_may_be_renewed_first() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(termination.step(at(0.0), s(30.0), None), Step::Wait(s(1.0)));
        // Stopped by Ctrl-Z, continued after 26 s.
        assert_eq!(termination.step(at(26.0), s(4.0), None), Step::Wait(s(0.5)));
        // A signal causes an extra check.
        assert_eq!(termination.step(at(26.1), s(3.9), None), Step::Wait(s(0.4)));
        assert_eq!(termination.step(at(26.5), s(29.7), None), Step::Wait(s(1.0)), "it was renewed");
        assert!(!termination.is_terminating());
        // Another pause gets another wait for the renewal.
        assert_eq!(termination.step(at(53.0), s(3.2), None), Step::Wait(s(0.5)));
    }

    #[test]
    fn a_hold_not_renewed_after_a_pause_is_ended_in_time() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(termination.step(at(0.0), s(30.0), None), Step::Wait(s(1.0)));
        assert_eq!(termination.step(at(26.0), s(4.0), None), Step::Wait(s(0.5)));
        assert!(matches!(termination.step(at(26.5), s(3.5), None), Step::Term(_)));
        assert_eq!(termination.step(at(29.5), s(0.5), None), Step::Kill);

        // The wait is at most half of the time before KILL.
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(termination.step(at(28.9), s(1.1), None), Step::Wait(s(0.3)));
        assert!(matches!(termination.step(at(29.2), s(0.8), None), Step::Term(_)));
        assert_eq!(termination.step(at(29.5), s(0.5), None), Step::Kill);
    }

    #[test]
    fn nothing_is_waited_for_after_a_pause_where_it_cannot_help() {
        let late = |renewed, max_hold, now, left| {
            let mut termination = Termination::new(START, s(5.0), s(30.0), renewed, max_hold);
            assert_eq!(termination.step(at(0.0), s(30.0), None), Step::Wait(s(1.0)));
            termination.step(at(now), s(left), None)
        };
        assert!(matches!(late(true, None, 29.0, 1.0), Step::Term(_)), "too little is left");
        assert!(matches!(late(false, None, 26.0, 4.0), Step::Term(_)), "nobody renews it");
        assert!(matches!(late(true, Some(s(30.0)), 26.0, 4.0), Step::Term(_)), "no renewal puts it off");
    }

    #[test]
    fn a_look_that_is_a_little_late_changes_nothing() {
        let mut termination = Termination::new(START, s(5.0), s(30.0), true, None);
        assert_eq!(termination.step(at(24.0), s(6.0), None), Step::Wait(s(1.0)));
        assert!(matches!(termination.step(at(25.4), s(4.6), None), Step::Term(_)));
    }
}
