//! A table of what was shared in which direction.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use super::Way;

/// Per direction, how many cases passed, and how many there were.
type Ways = BTreeMap<Way, (u32, u32)>;

/// A row for each kind at each place.
pub(super) struct Table<P> {
    peer: &'static str,
    rows: Mutex<BTreeMap<(P, &'static str), Ways>>,
}

impl<P: Ord> Table<P> {
    pub(super) fn new(peer: &'static str) -> Self {
        Self { peer, rows: Mutex::default() }
    }

    pub(super) fn add(&self, place: P, kind: &'static str, way: Way, passed: bool) {
        let mut rows = self.rows.lock().unwrap();
        let (good, all) = rows.entry((place, kind)).or_default().entry(way).or_default();
        *good += u32::from(passed);
        *all += 1;
    }
}

impl<P: fmt::Display> fmt::Display for Table<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (peer, rows) = (self.peer, self.rows.lock().unwrap());
        if rows.values().all(|ways| ways.keys().all(|way| *way == Way::Alone)) {
            return Ok(());
        }
        writeln!(f, "\nshared with {peer} (cases passed of those run)\n")?;
        writeln!(f, "| servers | kind | {peer} → Tenure | Tenure → {peer} | both at once |")?;
        writeln!(f, "| --- | --- | --- | --- | --- |")?;
        for ((place, kind), ways) in rows.iter() {
            if ways.keys().all(|way| *way == Way::Alone) {
                continue;
            }
            write!(f, "| {place} | {kind} |")?;
            for way in [Way::FromPeer, Way::FromTenure, Way::Both] {
                match ways.get(&way) {
                    Some((good, all)) if good == all => write!(f, " {good} |")?,
                    Some((good, all)) => write!(f, " {good} of {all} |")?,
                    None => write!(f, " – |")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
