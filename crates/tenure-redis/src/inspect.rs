//! Inspection: one name, or a listing of all names that look like ours or Redisson's.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use tenure_core::backend::Mode;
use tenure_core::{Family, Fence, HoldId, Holder, Name, Result, Snapshot, Waiter};

use crate::keys::{Keys, is_record, name_of};
use crate::options::Layout;
use crate::record::Record;
use crate::scripts;
use crate::store::{Redis, words};
use crate::transport::{Call, Failure, Order, To, Value};

/// Limits of a listing: keys per server, and total time.
const MOST: usize = 1_000_000;
const LONGEST: Duration = Duration::from_secs(3);
/// The score of Redisson's permits without an expiry.
const NEVER: f64 = 922_337_203_685_477.0;

/// What the field with the record of a holder ends with, in the hash of a lock (`lib/holder.lua`).
const RECORD: &str = ":d";

/// Notes on a lock of the other layout.
const OF_PLAIN: &str =
    "a string, as created by SET NX PX: open the store with layout=plain to share such locks";
const OF_REDISSON: &str =
    "a hash, as created by Redisson: open the store without layout=plain to share such locks";

impl Redis {
    pub(crate) async fn inspect_name(&self, name: &Name) -> Result<Option<Snapshot>> {
        let keys = self.keys(name)?;
        let context = self.context("inspect", name, &keys);
        let sent = self.transport.call(inspect_call(&keys)).await;
        let reply = sent.map_err(|failure| context.to_error(failure))?;
        let Value::Array(parts) = reply else { return Err(context.unexpected_reply(reply)) };
        Ok(InspectReply { parts, plain: self.layout == Layout::Plain }.snapshot(name))
    }

    /// Scans the keys of all masters, within limits, and inspects each name that may be in use.
    pub(crate) async fn inspect_prefix(
        &self,
        prefix: &str,
        limit: usize,
        idle: bool,
    ) -> Result<Vec<Snapshot>> {
        let start = Instant::now();
        let full = format!("{}{prefix}", self.prefix);
        let pattern = format!("*{}*", escape(&full));
        let mut names = BTreeSet::new();
        for node in self.transport.nodes() {
            let mut cursor = "0".to_owned();
            let mut seen = 0;
            loop {
                let scan = words(&["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"]);
                let reply = self.transport.command(To::Node(&node), &scan).await;
                let reply = reply.map_err(|failure| self.scan_error(failure))?;
                let Value::Array(mut parts) = reply else { break };
                let (Some(Value::Array(keys)), Some(next)) = (parts.pop(), parts.pop()) else { break };
                for key in &keys {
                    let key = key.text().filter(|key| !is_record(key));
                    let name = key.map(name_of).and_then(|n| n.strip_prefix(self.prefix.as_str()));
                    names.extend(name.filter(|n| n.starts_with(prefix)).and_then(|n| Name::new(n).ok()));
                }
                seen += 1000;
                cursor = next.text().unwrap_or("0").to_owned();
                if cursor == "0" {
                    break;
                }
                if seen >= MOST || start.elapsed() > LONGEST {
                    tracing::warn!(keys = seen, "too many keys: the listing is incomplete");
                    break;
                }
            }
        }
        let names: Vec<Name> = names.into_iter().collect();
        let mut found = Vec::new();
        for some in names.chunks(200) {
            found.extend(self.inspect_all(some).await?.into_iter().filter(|seen| idle || !seen.is_idle()));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn inspect_all(&self, names: &[Name]) -> Result<Vec<Snapshot>> {
        // A key of another program may have a name that cannot be a lock here.
        let names: Vec<(&Name, Keys)> =
            names.iter().filter_map(|n| self.keys(n).ok().map(|keys| (n, keys))).collect();
        let calls = names.iter().map(|(_, keys)| inspect_call(keys));
        let replies = self.transport.call_all(calls.collect()).await;
        let mut found = Vec::new();
        for ((name, keys), reply) in names.iter().zip(replies) {
            let context = self.context("inspect", name, keys);
            match reply {
                Ok(Value::Array(parts)) => {
                    found.extend(InspectReply { parts, plain: self.layout == Layout::Plain }.listed(name))
                }
                // A key of another program whose type does not match its name.
                Err(Failure::Refused(_)) => {}
                Ok(other) => return Err(context.unexpected_reply(other)),
                Err(failure) => return Err(context.to_error(failure)),
            }
        }
        Ok(found)
    }

    fn scan_error(&self, failure: Failure) -> tenure_core::Error {
        crate::error::ErrorContext { info: &self.info, verb: "list", name: None, key: "" }.to_error(failure)
    }
}

fn inspect_call(keys: &Keys) -> Call {
    let on = [
        keys.name().to_owned(),
        keys.about(),
        keys.waiters(),
        keys.stamps(),
        keys.queue(),
        keys.ends(),
        keys.permits(),
        keys.fence(),
        keys.token(),
        keys.mark(),
        keys.writer(),
    ];
    Call::new(&scripts::INSPECT, &on, &[keys.base()], Order::Unordered)
}

/// A glob pattern that matches exactly this text.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// What `inspect.lua` would have said of `name`, for a listing and for itself.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn read_reply(name: &Name, parts: &[Value]) {
    for plain in [false, true] {
        let reply = InspectReply { parts: parts.to_vec(), plain };
        drop((reply.listed(name), reply.snapshot(name)));
    }
}

/// The reply of `inspect.lua`.
struct InspectReply {
    parts: Vec<Value>,
    plain: bool,
}

impl InspectReply {
    fn text(&self, at: usize) -> Option<&str> {
        self.parts.get(at).and_then(Value::text)
    }

