//! What came out of a run, in a file of its own beside the histories.

use std::collections::BTreeMap;
use std::path::Path;

use checker::{Answer, Check, Class, Expectations, History, Safety, Store, What, check, shorten, svg, text};
use serde::{Deserialize, Serialize};

use crate::cell::{Ran, read};
use crate::fault::Fault;
use crate::kinds::Use;
use crate::options::{Options, home};

/// The column of [`checker::Report::row`] with the number of broken promises.
const VIOLATIONS: usize = 3;

/// What came out of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) store: Store,
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) uses: Vec<Use>,
    pub(crate) faults: BTreeMap<Class, u32>,
    pub(crate) row: Vec<String>,
    pub(crate) operations: usize,
    pub(crate) broken: Vec<Broken>,
    /// Whether a bug was planted.
    pub(crate) planted: bool,
}

/// A broken promise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Broken {
    /// The kind of its name, if it is about one.
    pub(crate) of: Option<Use>,
    pub(crate) check: String,
    pub(crate) text: String,
}

impl Outcome {
    /// Judges a run; prints what is broken.
    ///
    /// # Errors
    /// When its history cannot be read.
    pub(crate) fn judge(store: Store, options: &Options, ran: &Ran) -> Result<Self, String> {
        let history = read(&ran.folder)?;
        let run = history.run().ok_or("the history does not say of what it is")?;
        let expected = Expectations::of_run(run);
        let report = check(&history, &expected);
        let mut broken: Vec<Broken> = ran
            .wrong
            .iter()
            .map(|wrong| Broken { of: None, check: "run".into(), text: wrong.clone() })
            .collect();
        let mut shown = Vec::new();
        // What is half forgotten may be refused as wrong: permits whose number is left, and whose sets are gone.
        let lost = ran.faults.iter().any(|fault| may_lose(store, fault.class()));
        if !lost {
            broken.extend(refused(&history).map(|text| Broken { of: None, check: "refused".into(), text }));
        }
        for violation in report.violations.iter().filter(|one| !(lost && one.check == Check::Leftover)) {
            let check = violation.check.to_string();
            if !shown.contains(&check) {
                println!("{}: seed {}", ran.folder.display(), options.seed);
                let short = shorten(&history, &expected, violation);
                println!("{}", text(&short, violation));
                let file = ran.folder.join("raw").join(format!("{check}.svg"));
                match std::fs::write(&file, svg(&short, violation)) {
                    Ok(()) => println!("drawn: {}\n", file.display()),
                    Err(error) => println!("{}: {error}", file.display()),
                }
                shown.push(check.clone());
            }
            broken.push(Broken { of: Use::of(&violation.name), check, text: violation.to_string() });
        }
        let mut row = report.row().to_vec();
        row[VIOLATIONS] = broken.len().to_string();
        let of_all: Vec<Use> = Use::on(store).to_vec();
        let outcome = Self {
            store,
            seed: options.seed,
            seconds: options.time.as_secs(),
            uses: of_all.into_iter().filter(|one| options.uses.contains(one)).collect(),
            faults: counts(&ran.faults),
            row,
            operations: report.operations,
            broken,
            planted: options.plant,
        };
        outcome.keep(&ran.folder)?;
        Ok(outcome)
    }

    fn keep(&self, folder: &Path) -> Result<(), String> {
        let results = home().join("results");
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        std::fs::create_dir_all(&results)
            .and_then(|()| std::fs::write(results.join(format!("{name}.json")), text))
            .map_err(|e| format!("{}: {e}", results.display()))
    }

    /// The result of an earlier run with these options.
    pub(crate) fn of(store: Store, options: &Options) -> Option<Self> {
        Self::all().ok()?.into_iter().find(|one| {
            (one.store, one.seed, one.seconds) == (store, options.seed, options.time.as_secs())
                && !one.planted
        })
    }

    /// All results so far.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(crate) fn all() -> Result<Vec<Self>, String> {
        let results = home().join("results");
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", results.display());
        let entries = results.read_dir().map_err(|e| failed(&e))?;
        let mut all = Vec::new();
        for entry in entries.flatten() {
            let text = std::fs::read_to_string(entry.path()).map_err(|e| failed(&e))?;
            all.push(serde_json::from_str(&text).map_err(|e| failed(&e))?);
        }
        Ok(all)
    }
}

/// Whether a store may forget under such a fault what it has confirmed: also that something was removed.
pub(crate) fn may_lose(store: Store, class: Class) -> bool {
    checker::Cell::of(store, class).is_some_and(|cell| cell.safety != Safety::Exclusion)
}

fn counts(faults: &[Fault]) -> BTreeMap<Class, u32> {
    let mut counts = BTreeMap::new();
    for fault in faults {
        *counts.entry(fault.class()).or_default() += 1;
    }
    counts
}

/// Calls that were refused as wrong: none of them is.
fn refused(history: &History) -> impl Iterator<Item = String> {
    let refused = history.events().iter().filter_map(|event| match &event.what {
        What::Answer { op, answer: Answer::Refused { error } } => {
            Some(format!("call {}/{op} was refused: {error}", event.process))
        }
        _ => None,
    });
    refused.take(3)
}
