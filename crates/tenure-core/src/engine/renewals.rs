//! Renewals: sent together, and their answers applied to the holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::backend::{Claim, Kind, LostReason, Renewal, Time};
use crate::engine::core::Core;
use crate::engine::hold::{Ask, Hold};
use crate::engine::keeper::LOOK;

/// The maximum number of claims in one renewal.
pub(crate) const BATCH: usize = 100;

/// A hold to be verified, and extended unless the lease of its claim is zero.
pub(crate) struct Proof {
    pub(crate) hold: Arc<Hold>,
    pub(crate) ask: Ask,
    /// It must be verified even if it is no longer renewed: the store may have lost it.
    pub(crate) suspicion: bool,
}

impl Proof {
    pub(crate) fn lease(&self) -> Duration {
        self.ask.lease.unwrap_or(self.hold.claim.lease)
    }
}

impl Core {
    /// Groups renewals by shard, so that a failing shard does not delay the others, and by lease, so that the short
    /// timeout of a short lease does not apply to a long one.
    pub(crate) fn renew_all(self: &Arc<Self>, due: Vec<Proof>) {
        let mut due = Renewals { core: self.clone(), batch: due };
        let mut together: BTreeMap<(usize, u32), Renewals> = BTreeMap::new();
        while let Some(proof) = due.batch.last() {
            let about = proof.lease().as_millis().max(1).ilog2();
            // The backend is foreign code: if it panics, nothing may be missing in both `due` and `together`.
            let key = (self.backend.shard(&proof.ask.claim.name), about);
            let group =
                together.entry(key).or_insert_with(|| Renewals { core: self.clone(), batch: Vec::new() });
            group.batch.extend(due.batch.pop());
        }
        for mut due in together.into_values() {
            while !due.batch.is_empty() {
                let batch = due.batch.split_off(due.batch.len().saturating_sub(BATCH));
                tokio::spawn(Renewals { core: self.clone(), batch }.send());
            }
        }
    }

    /// Applies the answer to a renewal to its hold.
    fn keeps(&self, proof: &Proof, answer: &Renewal, sent: Time) -> Kept {
        let Proof { hold, ask, suspicion } = proof;
        if matches!(answer, Renewal::Held { .. }) {
            hold.leases.confirm(sent, ask.claim.lease);
            if *suspicion {
                hold.proved();
            }
            self.prove_shared(hold, sent);
        }
        let kept = match answer {
            Renewal::Held { .. } if ask.lease.is_none() => Kept::Proved,
            Renewal::Held { until } if hold.renewed(sent, *until) => {
                self.keeper.sooner(hold);
                Kept::Renewed
            }
            Renewal::Held { .. } => Kept::lost(hold, LostReason::Expired),
            Renewal::Queued | Renewal::Gone => Kept::lost(hold, LostReason::Gone),
            Renewal::Unanswered => self.renew_again(proof),
        };
        // What was found gone may have been left already, and must not be passed on then.
        if matches!(answer, Renewal::Held { .. }) && !matches!(kept, Kept::Lost(_)) {
            hold.passing.answered();
        }
        kept
    }

    fn renew_again(&self, proof: &Proof) -> Kept {
        let Proof { hold, suspicion, .. } = proof;
        hold.passing.answered();
        let pause = (proof.lease() / 20).clamp(Duration::from_millis(10), LOOK);
        let again = self.clock.now().after(pause);
        if *suspicion {
            hold.prove(again);
        } else {
            hold.renew_again(again);
        }
        self.keeper.sooner(hold);
        Kept::Again
    }

    /// Schedules the next verification of a shared hold, if its renewals are not frequent enough.
    pub(crate) fn prove_shared(&self, hold: &Arc<Hold>, now: Time) {
        if let (Kind::Read { .. }, Some(every)) = (hold.claim.kind, self.backend.info().shared_proof)
            && !hold.is_renewed_within(every)
        {
            hold.prove(now.after(every));
            self.keeper.sooner(hold);
        }
    }
}

/// Renewals that are due or in flight. Those that are dropped without an answer, for instance by a panic in the backend,
/// are scheduled again.
struct Renewals {
    core: Arc<Core>,
    batch: Vec<Proof>,
}

impl Renewals {
    async fn send(mut self) {
        let core = self.core.clone();
        let claims: Vec<Arc<Claim>> = self.batch.iter().map(|p| p.ask.claim.clone()).collect();
        let at = core.clock.now();
        let shortest = self.batch.iter().map(Proof::lease).min().unwrap_or_default();
        let limit = shortest.min(core.settings.lease) / 3;
        // Less is left after a failed renewal, and where a lease was granted that nobody asked for: time for one more try.
        let left = self.batch.iter().map(|p| p.hold.until().since(at)).min().unwrap_or_default();
        let limit = limit.min(left / 2).max(limit / 4);
        let began = Instant::now();
        let answers = match timeout(limit, core.backend.renew(&claims)).await {
            Ok(answer) => answer,
            Err(_) => Err(core.unanswered("renew", limit)),
        };
        let took = began.elapsed();
        let batch = std::mem::take(&mut self.batch);
        let kept: Vec<_> = match &answers {
            Ok(answers) => {
                batch.iter().zip(answers).map(|(proof, answer)| core.keeps(proof, answer, at)).collect()
            }
            Err(_) => batch.iter().map(|proof| core.renew_again(proof)).collect(),
        };
        // One job for each lost hold, because telemetry may panic.
        for (Proof { hold, .. }, kept) in batch.iter().zip(&kept) {
            if let Kept::Lost(reason) = *kept {
                let hold = hold.clone();
                core.hand_over(move |core| core.let_go(&hold, reason));
            }
        }
        core.hand_over(move |core| {
            let error = answers.err().map(|error| error.to_string());
            let error = error.as_deref().unwrap_or("not enough of the store answered");
            core.telemetry.renew_span(batch.len(), took).in_scope(|| {
                for (Proof { hold, ask, .. }, kept) in batch.iter().zip(kept) {
                    let changed = match kept {
                        Kept::Lost(_) => false,
                        Kept::Proved | Kept::Renewed => hold.set_failing(false) && hold.is_held(),
                        Kept::Again => hold.set_failing(true),
                    };
                    match kept {
                        Kept::Proved | Kept::Renewed if changed => core.telemetry.renewed_again(hold),
                        Kept::Proved | Kept::Lost(_) => {}
                        Kept::Renewed => core.telemetry.renewed(hold),
                        Kept::Again => core.telemetry.renewal_failed(&ask.claim, error, changed),
                    }
                }
            });
        });
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        for proof in &self.batch {
            self.core.renew_again(proof);
        }
    }
}

/// The result of a renewal.
enum Kept {
    Proved,
    Renewed,
    /// It failed, and will be retried.
    Again,
    /// It is lost, and must be released.
    Lost(LostReason),
}

impl Kept {
    /// Marks the hold lost at once, not when the worker gets to it, so that its guards report it from now on.
    fn lost(hold: &Hold, reason: LostReason) -> Self {
        if hold.lose(reason) { Self::Lost(reason) } else { Self::Proved }
    }
}