    fn list(&self, at: usize) -> &[Value] {
        match self.parts.get(at) {
            Some(Value::Array(list)) => list,
            _ => &[],
        }
    }

    fn pairs(&self, at: usize) -> impl Iterator<Item = (&Value, &Value)> {
        self.list(at).as_chunks().0.iter().map(|[name, value]| (name, value))
    }

    fn scores(&self, at: usize) -> impl Iterator<Item = (&[u8], f64)> {
        self.pairs(at).filter_map(|(who, score)| Some((who.bytes()?, score.text()?.parse().ok()?)))
    }

    fn now(&self) -> f64 {
        self.parts.get(12).and_then(Value::int).unwrap_or(0) as f64
    }

    /// Whether this looks like a lock of the other layout. In Redisson's layout a number is a semaphore or a latch.
    fn is_of_other_layout(&self) -> bool {
        let content = self.parts.get(2).and_then(Value::bytes).unwrap_or_default();
        let number = || self.text(2).is_some_and(|text| text.parse::<i64>().is_ok());
        match self.text(0) {
            Some("hash") => self.plain,
            Some("string") => !self.plain && !content.is_empty() && !number(),
            _ => false,
        }
    }

    /// The snapshot for a listing. A number is listed only if a key beside it shows that it is ours or a semaphore.
    fn listed(&self, name: &Name) -> Option<Snapshot> {
        if self.is_of_other_layout() {
            return None;
        }
        if self.plain {
            let ours = |h: &Holder| !h.foreign || is_token(&h.id);
            return self.snapshot(name).filter(|s| s.holders.iter().all(ours));
        }
        let known = self.text(0) != Some("string")
            || self.text(10).is_some()
            || !self.list(6).is_empty()
            || !self.list(3).is_empty();
        self.snapshot(name).filter(|_| known)
    }

