//! Release: one script call for each kind.

use tenure_core::backend::Released;
use tenure_core::{Claim, Error, Kind, Result};

use crate::keys::Keys;
use crate::scripts;
use crate::store::{Redis, millis};
use crate::transport::{Answer, Call, Failure, Order, Value, Word};

impl Redis {
    /// Releases a claim in Redisson's layout. That of a lock names the keys of a wait only if there may be one: at
    /// first for a claim that waited, and once more for an id that holds nothing, which may be anybody's.
    pub(crate) async fn release_redisson(
        &self,
        claim: &Claim,
        left: u32,
        keys: &Keys,
    ) -> Result<std::result::Result<Answer, Failure>> {
        let call = self.redisson_release(claim, left, keys, claim.wait.is_some())?;
        let sent = self.transport.call_after_attempt(claim.id, call).await;
        let found_nothing = matches!(&sent, Ok(answer) if answer.value == Value::Int(0));
        let lock = matches!(claim.kind, Kind::Lock | Kind::Leader);
        if !found_nothing || !lock || left > 0 || claim.wait.is_some() {
            return Ok(sent);
        }
        let certain = matches!(&sent, Ok(answer) if answer.certain);
        let call = self.redisson_release(claim, left, keys, true)?;
        let again = Box::pin(self.transport.call_after_attempt(claim.id, call)).await;
        Ok(again.map(|answer| Answer { certain: certain && answer.certain, ..answer }))
    }

    /// The call that releases a claim, which `waits` or holds.
    fn redisson_release(&self, claim: &Claim, left: u32, keys: &Keys, waits: bool) -> Result<Call> {
        if let Kind::Lock | Kind::Leader = claim.kind {
            return Ok(self.lock_release(claim, left, keys, waits));
        }
        let (id, left, lease) = (claim.id.to_string(), left.to_string(), millis(claim.lease).to_string());
        let publish = self.transport.publish_command();
        let (name, order) = (keys.name(), Order::Unordered);
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        Ok(match claim.kind {
            Kind::FairLock => {
                let (queue, scores, channel) = (keys.queue(), keys.scores(), keys.fair_channel(""));
                let (fence, keep) = self.fence(keys);
                let args = [&*id, &left, &lease, publish, &channel, &keep];
                let on = [name, &about, &queue, &scores, &stamps, &fence];
                Call::new(&scripts::FAIR_RELEASE, &on, &args, order)
            }
            Kind::Read { .. } | Kind::Write => {
                let reads = claim.kind != Kind::Write;
                let field = if reads { id.clone() } else { format!("{id}:write") };
                let timeout = if reads { keys.reader(claim.id) } else { keys.writer() };
                let (writers, channel, base) = (keys.writers(), keys.rw_channel(), keys.base());
                let args = [&*id, &field, &left, &lease, publish, &channel, &base];
                let on = [name, &about, &waiters, &writers, &stamps, &timeout];
                Call::new(&scripts::RW_RELEASE, &on, &args, order)
            }
            Kind::Permit { n, .. } => {
                let (ends, ours, channel) = (keys.ends(), keys.permits(), keys.permit_channel());
                let n = n.to_string();
                let slack = millis(self.slack).to_string();
                let args = [&*id, &n, publish, &channel, &slack];
                let on = [name, &ends, &ours, &about, &waiters, &stamps];
                Call::new(&scripts::PERMIT_RELEASE, &on, &args, order)
            }
            other => return Err(self.info.unknown(other)),
        })
    }

    fn lock_release(&self, claim: &Claim, left: u32, keys: &Keys, waits: bool) -> Call {
        let leader = if claim.kind == Kind::Leader { keys.leader_channel() } else { String::new() };
        let args = [
            Word::Hold(claim.id),
            Word::Number(left.into()),
            Word::Number(millis(claim.lease)),
            Word::Text(self.transport.publish_command()),
            keys.lock_channel_word(),
            Word::Text(&leader),
        ];
        let name = Word::Text(keys.name());
        if !waits {
            return Call::of_words(&scripts::LOCK_RELEASE, [name], args, Order::Unordered);
        }
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        let keys = [name, Word::Text(&about), Word::Text(&waiters), Word::Text(&stamps)];
        Call::of_words(&scripts::LOCK_RELEASE, keys, args, Order::Unordered)
    }

    /// Maps the reply to a release: 1 if the hold or waiter existed, 0 if not.
    pub(crate) fn release_outcome(
        &self,
        claim: &Claim,
        keys: &Keys,
        sent: std::result::Result<Answer, Failure>,
    ) -> Result<Released> {
        let context = self.context("release", &claim.name, keys);
        let answer = sent.map_err(|failure| context.to_error(failure))?;
        match answer.value {
            Value::Int(1) => Ok(Released::Freed),
            // The attempt was sent on a connection that broke: it may still arrive after this release.
            Value::Int(0) if !answer.certain => Err(Error::unknown(
                self.info.scheme,
                format!("release {}", claim.name),
                "the acquire was sent on a connection that broke, and may still be executed",
            )),
            Value::Int(0) => Ok(Released::Gone),
            other => Err(context.unexpected_reply(other)),
        }
    }
}
