//! A table of what was shared in which direction.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use super::Direction;

/// Per direction, how many cases passed, and how many there were.
type Directions = BTreeMap<Direction, (u32, u32)>;

/// A row for each kind at each deployment.
pub(super) struct Table<P> {
    peer: &'static str,
    rows: Mutex<BTreeMap<(P, &'static str), Directions>>,
}

impl<P: Ord> Table<P> {
    pub(super) fn new(peer: &'static str) -> Self {
        Self { peer, rows: Mutex::default() }
    }

    pub(super) fn add(&self, deployment: P, kind: &'static str, direction: Direction, passed: bool) {
        let mut rows = self.rows.lock().unwrap();
        let (good, all) = rows.entry((deployment, kind)).or_default().entry(direction).or_default();
        *good += u32::from(passed);
        *all += 1;
    }
}

impl<P: fmt::Display> fmt::Display for Table<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (peer, rows) = (self.peer, self.rows.lock().unwrap());
        if rows.values().all(|directions| directions.keys().all(|direction| *direction == Direction::Alone)) {
            return Ok(());
        }
        writeln!(f, "\nshared with {peer} (cases passed of those run)\n")?;
        writeln!(f, "| servers | kind | {peer} → Tenure | Tenure → {peer} | both at once |")?;
        writeln!(f, "| --- | --- | --- | --- | --- |")?;
        for ((deployment, kind), directions) in rows.iter() {
            if directions.keys().all(|direction| *direction == Direction::Alone) {
                continue;
            }
            write!(f, "| {deployment} | {kind} |")?;
            for direction in [Direction::FromPeer, Direction::FromTenure, Direction::Both] {
                match directions.get(&direction) {
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