    fn snapshot(&self, name: &Name) -> Option<Snapshot> {
        let beside = self.pairs(3).filter(|(id, _)| !matches!(id.text(), Some("holder" | "hold")));
        let beside = beside.filter_map(|(id, text)| Some((id.text()?, Record::parse(text.text()?))));
        let inside = self.records().into_iter().map(|(id, text)| (id, Record::parse(text)));
        let about: HashMap<&str, Record> = beside.chain(inside).collect();
        let mut snapshot = Snapshot::new(name.clone(), Family::Lock);
        snapshot.waiters = self.waiters(&about);
        // The plain layout has no fence: a fence key found here belongs to the other layout.
        let fence = self.text(8).or(self.text(9)).filter(|_| !self.plain);
        snapshot.fence = fence.and_then(|t| t.parse().ok()).map(Fence);
        let other = self.is_of_other_layout();
        match self.text(0)? {
            "string" if self.plain || other => {
                // Some libraries use random bytes as tokens.
                let token = String::from_utf8_lossy(self.parts.get(2)?.bytes()?);
                let (token, left) = (&*token, self.parts.get(1).and_then(Value::int).unwrap_or(-1));
                let about = about.get(token);
                let holds = about.and_then(|a| a.number).unwrap_or(1);
                let mut holder = holder(token, Mode::Exclusive, holds, time_left(left), about);
                // Only who holds it long is described. Redisson has no strings whose values look the same.
                holder.foreign &= !self.plain || token.parse::<HoldId>().is_err();
                snapshot.holders = vec![holder];
            }
            "hash" => {
                snapshot.holders = self.hash_holders(&about);
                if snapshot.holders.is_empty() && snapshot.waiters.is_empty() {
                    return None;
                }
                let reads = self.pairs(2).any(|(field, _)| field.text() == Some("mode"));
                let described =
                    snapshot.holders.iter().find_map(|h| about.get(h.id.as_str())?.description.as_ref());
                snapshot.family = match described {
                    _ if reads => Family::ReadWrite,
                    Some(who) => who.family,
                    None if !self.list(5).is_empty() => Family::Fair,
                    None => Family::Lock,
                };
            }
            "string" => {
                let value: i64 = self.text(2)?.parse().ok()?;
                let permits = self.permit_holders(&about);
                let described = about.values().find_map(|a| a.description.as_ref()).map(|w| w.family);
                if !permits.is_empty()
                    || described == Some(Family::Permit)
                    || self.text(10) == Some("permits")
                {
                    let used = self.parts.get(15).and_then(Value::int).unwrap_or(0);
                    snapshot.size = u32::try_from(value + used).ok();
                    snapshot.family = Family::Permit;
                    snapshot.holders = permits;
                } else {
                    let latch = self.text(10).is_some_and(|mark| mark.starts_with("latch"));
                    snapshot.family = if latch { Family::Latch } else { Family::Count };
                    snapshot.count = Some(value);
                }
            }
            "none" if !snapshot.waiters.is_empty() => {
                let described = about.values().find_map(|a| a.description.as_ref());
                snapshot.family = described.map_or(Family::Fair, |who| who.family);
            }
            _ => return None,
        }
        if other {
            let note = if self.plain { OF_REDISSON } else { OF_PLAIN };
            snapshot.holders.iter_mut().for_each(|h| h.note = h.note.take().or(Some(note.to_owned())));
        }
        Some(snapshot)
    }

    /// The records in the hash of a lock, by the id of the hold.
    fn records(&self) -> HashMap<&str, &str> {
        let fields: HashMap<&str, Option<&str>> =
            self.pairs(2).filter_map(|(field, text)| Some((field.text()?, text.text()))).collect();
        let records = fields.iter().filter_map(|(field, text)| Some((field.strip_suffix(RECORD)?, (*text)?)));
        records.filter(|(id, _)| fields.contains_key(id)).collect()
    }

    fn hash_holders(&self, about: &HashMap<&str, Record>) -> Vec<Holder> {
        let records = self.records();
        let is_record = |field: &str| field.strip_suffix(RECORD).is_some_and(|id| records.contains_key(id));
        let whole = self.parts.get(1).and_then(Value::int).unwrap_or(-1);
        let mode = self.pairs(2).find(|(field, _)| field.text() == Some("mode"));
        let mut holders = Vec::new();
        for (at, (field, holds)) in self.pairs(2).enumerate() {
            let Some(field) = field.text().filter(|field| *field != "mode" && !is_record(field)) else {
                continue;
            };
            let own = self.list(11).get(at).and_then(Value::int).unwrap_or(-2);
            let (id, mode, left) = match (mode.is_some(), field.strip_suffix(":write")) {
                (true, Some(id)) => (id, Mode::Exclusive, whole),
                // An expired reader stays in the hash until a script removes it.
                (true, None) if own <= 0 => continue,
                (true, None) => (field, Mode::Shared, own.min(whole.max(0))),
                _ => (field, Mode::Exclusive, whole),
            };
            let known = about.get(id);
            let holds = holds.text().and_then(|h| h.parse().ok()).unwrap_or(1);
            holders.push(holder(id, mode, holds, time_left(left), known));
        }
        holders
    }

