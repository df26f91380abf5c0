//! Batched renewal. A failure of one claim does not affect the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::backend::Renewal;
use tenure_core::{Claim, Durability, Kind, Result};

use crate::acquire::REPLICA_TIMEOUT;
use crate::keys::Keys;
use crate::options::Layout;
use crate::scripts;
use crate::store::{Redis, millis};
use crate::transport::{Call, Failure, Order, Script, Value, join_all};

/// The most claims in one script call.
const BATCH: usize = 100;

/// Claims of one slot that the same number of replicas must confirm.
pub(crate) struct Batch {
    replicas: u32,
    /// Set if all are locks that do not wait, renewed for the same lease.
    of_locks: bool,
    pub(crate) claims: Vec<usize>,
    /// Set for a single claim whose keys may be split over two nodes while its slot migrates: only the keys without
    /// which the hold cannot exist are declared as `KEYS`, because a server refuses a script if it has some but not all
    /// of the declared keys.
    pub(crate) keys_may_be_split: bool,
}

impl Batch {
    /// One batch for each claim.
    fn split(self, keys_may_be_split: bool) -> impl Iterator<Item = Self> {
        let Self { replicas, of_locks, .. } = self;
        let alone = move |at| Self { replicas, of_locks, claims: vec![at], keys_may_be_split };
        self.claims.into_iter().map(alone)
    }
}

impl Redis {
    /// Renews the claims: one script call for up to 100 claims of a slot, all calls for a node in one pipeline, nodes
    /// in parallel.
    pub(crate) async fn renew_batched(&self, claims: &[Arc<Claim>]) -> Result<Vec<Renewal>> {
        let sent = self.info.clock().now();
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
                                Value::Int(3) => {
                                    let why = Failure::not_executed(
                                        "its keys are on two nodes while their slot migrates",
                                    );
                                    failed =
                                        Some(self.call_error("renew", &claims[*at].name, &keys[*at], why));
                                    Renewal::Unanswered
                                }
                                _ => Renewal::Gone,
                            };
                        }
                    }
                    Err(failure) if failure.is_split() && !batch.keys_may_be_split => {
                        again.extend(batch.split(true))
                    }
                    // One claim is at fault, and the server does not say which.
                    Err(Failure::Refused(_)) if batch.claims.len() > 1 => again.extend(batch.split(false)),
                    Err(failure) => {
                        let at = batch.claims[0];
                        failed = Some(self.call_error("renew", &claims[at].name, &keys[at], failure));
                    }
                }
            }
            batches = again;
        }
        match failed {
            Some(error) if answers.iter().all(|a| *a == Renewal::Unanswered) => Err(error),
            Some(error) => {
                tracing::warn!(%error, "some holds could not be renewed");
                Ok(answers)
            }
            None => Ok(answers),
        }
    }

    fn batches(&self, claims: &[Arc<Claim>], keys: &[Keys]) -> Vec<Batch> {
        let mut groups: BTreeMap<(u16, u32, Option<Duration>), Vec<usize>> = BTreeMap::new();
        for (at, (claim, keys)) in claims.iter().zip(keys).enumerate() {
            let replicas = match claim.durability {
                // A pure proof writes nothing that replicas could confirm.
                Durability::Replicas(n) if !claim.lease.is_zero() => n,
                _ => 0,
            };
            let slot = self.transport.slot(keys.name().as_bytes());
            let lock = (self.layout == Layout::Redisson && is_lock(claim)).then_some(claim.lease);
            groups.entry((slot, replicas, lock)).or_default().push(at);
        }
        let mut batches = Vec::new();
        for ((_, replicas, lock), mut group) in groups {
            // Claims on one name are adjacent, so that the script does the shared work once.
            group.sort_by(|a, b| claims[*a].name.cmp(&claims[*b].name));
            let chunks = group.chunks(BATCH);
            batches.extend(chunks.map(|some| Batch {
                replicas,
                of_locks: lock.is_some(),
                claims: some.to_vec(),
                keys_may_be_split: false,
            }));
        }
        batches
    }

    /// Sends the batches and returns the script's result for each claim.
    async fn send(
        &self,
        batches: &[Batch],
        claims: &[Arc<Claim>],
        keys: &[Keys],
    ) -> Vec<std::result::Result<Vec<Value>, Failure>> {
        let (copied, plain): (Vec<usize>, Vec<usize>) =
            (0..batches.len()).partition(|at| batches[*at].replicas > 0);
        let call = |at: &usize| match self.layout {
            Layout::Redisson if batches[*at].of_locks => lock_renewal_call(&batches[*at], claims, keys),
            Layout::Redisson => self.renewal_call(&batches[*at], claims, keys),
            Layout::Plain => self.plain_renewal_call(&batches[*at], claims, keys),
        };
        let durable = copied.iter().map(|at| {
            let sent = self.send_durable(call(at), batches[*at].replicas);
            async move { (*at, sent.await) }
        });
        let (replies, confirmed) = tokio::join!(
            self.transport.call_all(plain.iter().map(call).collect()),
            join_all(durable.collect())
        );
        let mut outcomes: BTreeMap<usize, std::result::Result<Value, Failure>> =
            plain.into_iter().zip(replies).collect();
        outcomes.extend(confirmed);
        let found = |(at, reply): (usize, std::result::Result<Value, Failure>)| match reply? {
            Value::Array(found) if found.len() == batches[at].claims.len() => Ok(found),
            other => Err(Failure::unknown(format!("the server answered {other:?}"))),
        };
        outcomes.into_iter().map(found).collect()
    }

    async fn send_durable(&self, call: Call, replicas: u32) -> std::result::Result<Value, Failure> {
        let (reply, have) = self.transport.call_and_wait(call, replicas, REPLICA_TIMEOUT).await?;
        if have < replicas {
            return Err(Failure::unknown(format!(
                "only {have} of {replicas} replicas confirmed the write within {REPLICA_TIMEOUT:?}"
            )));
        }
        Ok(reply)
    }

    fn renewal_call(&self, batch: &Batch, claims: &[Arc<Claim>], keys: &[Keys]) -> Call {
        let (mut on, mut args, mut essential) = (Vec::new(), Vec::new(), 0);
        let alike = |a: &usize, b: &usize| {
            let (a, b) = (&claims[*a], &claims[*b]);
            (&a.name, kind_code(a), a.lease, a.stamp) == (&b.name, kind_code(b), b.lease, b.stamp)
        };
        for group in batch.claims.chunk_by(alike) {
            let (claim, keys) = (&claims[group[0]], &keys[group[0]]);
            let (about, waiters, stamps) = (keys.about(), keys.waiters(), keys.stamps());
            let name = keys.name().to_owned();
            let (kind, permits) = kind_code(claim);
            essential = on.len() + 1;
            match kind {
                "q" => on.extend([name, about, waiters, stamps]),
                "f" => on.extend([name, about, keys.scores(), stamps]),
                "w" => on.extend([name, about, waiters, stamps, keys.writers(), keys.writer()]),
                "r" => {
                    on.push(name);
                    on.extend(group.iter().map(|at| keys.reader(claims[*at].id)));
                    essential = on.len();
                    on.extend([about, waiters, stamps]);
                }
                _ => {
                    essential = on.len() + 2;
                    on.extend([keys.permits(), keys.ends(), about, waiters, stamps, name]);
                }
            }
            let numbers = [lease_of(claim), millis(claim.stamp), u64::from(permits), group.len() as u64];
            args.push(kind.to_owned());
            args.extend(numbers.map(|n| n.to_string()));
            args.extend(group.iter().map(|at| claims[*at].id.to_string()));
        }
        args.insert(0, millis(self.slack).to_string());
        build_call(&scripts::RENEW, on, args, batch.keys_may_be_split.then_some(essential))
    }
}

