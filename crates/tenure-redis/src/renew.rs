//! Renewal, of many at once. What goes wrong with one claim is not the others' loss.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::backend::Renewal;
use tenure_core::{Claim, Durability, Kind, Result};

use crate::acquire::SYNC;
use crate::keys::Keys;
use crate::scripts;
use crate::store::{Redis, millis};
use crate::transport::{Call, Failure, Order, OwnedCall, Value, join};

/// Claims in one script.
const BATCH: usize = 100;

/// Claims of one slot, which so many replicas must confirm.
struct Batch {
    replicas: u32,
    claims: Vec<usize>,
}

impl Redis {
    /// One script for up to a hundred claims of a slot; all scripts for a node in one pipeline, nodes side by side.
    pub(crate) async fn prove(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let sent = self.info.clock.now();
        let keys: Vec<Keys> = claims.iter().map(|c| self.keys(&c.name)).collect::<Result<_>>()?;
        let mut answers = vec![Renewal::Unanswered; claims.len()];
        let mut failed = None;
        let mut batches = self.batches(claims, &keys);
        while !batches.is_empty() {
            let outcomes = self.send(&batches, claims, &keys).await;
            let mut again = Vec::new();
            for (batch, outcome) in batches.into_iter().zip(outcomes) {
                match outcome {
                    Ok(found) => {
                        for (at, found) in batch.claims.iter().zip(found) {
                            let until = self.info.drift.until(sent, claims[*at].lease);
                            answers[*at] = match found {
                                Value::Int(1) => Renewal::Held { until },
                                Value::Int(2) => Renewal::Queued,
                                _ => Renewal::Gone,
                            };
                        }
                    }
                    // One of them is at fault, and the server does not say which.
                    Err(Failure::Refused(_)) if batch.claims.len() > 1 => {
                        let replicas = batch.replicas;
                        again.extend(batch.claims.into_iter().map(|at| Batch { replicas, claims: vec![at] }));
                    }
                    Err(failure) => {
                        let at = batch.claims[0];
                        failed = Some(self.failed("renew", &claims[at].name, &keys[at], failure));
                    }
                }
            }
            batches = again;
        }
        match failed {
            Some(error) if answers.iter().all(|a| *a == Renewal::Unanswered) => Err(error),
            Some(error) => {
                tracing::warn!(%error, "some could not be renewed");
                Ok(answers)
            }
            None => Ok(answers),
        }
    }

    fn batches(&self, claims: &[Arc<Claim>], keys: &[Keys]) -> Vec<Batch> {
        let mut groups: BTreeMap<(u16, u32), Vec<usize>> = BTreeMap::new();
        for (at, (claim, keys)) in claims.iter().zip(keys).enumerate() {
            let replicas = match claim.durability {
                // What only proves writes nothing that replicas could confirm.
                Durability::Replicas(n) if !claim.lease.is_zero() => n,
                _ => 0,
            };
            let slot = self.transport.slot(keys.name().as_bytes());
            groups.entry((slot, replicas)).or_default().push(at);
        }
        let mut batches = Vec::new();
        for ((_, replicas), mut group) in groups {
            // A server without memory refuses these, and with them what comes after in the script.
            group.sort_by_key(|at| matches!(claims[*at].kind, Kind::Permit { .. }));
            let chunks = group.chunks(BATCH).map(|claims| Batch { replicas, claims: claims.to_vec() });
            batches.extend(chunks);
        }
        batches
    }

    /// What the server found, of each claim of each batch.
    async fn send(
        &self,
        batches: &[Batch],
        claims: &[Arc<Claim>],
        keys: &[Keys],
    ) -> Vec<std::result::Result<Vec<Value>, Failure>> {
        let (copied, plain): (Vec<usize>, Vec<usize>) =
            (0..batches.len()).partition(|at| batches[*at].replicas > 0);
        let call = |at: &usize| self.renewal(&batches[*at].claims, claims, keys);
        let calls: Vec<OwnedCall> = copied.iter().map(call).collect();
        let durable = copied
            .iter()
            .zip(&calls)
            .map(|(at, call)| async move { (*at, self.send_durable(call, batches[*at].replicas).await) });
        let (replies, confirmed) =
            tokio::join!(self.transport.calls(plain.iter().map(call).collect()), join(durable.collect()));
        let replies = replies.into_iter().map(|reply| reply.map(|placed| placed.value));
        let mut outcomes: BTreeMap<usize, std::result::Result<Value, Failure>> =
            plain.into_iter().zip(replies).collect();
        outcomes.extend(confirmed);
        let found = |(at, reply): (usize, std::result::Result<Value, Failure>)| match reply? {
            Value::Array(found) if found.len() == batches[at].claims.len() => Ok(found),
            other => Err(Failure::Unknown(format!("the server answered {other:?}"))),
        };
        outcomes.into_iter().map(found).collect()
    }

    async fn send_durable(&self, call: &OwnedCall, replicas: u32) -> std::result::Result<Value, Failure> {
        let on: Vec<&[u8]> = call.keys.iter().map(Vec::as_slice).collect();
        let args: Vec<&[u8]> = call.args.iter().map(Vec::as_slice).collect();
        let call = Call { script: call.script, keys: &on, args: &args, order: call.order };
        let (placed, have) = self.transport.durable(call, replicas, SYNC).await?;
        if have < replicas {
            return Err(Failure::Unknown(format!(
                "only {have} of {replicas} replicas have it within {SYNC:?}"
            )));
        }
        Ok(placed.value)
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
