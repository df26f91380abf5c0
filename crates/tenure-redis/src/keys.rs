//! The keys and channels of a name: Redisson's and our own, all in one hash slot.

use tenure_core::{Error, HoldId, Name, Result};

use crate::transport::Word;

/// The keys of one name.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    name: String,
    /// Redisson wraps a name in braces unless it already contains one.
    tagged: bool,
}

impl Keys {
    pub(crate) fn new(prefix: &str, name: &Name) -> Self {
        let name = [prefix, name.as_str()].concat();
        Self { tagged: name.contains('{'), name }
    }

    /// Refuses a name whose keys a cluster would put into different slots.
    pub(crate) fn in_one_slot(&self) -> Result<()> {
        self.all_like(&self.beside("x"))?;
        self.all_like(&self.behind("x"))
    }

    /// Like [`Keys::in_one_slot`] for the channel of a latch, whose name Redisson always wraps in braces.
    pub(crate) fn latch_in_one_slot(&self) -> Result<()> {
        self.all_like(&self.latch_channel())
    }

    fn all_like(&self, helper: &str) -> Result<()> {
        if tag(&self.name) == tag(helper) {
            return Ok(());
        }
        Err(Error::Config(format!(
            "{:?} cannot be a name on a cluster: its braces would put its keys into different slots ({:?} and \
             {helper:?}); use no braces, or one pair around some text",
            self.name, self.name
        )))
    }

    fn beside(&self, word: &str) -> String {
        if self.tagged { format!("{word}:{}", self.name) } else { format!("{word}:{{{}}}", self.name) }
    }

    /// A key of our own. Redisson's helper keys of `a` and of `{a}` have the same names; ours differ.
    fn ours(&self, word: &str) -> String {
        if self.tagged { format!("{word}::{}", self.name) } else { self.beside(word) }
    }

    fn behind(&self, word: &str) -> String {
        format!("{}:{word}", self.base())
    }

    /// The prefix of keys that start with the name.
    pub(crate) fn base(&self) -> String {
        if self.tagged { self.name.clone() } else { format!("{{{}}}", self.name) }
    }

    /// The lock's own key: a hash, a number, or a string in the plain layout.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The counter of Redisson's fenced lock.
    pub(crate) fn token(&self) -> String {
        self.beside("redisson_lock_token")
    }

    pub(crate) fn queue(&self) -> String {
        self.beside("redisson_lock_queue")
    }

    pub(crate) fn scores(&self) -> String {
        self.beside("redisson_lock_timeout")
    }

    /// Redisson's sorted set of permits with their expiry.
    pub(crate) fn ends(&self) -> String {
        self.behind("timeout")
    }

    /// The key whose TTL is the lease of one reader.
    pub(crate) fn reader(&self, id: HoldId) -> String {
        self.behind(&format!("{id}:rwlock_timeout:1"))
    }

    /// The word of [`Keys::fence`].
    pub(crate) fn fence_word(&self) -> Word<'_> {
        match self.tagged {
            true => Word::Parts(["tenure_fence::", &self.name, ""]),
            false => Word::Parts(["tenure_fence:{", &self.name, "}"]),
        }
    }

    /// The word of [`Keys::token`].
    pub(crate) fn token_word(&self) -> Word<'_> {
        match self.tagged {
            true => Word::Parts(["redisson_lock_token:", &self.name, ""]),
            false => Word::Parts(["redisson_lock_token:{", &self.name, "}"]),
        }
    }

    /// The word of [`Keys::lock_channel`].
    pub(crate) fn lock_channel_word(&self) -> Word<'_> {
        match self.tagged {
            true => Word::Parts(["redisson_lock__channel:", &self.name, ""]),
            false => Word::Parts(["redisson_lock__channel:{", &self.name, "}"]),
        }
    }

    /// The last fence.
    pub(crate) fn fence(&self) -> String {
        self.ours("tenure_fence")
    }

    /// The hash with a descriptive record of each holder and waiter.
    pub(crate) fn about(&self) -> String {
        self.ours("tenure_about")
    }

    /// Our waiters, in queue order.
    pub(crate) fn waiters(&self) -> String {
        self.ours("tenure_waiters")
    }

    /// The subset of waiters that want the write lock.
    pub(crate) fn writers(&self) -> String {
        self.ours("tenure_writers")
    }

    /// The record of the one who holds the write lock.
    pub(crate) fn writer(&self) -> String {
        self.ours("tenure_writer")
    }

    /// The liveness deadline of each of our waiters.
    pub(crate) fn stamps(&self) -> String {
        self.ours("tenure_stamps")
    }

    /// Our permit holds with their exact expiry.
    pub(crate) fn permits(&self) -> String {
        self.ours("tenure_permits")
    }

    /// Which kind a number of ours is.
    pub(crate) fn mark(&self) -> String {
        self.ours("tenure_number")
    }

    /// The results of recent operations of one client, kept for retries.
    pub(crate) fn operations(&self, client: tenure_core::ClientId) -> String {
        format!("{}:{client}", self.ours("tenure_operations"))
    }

    /// Every key that a hold of this id may use.
    pub(crate) fn all(&self, id: HoldId) -> Vec<String> {
        let redisson =
            [self.name.clone(), self.token(), self.queue(), self.scores(), self.ends(), self.reader(id)];
        let ours =
            [self.fence(), self.about(), self.waiters(), self.writers(), self.stamps(), self.permits()];
        let more = [self.writer(), self.mark(), self.operations(id.client)];
        redisson.into_iter().chain(ours).chain(more).collect()
    }

    /// Every key that a plain lock may use.
    pub(crate) fn plain(&self) -> Vec<String> {
        vec![self.name.clone(), self.about(), self.waiters(), self.stamps()]
    }

    /// Every channel that a hold of this id may use.
    pub(crate) fn channels(&self, id: HoldId) -> Vec<String> {
        let one = self.fair_channel(&id.to_string());
        let lock = [self.lock_channel(), one, self.rw_channel()];
        lock.into_iter().chain([self.permit_channel(), self.latch_channel(), self.leader_channel()]).collect()
    }

    pub(crate) fn lock_channel(&self) -> String {
        self.beside("redisson_lock__channel")
    }

    /// The channel on which our clients publish releases of a plain lock.
    pub(crate) fn plain_channel(&self) -> String {
        self.ours("tenure_lock")
    }

    /// The channel of one waiter for a fair lock.
    pub(crate) fn fair_channel(&self, id: &str) -> String {
        format!("{}:{id}", self.lock_channel())
    }

    pub(crate) fn rw_channel(&self) -> String {
        self.beside("redisson_rwlock")
    }

    pub(crate) fn permit_channel(&self) -> String {
        self.beside("redisson_sc")
    }

    pub(crate) fn latch_channel(&self) -> String {
        format!("redisson_countdownlatch__channel__{{{}}}", self.name)
    }

    /// The channel on which changes of leadership are published.
    pub(crate) fn leader_channel(&self) -> String {
        self.ours("tenure_leader")
    }
}

