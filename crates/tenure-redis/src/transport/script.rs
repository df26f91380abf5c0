//! A Lua script, sent by its hash (`EVALSHA`), or by its text (`EVAL`) if the server does not have it.

use std::sync::OnceLock;
use std::time::Duration;

use tenure_core::HoldId;

use super::resp::{head, word};

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: &'static str,
    sha: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, sha: OnceLock::new() }
    }

    pub(crate) fn sha(&self) -> &str {
        self.sha.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string())
    }
}

/// A script call. The first key decides the node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a [u8]],
    pub(crate) args: &'a [&'a [u8]],
    pub(crate) order: Order,
}

/// How a call is ordered with others of the same hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Free,
    /// Checks that holds still exist.
    Proof,
    /// May create the hold, which then lasts for at least `lease`.
    Attempt {
        id: HoldId,
        lease: Duration,
    },
    /// Releases the hold: sent after its attempt, if that is unanswered.
    Behind(HoldId),
}

impl Call<'_> {
    pub(crate) fn key(&self) -> &[u8] {
        self.keys.first().copied().unwrap_or_default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>, by: By) {
        encode(out, self.script, by, self.keys.iter().copied(), self.args.iter().copied());
    }

    #[cfg(test)]
    pub(crate) fn to_owned(self) -> OwnedCall {
        OwnedCall {
            script: self.script,
            keys: self.keys.iter().map(|k| k.to_vec()).collect(),
            args: self.args.iter().map(|a| a.to_vec()).collect(),
            order: self.order,
        }
    }
}

/// A call that owns its data, for batches.
#[derive(Clone, Debug)]
pub(crate) struct OwnedCall {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) order: Order,
}

impl OwnedCall {
    pub(crate) fn key(&self) -> &[u8] {
        self.keys.first().map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>, by: By) {
        encode(
            out,
            self.script,
            by,
            self.keys.iter().map(Vec::as_slice),
            self.args.iter().map(Vec::as_slice),
        );
    }
}

/// Whether a script is sent by its hash or its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Hash,
    Text,
}

fn encode<'a>(
    out: &mut Vec<u8>,
    script: &Script,
    by: By,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
    args: impl ExactSizeIterator<Item = &'a [u8]>,
) {
    head(out, 3 + keys.len() + args.len());
    match by {
        By::Hash => {
            word(out, b"EVALSHA");
            word(out, script.sha().as_bytes());
        }
        By::Text => {
            word(out, b"EVAL");
            word(out, script.text.as_bytes());
        }
    }
    word(out, keys.len().to_string().as_bytes());
    keys.chain(args).for_each(|w| word(out, w));
}
