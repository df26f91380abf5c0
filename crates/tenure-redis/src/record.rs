//! Descriptive records of holders and waiters, stored beside the lock; that of the holder of a lock inside its hash.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tenure_core::{Claim, Family, Fence, Kind, Process};

#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Description<'a> {
    #[serde(rename = "k")]
    pub(crate) family: Family,
    #[serde(rename = "h")]
    pub(crate) host: Cow<'a, str>,
    #[serde(rename = "p")]
    pub(crate) pid: u32,
    #[serde(rename = "n", skip_serializing_if = "Option::is_none", default)]
    pub(crate) note: Option<Cow<'a, str>>,
    /// Whether it is a reader.
    #[serde(rename = "r", skip_serializing_if = "std::ops::Not::not", default)]
    pub(crate) reads: bool,
}

/// The record of a claim, as JSON. Cached for claims without a note.
pub(crate) fn describe(claim: &Claim) -> Cow<'static, str> {
    static PLAIN: OnceLock<Vec<(Family, bool, String)>> = OnceLock::new();
    let text = |family, reads, note: Option<&str>| {
        let me = Process::current();
        let who = Description {
            family,
            host: Cow::Borrowed(&me.host),
            pid: me.pid,
            note: note.map(Cow::Borrowed),
            reads,
        };
        serde_json::to_string(&who).unwrap_or_default()
    };
    let (family, reads) = (claim.kind.family(), matches!(claim.kind, Kind::Read { .. }));
    if let Some(note) = claim.note.as_deref() {
        return Cow::Owned(text(family, reads, Some(note)));
    }
    let plain = PLAIN.get_or_init(|| {
        let both = |f: &Family| [false, true].map(|r| (*f, r, text(*f, r, None)));
        Family::ALL.iter().flat_map(both).collect()
    });
    match plain.iter().find(|(f, r, _)| (*f, *r) == (family, reads)) {
        Some((_, _, text)) => Cow::Borrowed(text),
        None => Cow::Owned(text(family, reads, None)),
    }
}

/// A parsed record: the JSON, and what the scripts put before it: `<fence> <since> <number> <description>`.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) fence: Option<Fence>,
    pub(crate) since: Option<u64>,
    /// The number of permits; for a plain lock its hold count; for a waiter in a fair queue its patience in ms.
    pub(crate) number: Option<u32>,
    pub(crate) description: Option<Description<'static>>,
}

impl Record {
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = text.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        Self {
            fence: word().parse().ok().map(Fence),
            since: word().parse().ok(),
            number: word().parse().ok(),
            description: serde_json::from_str(word()).ok(),
        }
    }
}
