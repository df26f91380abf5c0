//! When a gate does not try: while a hold of its client is passed on, since that would only find the client's own hold;
//! and after that hold was released, so that other processes come first. Programs that wait without a place in the store,
//! as those with Redisson do, are seen by what they do: they hold, or they release.

use std::time::Duration;

use tokio::time::Instant;

/// How long others count as present after they were seen.
const PRESENT: Duration = Duration::from_secs(1);

/// How often a hold that was passed on is released without standing back, while nobody else is seen.
const UNSEEN: u32 = 7;

#[derive(Debug, Default)]
pub(super) struct Pause {
    until: Option<Instant>,
    /// How many signals end it sooner; 0 if none does.
    signals: u32,
    /// When others were seen.
    seen: Option<Instant>,
    /// Whether it is for others.
    stands_back: bool,
    /// How many holds were released since the gate stood back.
    released: u32,
}

impl Pause {
    /// Until when it lasts.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// A hold of this client may be passed on until then.
    pub(super) fn passes_on(&mut self, until: Instant) {
        (self.until, self.signals) = (Some(until), 0);
    }

    /// A hold that was granted here is going to be released. If it was passed on and others were seen, they come first: the gate stands back for
    /// as long as holds are passed on. It waits for the signal of its own release in any case, and, if it stands back, for
    /// that of the next holder.
    pub(super) fn releases(&mut self, now: Instant, bound: Duration, was_passed: bool) {
        self.released += u32::from(was_passed);
        let present = self.seen.is_some_and(|seen| now < seen + PRESENT);
        self.stands_back = was_passed && (present || self.released > UNSEEN);
        if self.stands_back {
            self.released = 0;
        }
        (self.until, self.signals) = (Some(now + bound), 1 + u32::from(self.stands_back));
    }

    /// The release was executed: nothing is waited for unless the gate stands back.
    pub(super) fn released(&mut self) {
        if self.signals > 0 && !self.stands_back {
            (self.until, self.signals) = (None, 0);
        }
    }

    /// A signal of the store has come.
    pub(super) fn signalled(&mut self, now: Instant) {
        match self.signals {
            0 => {}
            1 => {
                if self.stands_back {
                    self.seen = Some(now);
                }
                (self.until, self.signals) = (None, 0);
            }
            _ => self.signals -= 1,
        }
    }

    /// Somebody else holds the name.
    pub(super) fn sees_others(&mut self, now: Instant) {
        self.seen = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_millis(5);

    #[test]
    fn a_gate_stands_back_for_those_whom_it_has_seen() {
        let (mut pause, now) = (Pause::default(), Instant::now());
        pause.releases(now, BOUND, true);
        pause.released();
        assert_eq!(pause.until(now), None, "nobody else was seen");
        pause.sees_others(now);
        pause.releases(now, BOUND, true);
        pause.released();
        pause.signalled(now);
        assert_eq!(pause.until(now), Some(now + BOUND), "that was its own release");
        pause.signalled(now);
        assert_eq!(pause.until(now), None, "the other one has released");
    }

    #[test]
    fn the_signal_of_its_own_release_is_of_nobody_else() {
        let (mut pause, now) = (Pause::default(), Instant::now());
        for _ in 0..3 {
            pause.releases(now, BOUND, false);
            pause.signalled(now);
            pause.released();
            assert_eq!(pause.until(now), None, "nobody else was seen");
        }
    }

    #[test]
    fn a_gate_stands_back_now_and_then_for_those_whom_it_has_not_seen() {
        let (mut pause, now) = (Pause::default(), Instant::now());
        let mut backs = 0;
        for _ in 0..10 * (UNSEEN + 1) {
            pause.releases(now, BOUND, true);
            pause.released();
            backs += u32::from(pause.until(now).is_some());
        }
        assert_eq!(backs, 10);
    }

    #[test]
    fn a_gate_does_not_try_while_a_hold_is_passed_on() {
        let (mut pause, now) = (Pause::default(), Instant::now());
        pause.passes_on(now + BOUND);
        pause.signalled(now);
        assert_eq!(pause.until(now), Some(now + BOUND));
        assert_eq!(pause.until(now + BOUND), None);
        pause.releases(now, BOUND, false);
        pause.signalled(now);
        assert_eq!(pause.until(now), None, "nobody was passed over");
    }
}
