//! The plain layout for users who may not run scripts: uses the server's compare-and-delete commands where it has them.
//! Such a release publishes by a command of its own, and no record describes the holder.

use std::time::Duration;

use tenure_core::backend::{Attempt, Released, Renewal};
use tenure_core::{Claim, Error, Name, Result};

use crate::keys::Keys;
use crate::options::Layout;
use crate::plain::{poll_delay, token_and_id};
use crate::store::{Redis, millis};
use crate::transport::{Failure, Order, To, Value};

/// The server's compare-and-delete command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompareAndDelete {
    /// `DELIFEQ key value`: Valkey 9.0.
    Delifeq,
    /// `DELEX key IFEQ value`: Redis 8.4.
    Delex,
}

impl CompareAndDelete {
    fn delete<'a>(self, key: &'a str, token: &'a str) -> Vec<&'a str> {
        match self {
            Self::Delifeq => vec!["DELIFEQ", key, token],
            Self::Delex => vec!["DELEX", key, "IFEQ", token],
        }
    }
}

impl Redis {
    /// The commands to use instead of scripts, if scripts are forbidden. Probed at the first use.
    pub(crate) async fn scriptless(&self) -> Result<Option<CompareAndDelete>> {
        if self.layout != Layout::Plain {
            return Ok(None);
        }
        self.scriptless.get_or_try_init(|| self.probe_scriptless()).await.copied()
    }

    /// Finds out by trying whether scripts are forbidden and which command replaces them: permissions and versions
    /// vary.
    async fn probe_scriptless(&self) -> Result<Option<CompareAndDelete>> {
        let name = Name::new("tenure-probe")?;
        let keys = Keys::new(&self.prefix, &name);
        let context = self.context("connect", &name, &keys);
        // Without a key, because this user may not be allowed to use that key.
        let none = "0".repeat(40);
        match self.send_command(&keys, &["EVALSHA", &none, "0"], Order::Unordered).await {
            Err(Failure::Refused(reply)) if reply.code == "NOPERM" => {}
            Ok(_) | Err(Failure::Refused(_)) => return Ok(None),
            Err(failure) => return Err(context.to_error(failure)),
        }
        for command in [CompareAndDelete::Delifeq, CompareAndDelete::Delex] {
            match self.send_command(&keys, &command.delete(keys.name(), "x"), Order::Unordered).await {
                Ok(Value::Int(_)) => {
                    tracing::info!(
                        ?command,
                        "this user may not run scripts: using a compare-and-delete command instead"
                    );
                    return Ok(Some(command));
                }
                Err(Failure::Refused(_)) => {}
                Ok(other) => return Err(context.unexpected_reply(other)),
                Err(failure) => return Err(context.to_error(failure)),
            }
        }
        Err(Error::Config(format!(
            "{}: this user may not run scripts, and the server has no compare-and-delete command that it may run instead (DELIFEQ of Valkey 9.0, \
             DELEX of Redis 8.4): allow EVAL and EVALSHA",
            self.info.scheme
        )))
    }

    pub(crate) async fn send_command(
        &self,
        keys: &Keys,
        all: &[&str],
        order: Order,
    ) -> std::result::Result<Value, Failure> {
        let all: Vec<&[u8]> = all.iter().map(|w| w.as_bytes()).collect();
        // Where scripts run, the release of what was granted is one, and does not go to a node that a slot is moving to.
        let follows_ask = !matches!(self.scriptless.get(), Some(None));
        self.transport.ordered_command(To::Key(keys.name().as_bytes()), &all, order, follows_ask).await
    }