/// The name that a key belongs to, prefix included: the key itself, or the name inside a helper key.
pub(crate) fn name_of(key: &str) -> &str {
    const OURS: [&str; 2] = ["tenure_about:", "tenure_number:"];
    let inside = |rest: &'_ str| rest.len().checked_sub(1).filter(|end| rest.ends_with('}') && *end > 0);
    if let Some(rest) = OURS.iter().find_map(|word| key.strip_prefix(word)) {
        if let Some(name) = rest.strip_prefix(':') {
            return name;
        }
        if let Some(end) = inside(rest) {
            return &rest[1..end];
        }
    }
    match key.strip_prefix("redisson_lock_queue:") {
        Some(rest) => match inside(rest) {
            Some(end) if rest.starts_with('{') && !rest[1..end].contains('{') => &rest[1..end],
            _ => rest,
        },
        None => key,
    }
}

/// Whether a key is a record of ours that must be skipped in listings: as a hash it would look like a lock.
pub(crate) fn is_record(key: &str) -> bool {
    key.starts_with("tenure_operations:")
}

/// The part of a key that a cluster hashes.
fn tag(key: &str) -> &str {
    let inside = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(inside, _)| inside);
    inside.filter(|i| !i.is_empty()).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> Keys {
        Keys::new("", &Name::new(name).unwrap())
    }

    #[test]
    fn redisson_names_them_so() {
        let plain = keys("a");
        assert_eq!(plain.lock_channel(), "redisson_lock__channel:{a}");
        assert_eq!(plain.ends(), "{a}:timeout");
        assert_eq!(plain.latch_channel(), "redisson_countdownlatch__channel__{a}");
        let tagged = keys("p{q}r");
        assert_eq!(tagged.lock_channel(), "redisson_lock__channel:p{q}r");
        assert_eq!(tagged.ends(), "p{q}r:timeout");
        assert_eq!(Keys::new("app:", &Name::new("a").unwrap()).queue(), "redisson_lock_queue:{app:a}");
    }

    #[test]
    fn names_that_fall_apart_in_a_cluster_are_refused() {
        for good in ["a", "{a}b}", "p{q}r", "{a}", "ü"] {
            assert!(keys(good).in_one_slot().is_ok(), "{good}");
        }
        for bad in ["a{b", "{}x", "a}b", "{", "}", "{}"] {
            assert!(keys(bad).in_one_slot().unwrap_err().to_string().contains("slots"), "{bad}");
        }
        assert!(keys("a").latch_in_one_slot().is_ok());
        assert!(keys("{t}x").latch_in_one_slot().is_err());
    }

    #[test]
    fn a_key_says_which_name_it_is_about() {
        for name in ["a", "a{b", "{a}", "p{q}r", "{", "}", "a}b", "{}"] {
            let keys = keys(name);
            assert_eq!(name_of(&keys.about()), name);
            assert_eq!(name_of(&keys.mark()), name);
        }
        for name in ["a", "p{q}r", "a{b"] {
            assert_eq!(name_of(&keys(name).queue()), name);
        }
        let distinct: std::collections::BTreeSet<_> =
            ["a", "{a}", "{{a}}", ":a", "a:"].iter().map(|n| keys(n).about()).collect();
        assert_eq!(distinct.len(), 5, "{distinct:?}");
    }
}
