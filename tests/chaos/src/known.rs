//! Broken promises that are known, and not repaired yet: each stands in `docs/reliability.md`. They are shown, and make no
//! run fail, so that a new one is seen.

use checker::{Check, Store, Violation};

/// A store, a check, and a part of what it says.
const KNOWN: &[(Store, Check, &str)] = &[
    // Some nodes fail at once and others are silent: it is decided before the silence of these is known.
    (Store::Redlock, Check::Unavailable, "was answered busy while the store could not"),
];

/// Whether this is known.
pub(crate) fn is_known(store: Store, found: &Violation) -> bool {
    KNOWN.iter().any(|(of, check, text)| *of == store && *check == found.check && found.text.contains(text))
}