    pub(crate) async fn acquire_scriptless(&self, claim: &Claim) -> Result<Attempt> {
        if claim.token.is_some() {
            return Err(Error::Unsupported {
                backend: self.info.scheme,
                what: "a token of the caller's own".to_owned(),
                reason: "this user may not run scripts, and without them two holds with the same token cannot be told apart"
                    .to_owned(),
            });
        }
        let keys = self.keys(&claim.name)?;
        let failed = |failure| self.call_error("acquire", &claim.name, &keys, failure);
        let sent = self.info.clock().now();
        let until = self.info.drift.until(sent, claim.lease);
        let ((token, _), lease) = (token_and_id(claim), millis(claim.lease).to_string());
        if claim.holds == 1 {
            let set = ["SET", keys.name(), &token, "NX", "PX", &lease];
            let order = Order::Attempt { id: claim.id, lease: claim.lease };
            if !matches!(self.send_command(&keys, &set, order).await.map_err(failed)?, Value::Nil) {
                return Ok(Attempt::Granted { fence: None, until, spare: claim.reserve });
            }
        }
        if self.extend(claim, &keys).await.map_err(failed)? {
            return Ok(Attempt::Granted { fence: None, until, spare: claim.reserve });
        }
        if claim.holds > 1 {
            return Ok(Attempt::Gone);
        }
        let left =
            self.send_command(&keys, &["PTTL", keys.name()], Order::Unordered).await.map_err(failed)?;
        let left = left.int().and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
        Ok(Attempt::Busy { retry_after: Some(poll_delay(left)), behind: None, position: None })
    }

    /// Whether this token holds the lock; if so, extends the TTL to at least the lease.
    async fn extend(&self, claim: &Claim, keys: &Keys) -> std::result::Result<bool, Failure> {
        let (token, _) = token_and_id(claim);
        let lease = if claim.lease.is_zero() { 0 } else { millis(claim.lease) };
        let left = self.send_command(keys, &["PTTL", keys.name()], Order::Renewal).await?.int().unwrap_or(-2);
        if left == -2 {
            return Ok(false);
        }
        if left == -1 || lease == 0 || u64::try_from(left).is_ok_and(|left| left >= lease) {
            let held = self.send_command(keys, &["GET", keys.name()], Order::Renewal).await?;
            return Ok(held.text() == Some(&token));
        }
        let lease = lease.to_string();
        let set = ["SET", keys.name(), &token, "IFEQ", &token, "PX", &lease];
        Ok(!matches!(self.send_command(keys, &set, Order::Renewal).await?, Value::Nil))
    }

    pub(crate) async fn renew_scriptless(&self, claim: &Claim) -> Result<Renewal> {
        let keys = self.keys(&claim.name)?;
        let sent = self.info.clock().now();
        let held = self.extend(claim, &keys).await;
        match held.map_err(|failure| self.call_error("renew", &claim.name, &keys, failure))? {
            true => Ok(Renewal::Held { until: self.info.drift.until(sent, claim.lease) }),
            false => Ok(Renewal::Gone),
        }
    }

    pub(crate) async fn release_scriptless(
        &self,
        command: CompareAndDelete,
        claim: &Claim,
        left: u32,
    ) -> Result<Released> {
        let keys = self.keys(&claim.name)?;
        let (token, _) = token_and_id(claim);
        if left > 0 {
            // A string has no room for a count.
            let held = self.extend(claim, &keys).await;
            let held = held.map_err(|failure| self.call_error("release", &claim.name, &keys, failure))?;
            return Ok(if held { Released::Freed } else { Released::Gone });
        }
        let delete: Vec<&[u8]> = command.delete(keys.name(), &token).into_iter().map(str::as_bytes).collect();
        let key = keys.name().as_bytes();
        let sent = self.transport.command_after_attempt(claim.id, key, &delete).await;
        let released = self.release_outcome(claim, &keys, sent)?;
        if released == Released::Freed {
            // A user who may not publish, or whose connection breaks here, has released nevertheless: waiters look again.
            let told = [self.transport.publish_command(), &keys.plain_channel(), "0"];
            let _ = self.send_command(&keys, &told, Order::Unordered).await;
        }
        Ok(released)
    }
}
