//! Slots of a cluster, and the migration of one in steps, so that a test can act between them.

use crate::{Cluster, Error, PATIENCE, Redis, Result, eventually};

/// Number of slots in a cluster.
pub const SLOTS: u16 = 16_384;

/// Returns the slot of a key; if it has a hash tag in braces, that of the tag.
pub fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    hashed.bytes().fold(0, crc16) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(crc: u16, byte: u8) -> u16 {
    let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    (0..8).fold(crc ^ (u16::from(byte) << 8), shift)
}

/// Returns a key in this slot that begins with `prefix`.
pub fn key_in(slot: u16, prefix: &str) -> String {
    let mut keys = (0u32..).map(|n| format!("{prefix}{n}"));
    keys.find(|key| slot_of(key) == slot % SLOTS).unwrap_or_default()
}

/// A slot that is being migrated to another node.
///
/// Until [`SlotMove::finish`], the old node serves the keys that it still has, and redirects clients that ask for any
/// other key to the new node with `ASK`. From then on it answers `MOVED`.
#[derive(Debug)]
#[must_use = "the slot stays between two nodes"]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl<'a> SlotMove<'a> {
    /// Marks the slot as IMPORTING on the new node and MIGRATING on the old one.
    pub(crate) fn begin(cluster: &'a Cluster, slot: u16, to: usize) -> Result<Self> {
        let from = cluster.owner_of(slot)?;
        if from == to {
            return Err(Error::failed(format!("slot {slot} is on node {to} already")));
        }
        let moving = Self { cluster, slot, from, to };
        moving.set(to, &["IMPORTING", cluster.id(from)])?;
        moving.set(from, &["MIGRATING", cluster.id(to)])?;
        Ok(moving)
    }

    /// The old node.
    pub fn from(&self) -> &'a Redis {
        &self.cluster.nodes()[self.from]
    }

    /// The new node.
    pub fn to(&self) -> &'a Redis {
        &self.cluster.nodes()[self.to]
    }

    /// Lists the keys that the old node still has.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn keys(&self) -> Result<Vec<String>> {
        let slot = self.slot.to_string();
        Ok(self.from().cmd(&["CLUSTER", "GETKEYSINSLOT", &slot, "10000"])?.texts())
    }

    /// Moves these keys.
    ///
    /// # Errors
    /// When a node refuses, or does not answer.
    pub fn migrate(&self, keys: &[String]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let port = self.to().port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
        if let Some(user) = self.cluster.login() {
            words.extend(["AUTH2", user, user]);
        }
        words.push("KEYS");
        words.extend(keys.iter().map(String::as_str));
        self.from().cmd(&words).map(drop)
    }

    /// Moves all keys that are left.
    ///
    /// # Errors
    /// When a node refuses, or does not answer.
    pub fn migrate_all(&self) -> Result<()> {
        self.migrate(&self.keys()?)
    }

    /// Assigns the slot to the new node, and waits until all nodes know.
    ///
    /// # Errors
    /// When keys are left at the old one, or a node does not answer.
    pub fn finish(self) -> Result<()> {
        let id = self.cluster.id(self.to);
        // These two first, so that no key is without an owner; the others learn it by gossip.
        self.set(self.to, &["NODE", id])?;
        self.set(self.from, &["NODE", id])?;
        let all_know = || self.cluster.agreed_owner_of(self.slot).filter(|owner| *owner == self.to).map(drop);
        eventually("all nodes know the new owner of the slot", PATIENCE, all_know)
    }

    /// Cancels the migration. Clients no longer find the keys that have moved.
    ///
    /// # Errors
    /// When a node does not answer.
    pub fn cancel(self) -> Result<()> {
        self.set(self.from, &["STABLE"])?;
        self.set(self.to, &["STABLE"])
    }

    fn set(&self, node: usize, how: &[&str]) -> Result<()> {
        let slot = self.slot.to_string();
        let words = [&["CLUSTER", "SETSLOT", &slot], how].concat();
        self.cluster.nodes()[node].cmd(&words).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_as_the_specification_has_them() {
        assert_eq!("123456789".bytes().fold(0, crc16), 0x31c3);
        assert_eq!(slot_of("foo{hash_tag}bar"), slot_of("hash_tag"));
        assert_eq!(slot_of("foo{bar}{zap}"), slot_of("bar"));
        assert_eq!(slot_of("foo{{bar}}zap"), slot_of("{bar"));
        assert_ne!(slot_of("foo{}bar"), slot_of(""));
        for slot in [0, 1, 9999, SLOTS - 1] {
            assert_eq!(slot_of(&key_in(slot, "lock:")), slot);
        }
    }
}