/// A lease of 0 only checks and does not extend.
fn lease_of(claim: &Claim) -> u64 {
    if claim.lease.is_zero() { 0 } else { millis(claim.lease) }
}

/// Whether nothing but the key of its name belongs to it.
fn is_lock(claim: &Claim) -> bool {
    matches!(claim.kind, Kind::Lock | Kind::Leader) && claim.wait.is_none()
}

fn lock_renewal_call(batch: &Batch, claims: &[Arc<Claim>], keys: &[Keys]) -> Call {
    let on = batch.claims.iter().map(|at| keys[*at].name().to_owned()).collect();
    let lease = batch.claims.first().map_or(0, |first| lease_of(&claims[*first]));
    let ids = batch.claims.iter().map(|at| claims[*at].id.to_string());
    let args = std::iter::once(lease.to_string()).chain(ids).collect();
    build_call(&scripts::LOCK_RENEW, on, args, None)
}

/// The script's code for the kind, and the number of permits.
fn kind_code(claim: &Claim) -> (&'static str, u32) {
    match claim.kind {
        Kind::Lock | Kind::Leader => ("q", 0),
        Kind::FairLock => ("f", 0),
        Kind::Read { .. } => ("r", 0),
        Kind::Write => ("w", 0),
        Kind::Permit { n, .. } => ("p", n),
        // A kind that cannot be acquired here: no such hold is found.
        _ => ("q", 0),
    }
}

/// Builds the call of a renewal script. If only the first `essential` keys are certain to be on the node, only those are
/// declared as keys, and all keys are passed as arguments.
pub(crate) fn build_call(
    script: &'static Script,
    mut on: Vec<String>,
    mut args: Vec<String>,
    essential: Option<usize>,
) -> Call {
    let mut keys_may_be_split = 0;
    if let Some(essential) = essential {
        keys_may_be_split = on.len();
        args.extend(on.iter().cloned());
        on.truncate(essential);
    }
    args.insert(0, keys_may_be_split.to_string());
    Call::new(script, &on, &args, Order::Renewal)
}
