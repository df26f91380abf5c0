//! A call of a script: what it consists of, and how it is encoded.

use std::iter;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use tenure_core::HoldId;

use super::wire::{first_bulk, write_array_header, write_bulk, write_bulk_of, write_short};

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    sha: OnceLock<String>,
    /// The script that runs it for several calls.
    many: Option<&'static Script>,
}

impl Script {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, sha: OnceLock::new(), many: None }
    }

    pub(crate) const fn joined_by(text: &'static str, many: &'static Script) -> Self {
        Self { text, sha: OnceLock::new(), many: Some(many) }
    }

    pub(crate) fn sha(&self) -> &str {
        self.sha.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string())
    }

    /// Writes the first two words of a call.
    pub(super) fn write(&self, out: &mut Vec<u8>, by: By) {
        match by {
            By::Hash => {
                write_bulk(out, b"EVALSHA");
                write_bulk(out, self.sha().as_bytes());
            }
            By::Text => {
                write_bulk(out, b"EVAL");
                write_bulk(out, self.text.as_bytes());
            }
        }
    }
}

/// A script call, encoded except for the script itself.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(super) script: &'static Script,
    /// Where the first key is: it decides the node.
    pub(super) key: Range<usize>,
    pub(super) keys: usize,
    /// The number of keys and arguments.
    pub(super) words: usize,
    /// In a cluster, the slot of its keys: only calls of one slot can be sent as one.
    pub(super) slot: u16,
    /// The number of keys, the keys and the arguments.
    pub(super) encoded: Vec<u8>,
    pub(crate) order: Order,
}

/// How a call is ordered with others of the same hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Unordered,
    /// Checks that holds still exist.
    Renewal,
    /// May create the hold, which then lasts for at least `lease`.
    Attempt {
        id: HoldId,
        lease: Duration,
    },
}

impl Order {
    /// The hold that it may create, and its lease.
    pub(super) fn attempt(self) -> Option<(HoldId, Duration)> {
        match self {
            Self::Attempt { id, lease } => Some((id, lease)),
            Self::Unordered | Self::Renewal => None,
        }
    }
}

/// Where the content of the first word is that was written behind `before`.
fn first_key(encoded: &[u8], before: usize) -> Range<usize> {
    match first_bulk(&encoded[before..]) {
        Some((word, _)) => {
            let line = word.iter().position(|b| *b == b'\r').map_or(0, |end| end + 2);
            before + line..before + word.len() - 2
        }
        None => 0..0,
    }
}

/// A key or an argument, written without a string of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word<'a> {
    Text(&'a str),
    /// One text, in three parts.
    Parts([&'a str; 3]),
    Number(u64),
    Hold(HoldId),
}

impl Word<'_> {
    fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_bulk(out, text.as_bytes()),
            Self::Parts(parts) => write_bulk_of(out, parts),
            Self::Number(n) => write_short(out, format_args!("{n}")),
            Self::Hold(id) => write_short(out, format_args!("{id}")),
        }
    }
}

impl Call {
    /// The call of a script with these words, of which the first are keys.
    pub(crate) fn of_words<const K: usize, const A: usize>(
        script: &'static Script,
        keys: [Word<'_>; K],
        args: [Word<'_>; A],
        order: Order,
    ) -> Self {
        let mut encoded = Vec::with_capacity(512);
        Word::Number(K as u64).write(&mut encoded);
        let before = encoded.len();
        keys.into_iter().chain(args).for_each(|word| word.write(&mut encoded));
        let key = first_key(&encoded, before);
        Self { script, key, keys: K, words: K + A, slot: 0, encoded, order }
    }

    pub(crate) fn new(
        script: &'static Script,
        keys: &[impl AsRef<[u8]>],
        args: &[impl AsRef<[u8]>],
        order: Order,
    ) -> Self {
        let mut encoded = Vec::with_capacity(512);
        write_bulk(&mut encoded, keys.len().to_string().as_bytes());
        let before = encoded.len();
        keys.iter().for_each(|key| write_bulk(&mut encoded, key.as_ref()));
        args.iter().for_each(|arg| write_bulk(&mut encoded, arg.as_ref()));
        let key = if keys.is_empty() { 0..0 } else { first_key(&encoded, before) };
        Self { script, key, keys: keys.len(), words: keys.len() + args.len(), slot: 0, encoded, order }
    }

    pub(super) fn in_slot(self, slot: impl FnOnce(&[u8]) -> u16) -> Self {
        Self { slot: slot(self.key()), ..self }
    }

    /// The script that runs several such calls.
    pub(super) fn many(&self) -> Option<&'static Script> {
        self.script.many
    }

    /// Whether one script call can do for both.
    pub(super) fn joins(&self, other: &Self) -> bool {
        let shape = |call: &Self| (std::ptr::from_ref(call.script), call.keys, call.words, call.slot);
        self.many().is_some() && shape(self) == shape(other)
    }

    /// The keys and the arguments, each encoded.
    pub(super) fn encoded_words(&self) -> Vec<&[u8]> {
        let mut rest = &self.encoded[..];
        let mut words = iter::from_fn(|| {
            let (word, behind) = first_bulk(rest)?;
            rest = behind;
            Some(word)
        });
        // The number of keys.
        words.next();
        let mut all = Vec::with_capacity(self.words);
        all.extend(words);
        all
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.encoded[self.key.clone()]
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>, by: By) {
        write_array_header(out, 3 + self.words);
        self.script.write(out, by);
        out.extend_from_slice(&self.encoded);
    }
}

/// Whether a script is sent by its hash or its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Hash,
    Text,
}