    fn permit_holders(&self, about: &HashMap<&str, Record>) -> Vec<Holder> {
        let ours: HashMap<&[u8], &str> =
            self.pairs(14).filter_map(|(id, permit)| Some((permit.bytes()?, id.text()?))).collect();
        let ends: HashMap<&[u8], f64> = self.scores(7).collect();
        let now = self.now();
        let mut holders: Vec<Holder> = Vec::new();
        for (permit, end) in self.scores(6) {
            let id = ours.get(permit).map_or_else(|| hex(permit), |id| (*id).to_owned());
            let end = ends.get(id.as_bytes()).copied().unwrap_or(end);
            if end <= now {
                continue;
            }
            let left = (end < NEVER).then(|| Duration::from_millis((end - now) as u64));
            match holders.iter_mut().find(|h| h.id == id) {
                Some(known) => known.holds += 1,
                None => holders.push(holder(&id, Mode::Permits, 1, left, about.get(id.as_str()))),
            }
        }
        holders.sort_by_key(|h| (h.since.unwrap_or(u64::MAX), h.id.clone()));
        holders
    }

    fn waiters(&self, about: &HashMap<&str, Record>) -> Vec<Waiter> {
        let now = self.now();
        let alive: HashMap<&[u8], f64> = self.scores(13).collect();
        let dead = |id: &str| alive.get(id.as_bytes()).is_some_and(|until| *until <= now);
        let queued = self.list(5).iter().filter_map(Value::text);
        let others = self.pairs(4).filter_map(|(id, _)| id.text());
        queued.chain(others).filter(|id| !dead(id)).map(|id| waiter(id, about.get(id))).collect()
    }
}

/// Whether another lock library may have generated this value: 16 random bytes in base64 or hexadecimal. Anything else
/// may be a value of any program.
fn is_token(value: &str) -> bool {
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_');
    match value.len() {
        32 => value.bytes().all(|b| b.is_ascii_hexdigit()),
        24 => value.strip_suffix("==").is_some_and(|v| v.bytes().all(base64)),
        _ => false,
    }
}

fn time_left(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

fn holder(id: &str, mode: Mode, holds: u32, left: Option<Duration>, about: Option<&Record>) -> Holder {
    let who = about.and_then(|a| a.description.as_ref());
    let mut holder = Holder::new(id, mode);
    (holder.holds, holder.left) = (holds, left);
    (holder.fence, holder.since) = (about.and_then(|a| a.fence), about.and_then(|a| a.since));
    holder.note = who.and_then(|w| w.note.as_deref()).map(str::to_owned);
    holder.host = who.map(|w| w.host.clone().into_owned());
    (holder.pid, holder.foreign) = (who.map(|w| w.pid), who.is_none());
    holder
}

fn waiter(id: &str, about: Option<&Record>) -> Waiter {
    let who = about.and_then(|a| a.description.as_ref());
    let mode = match who {
        Some(who) if who.family == Family::Permit => Mode::Permits,
        Some(who) if who.reads => Mode::Shared,
        _ => Mode::Exclusive,
    };
    let mut waiter = Waiter::new(id, mode);
    waiter.since = about.and_then(|a| a.since);
    waiter.note = who.and_then(|w| w.note.as_deref()).map(str::to_owned);
    waiter.host = who.map(|w| w.host.clone().into_owned());
    (waiter.pid, waiter.foreign) = (who.map(|w| w.pid), who.is_none());
    waiter
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
