//! What was shared in which direction, for people.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use crate::case::Way;
use crate::world::Place;

/// Of each way, how many cases passed, and how many there were.
type Ways = BTreeMap<Way, (u32, u32)>;

/// A row for each kind at each place.
#[derive(Default)]
pub(crate) struct Table(Mutex<BTreeMap<(Place, &'static str), Ways>>);

impl Table {
    pub(crate) fn add(&self, place: Place, kind: &'static str, way: Way, passed: bool) {
        let mut rows = self.0.lock().unwrap();
        let (good, all) = rows.entry((place, kind)).or_default().entry(way).or_default();
        *good += u32::from(passed);
        *all += 1;
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.0.lock().unwrap();
        if rows.values().all(|ways| ways.keys().all(|way| *way == Way::Alone)) {
            return Ok(());
        }
        writeln!(f, "\nshared with Redisson (cases passed of those run)\n")?;
        writeln!(f, "| servers | kind | Redisson → Tenure | Tenure → Redisson | both at once |")?;
        writeln!(f, "| --- | --- | --- | --- | --- |")?;
        for ((place, kind), ways) in rows.iter() {
            if ways.keys().all(|way| *way == Way::Alone) {
                continue;
            }
            write!(f, "| {place} | {kind} |")?;
            for way in [Way::FromRedisson, Way::FromTenure, Way::Both] {
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
