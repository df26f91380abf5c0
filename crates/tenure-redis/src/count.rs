//! Latches, counting semaphores and the sizes of semaphores.

use tenure_core::backend::{CountOp, CountReply, Counter};
use tenure_core::ledger::in_use;
use tenure_core::{Error, Family, Name, OpId, Result};

use crate::scripts;
use crate::store::{Redis, millis};
use crate::transport::{Call, Order, Value};

/// TTL in ms of the key that says what kind a number is.
const MARK: &str = "86400000";

impl Redis {
    pub(crate) async fn run_count(
        &self,
        name: &Name,
        counter: Counter,
        op: CountOp,
        id: OpId,
    ) -> Result<CountReply> {
        let keys = self.keys(name)?;
        if counter == Counter::Latch && self.transport.is_cluster() {
            keys.latch_in_one_slot()?;
        }
        let (op, n) = match op {
            CountOp::Get => ("get", String::new()),
            CountOp::Init(n) => ("init", checked_number(n)?),
            CountOp::Set(n) => ("set", checked_number(n)?),
            CountOp::Add(n) => {
                checked_number(n.unsigned_abs())?;
                ("add", n.to_string())
            }
            CountOp::TakeIfAtLeast(n) => ("take", checked_number(n)?),
            CountOp::Undo(n) => ("undo", checked_number(n)?),
            CountOp::Drain => ("drain", String::new()),
            CountOp::Delete => ("delete", String::new()),
            other => return Err(self.info.unknown(other)),
        };
        let (at, settled) = (id.n.to_string(), id.settled.to_string());
        let done = keys.operations(id.client);
        let publish = self.transport.publish_command();
        let order = Order::Unordered;
        let call = match counter {
            Counter::Size => {
                let (ends, ours, channel) = (keys.ends(), keys.permits(), keys.permit_channel());
                let mark = keys.mark();
                let about = keys.about();
                let on = [keys.name(), &*ends, &ours, &done, &mark, &about];
                let slack = millis(self.slack).to_string();
                let args = [op, &*n, &at, &settled, publish, &channel, &slack];
                Call::new(&scripts::SIZE, &on, &args, order)
            }
            Counter::Latch | Counter::Semaphore => {
                let (word, channel) = match counter {
                    Counter::Latch => ("latch", keys.latch_channel()),
                    _ => ("semaphore", keys.permit_channel()),
                };
                let (mark, ends) = (keys.mark(), keys.ends());
                let on = [keys.name(), &*done, &mark, &ends];
                let args = [word, op, &*n, &at, &settled, publish, &channel, MARK];
                Call::new(&scripts::COUNT, &on, &args, order)
            }
        };
        let context = self.context("count", name, &keys);
        let reply = self.transport.call(call).await.map_err(|failure| context.to_error(failure))?;
        let Value::Array(parts) = &reply else { return Err(context.unexpected_reply(reply)) };
        let value = |at: usize| parts.get(at).and_then(Value::text).and_then(|t| t.parse::<i64>().ok());
        match parts.first().and_then(Value::int) {
            Some(applied @ 0..=1) => {
                let born = value(3).and_then(|born| u64::try_from(born).ok()).unwrap_or(0);
                Ok(CountReply { applied: applied == 1, before: value(1), after: value(2), born })
            }
            Some(3) => {
                let used = match parts.get(1).and_then(Value::text) {
                    Some("latch") => Family::Latch,
                    Some("permits") => Family::Permit,
                    _ => Family::Count,
                };
                let wanted = match counter {
                    Counter::Latch => Family::Latch,
                    Counter::Semaphore => Family::Count,
                    Counter::Size => Family::Permit,
                };
                Err(self.info.locate(in_use(name, used, wanted)))
            }
            _ => Err(context.unexpected_reply(reply)),
        }
    }
}

/// Lua numbers are exact up to here.
const MOST: u64 = 1 << 53;

fn checked_number(n: u64) -> Result<String> {
    if n > MOST {
        return Err(Error::Config(format!("{n} is too large: a counter on Redis holds at most {MOST}")));
    }
    Ok(n.to_string())
}
