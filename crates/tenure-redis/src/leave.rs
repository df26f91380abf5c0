//! Leaving, of each kind; and renewal, of many at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::backend::{Released, Renewal};
use tenure_core::{Claim, Error, Kind, Result};

use crate::keys::Keys;
use crate::options::Layout;
use crate::scripts;
use crate::store::{Redis, millis, words};
use crate::transport::{Call, Order, OwnedCall, Script, Value};

/// Claims in one script.
const BATCH: usize = 100;

impl Redis {
    pub(crate) async fn leave(&self, claim: &Claim, left: u32) -> Result<Released> {
        let keys = self.keys(&claim.name)?;
        let (id, left, lease) = (claim.id.to_string(), left.to_string(), millis(claim.lease).to_string());
        let publish = self.transport.publish_command();
        let name = keys.name();
        let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
        match claim.kind {
            Kind::Lock | Kind::Leader => {
                let leader = if claim.kind == Kind::Leader { keys.leader_channel() } else { String::new() };
                let channel = keys.lock_channel();
                let args = [&*id, &left, &lease, publish, &channel, &leader];
                let on = [name, &about, &waiters, &stamps];
                self.send_leave(claim, &keys, &scripts::LOCK_RELEASE, &words(&on), &words(&args)).await
            }
            Kind::FairLock => {
                let (queue, scores, channel) = (keys.queue(), keys.scores(), keys.fair_channel(""));
                let args = [&*id, &left, &lease, publish, &channel];
                let on = [name, &about, &queue, &scores, &stamps];
                self.send_leave(claim, &keys, &scripts::FAIR_RELEASE, &words(&on), &words(&args)).await
            }
            Kind::Read { .. } | Kind::Write => {
                let reads = claim.kind != Kind::Write;
                let field = if reads { id.clone() } else { format!("{id}:write") };
                let timeout = if reads { keys.reader(claim.id) } else { name.to_owned() };
                let (writers, channel, base) = (keys.writers(), keys.rw_channel(), keys.base());
                let args = [&*id, &field, &left, &lease, publish, &channel, &base];
                let on = [name, &about, &waiters, &writers, &stamps, &timeout];
                self.send_leave(claim, &keys, &scripts::RW_RELEASE, &words(&on), &words(&args)).await
            }
            Kind::Permit { n, .. } => {
                let (ends, ours, channel) = (keys.ends(), keys.permits(), keys.permit_channel());
                let n = n.to_string();
                let args = [&*id, &n, publish, &channel];
                let on = [name, &ends, &ours, &about, &waiters, &stamps];
                self.send_leave(claim, &keys, &scripts::PERMIT_RELEASE, &words(&on), &words(&args)).await
            }
        }
    }

    pub(crate) async fn send_leave(
        &self,
        claim: &Claim,
        keys: &Keys,
        script: &'static Script,
        on: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Released> {
        let order = Order::Behind(claim.id);
        let sent = self.transport.call(Call { script, keys: on, args, order }).await;
        let what = self.what("release", &claim.name, keys);
        let placed = sent.map_err(|failure| what.failed(failure))?;
        match placed.value {
            Value::Int(1) => Ok(Released::Freed),
            // Its attempt went by a connection that died: it may still come.
            Value::Int(0) if !placed.certain => Err(Error::Unknown {
                backend: self.info.scheme,
                what: format!("release {}", claim.name),
                reason: "its attempt was sent on a connection that broke, and may still arrive".into(),
            }),
            Value::Int(0) => Ok(Released::Gone),
            other => Err(what.nonsense(other)),
        }
    }

    /// One script for up to a hundred claims of a slot; all scripts for a node in one pipeline, nodes side by side.
    pub(crate) async fn prove(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let sent = self.info.clock.now();
        let keys: Vec<Keys> = claims.iter().map(|c| self.keys(&c.name)).collect::<Result<_>>()?;
        let mut slots: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (at, keys) in keys.iter().enumerate() {
            slots.entry(self.transport.slot(keys.name().as_bytes())).or_default().push(at);
        }
        let batches: Vec<&[usize]> = slots.values().flat_map(|g| g.chunks(BATCH)).collect();
        let call = |batch: &&[usize]| match self.layout {
            Layout::Redisson => self.renewal(batch, claims, &keys),
            Layout::Plain => self.plain_renewal(batch, claims, &keys),
        };
        let calls = batches.iter().map(call).collect();
        let replies = self.transport.calls(calls).await;

        let mut answers = vec![Renewal::Gone; claims.len()];
        for (batch, reply) in batches.iter().zip(replies) {
            let what = self.what("renew", &claims[batch[0]].name, &keys[batch[0]]);
            let found = match reply.map_err(|failure| what.failed(failure))?.value {
                Value::Array(found) if found.len() == batch.len() => found,
                other => return Err(what.nonsense(other)),
            };
            for (at, found) in batch.iter().zip(found) {
                answers[*at] = match found {
                    Value::Int(1) => Renewal::Held { until: self.info.drift.until(sent, claims[*at].lease) },
                    Value::Int(2) => Renewal::Queued,
                    _ => Renewal::Gone,
                };
            }
        }
        Ok(answers)
    }

    fn renewal(&self, batch: &[usize], claims: &[Arc<Claim>], keys: &[Keys]) -> OwnedCall {
        let mut on = Vec::with_capacity(batch.len() * 2);
        let mut args = vec![millis(self.slack).to_string()];
        for at in batch {
            let (claim, keys) = (&claims[*at], &keys[*at]);
            let name = keys.name().to_owned();
            let (kind, n) = match claim.kind {
                Kind::Lock | Kind::Leader if claim.wait.is_some() => {
                    on.extend([name, keys.about(), keys.waiters(), keys.stamps()]);
                    ("q", 0)
                }
                Kind::Lock | Kind::Leader => {
                    on.extend([name, keys.about()]);
                    ("l", 0)
                }
                Kind::FairLock => {
                    on.extend([name, keys.about(), keys.queue(), keys.scores(), keys.stamps()]);
                    ("f", 0)
                }
                Kind::Read { .. } => {
                    let timeout = keys.reader(claim.id);
                    on.extend([name, keys.about(), timeout, keys.waiters(), keys.stamps()]);
                    ("r", 0)
                }
                Kind::Write => {
                    on.extend([name, keys.about(), keys.waiters(), keys.stamps(), keys.writers()]);
                    ("w", 0)
                }
                Kind::Permit { n, .. } => {
                    on.extend([
                        keys.about(),
                        keys.ends(),
                        keys.permits(),
                        keys.waiters(),
                        keys.stamps(),
                        name,
                    ]);
                    ("p", n)
                }
            };
            // A lease of nothing proves without extending.
            let lease = if claim.lease.is_zero() { 0 } else { millis(claim.lease) };
            let words = [kind.to_owned(), claim.id.to_string(), lease.to_string()];
            args.extend(words.into_iter().chain([millis(claim.stamp).to_string(), n.to_string()]));
        }
        let bytes = |all: Vec<String>| all.into_iter().map(String::into_bytes).collect();
        OwnedCall { script: &scripts::RENEW, keys: bytes(on), args: bytes(args), order: Order::Free }
    }
}
