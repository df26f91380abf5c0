//! Forced release of a holder of another library, identified by its own holder name; Redisson's `forceUnlock`.

use tenure_core::backend::{Backend, Released};
use tenure_core::{Claim, Kind, Name, Result};

use crate::options::Layout;
use crate::scripts;
use crate::store::Redis;
use crate::transport::{Call, Order, Value};

impl Redis {
    pub(crate) async fn force_release(&self, name: &Name, kind: Kind, holder: &str) -> Result<Released> {
        if self.layout == Layout::Plain {
            return self.release(&Claim::of_token(holder, name.clone(), kind), 0).await;
        }
        let keys = self.keys(name)?;
        let publish = self.transport.publish_command();
        let (about, order) = (keys.about(), Order::Unordered);
        let call = match kind {
            Kind::Lock | Kind::FairLock | Kind::Leader => {
                let (queue, scores, stamps) = (keys.queue(), keys.scores(), keys.stamps());
                let on = [keys.name(), &about, &queue, &scores, &stamps];
                let (channel, one, leader) =
                    (keys.lock_channel(), keys.fair_channel(""), keys.leader_channel());
                let args = [holder, publish, &channel, &one, &leader];
                Call::new(&scripts::LOCK_EXPEL, &on, &args, order)
            }
            Kind::Read { .. } | Kind::Write => {
                let write = format!("{holder}:write");
                let field = if kind == Kind::Write { &*write } else { holder };
                let (channel, base) = (keys.rw_channel(), keys.base());
                let (on, args) = ([keys.name(), &about], [holder, field, publish, &channel, &base]);
                Call::new(&scripts::RW_EXPEL, &on, &args, order)
            }
            Kind::Permit { .. } => {
                // Inspection shows a permit in hexadecimal; the store has the raw bytes.
                let Some(permit) = unhex(holder) else { return Ok(Released::Gone) };
                let (ends, ours, channel) = (keys.ends(), keys.permits(), keys.permit_channel());
                let on = [keys.name(), &ends, &ours];
                let args = [&*permit, publish.as_bytes(), channel.as_bytes()];
                Call::new(&scripts::PERMIT_EXPEL, &on, &args, order)
            }
            other => return Err(self.info.unknown(other)),
        };
        let context = self.context("release", name, &keys);
        match self.transport.call(call).await.map_err(|failure| context.to_error(failure))? {
            Value::Int(1) => Ok(Released::Freed),
            Value::Int(0) => Ok(Released::Gone),
            other => Err(context.unexpected_reply(other)),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    (0..text.len()).step_by(2).map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_permit_id_is_none() {
        assert_eq!(unhex("00ff7a"), Some(vec![0, 255, 122]));
        for other in ["0", "0x", "zz", "ü", "4f3c2b1a-0000:7"] {
            assert_eq!(unhex(other), None, "{other}");
        }
    }
}
