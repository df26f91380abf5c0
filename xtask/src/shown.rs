//! Checks that each row of `docs/failure-modes.md` and each scenario of `docs/scenarios.md` names a test that exists, or
//! says why there is none. The reasons are counted, so that there are never many.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy;

/// How many rows and scenarios, or whole tables of what is planned, may have a reason in the place of a test.
const REASONS: usize = 8;

/// The words that introduce a reason.
const NO_TEST: [&str; 2] = ["no test:", "planned:"];

const FAILURES: &str = "docs/failure-modes.md";
const SCENARIOS: &str = "docs/scenarios.md";

/// Lists the rows and scenarios below `root` that name neither a test nor a reason, the tests that they name and that do
/// not exist, and reasons if there are too many.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>, String> {
    let tests = Tests::of(root)?;
    let read = |name: &str| std::fs::read_to_string(root.join(name)).map_err(|e| format!("{name}: {e}"));
    let mut entries = rows(&read(FAILURES)?);
    entries.extend(scenarios(&read(SCENARIOS)?));
    Ok(judge(&entries, &tests))
}

fn judge(entries: &BTreeMap<String, Entry>, tests: &Tests) -> Vec<String> {
    let mut faults = Vec::new();
    let mut reasons = BTreeSet::new();
    for (id, entry) in entries {
        let pointers = || entry.texts.iter().flat_map(|text| quoted(text));
        if !pointers().any(|pointer| tests.has(pointer)) {
            match &entry.reason {
                Some(reason) => drop(reasons.insert(reason)),
                None => {
                    faults.push(format!("{id} names neither a test nor, after `{}`, a reason", NO_TEST[0]))
                }
            }
        }
        let unknown = pointers().filter(|pointer| pointer.contains("::") && !tests.leads_to_any(pointer));
        faults.extend(unknown.map(|pointer| format!("{id}: there is no test `{pointer}`")));
    }
    if reasons.len() > REASONS {
        faults.push(format!("{} reasons for no test, more than {REASONS}: {reasons:#?}", reasons.len()));
    }
    faults
}

/// What a row or scenario says about its tests.
#[derive(Debug, Default)]
struct Entry {
    texts: Vec<String>,
    /// With the id, or for all of a table that of its heading.
    reason: Option<String>,
}

impl Entry {
    fn add(&mut self, id: &str, text: &str) {
        if let Some(at) = NO_TEST.iter().find_map(|words| text.find(words)) {
            self.reason = Some(format!("{id}: {}", &text[at..]));
        }
        self.texts.push(text.to_owned());
    }
}

/// The rows of all tables whose first cell is an id, with what the lists beside the tables say of them.
fn rows(text: &str) -> BTreeMap<String, Entry> {
    let mut rows: BTreeMap<String, Entry> = BTreeMap::new();
    let (mut table, mut has_shown) = (String::new(), false);
    for block in blocks(text) {
        if let Some(heading) = block.strip_prefix("## ") {
            (table, has_shown) = (heading.split('.').next().unwrap_or_default().to_owned(), false);
        } else if block.starts_with("| id |") {
            has_shown = block.ends_with("| shown |");
        } else if let Some(cells) = block.strip_prefix("| ") {
            let mut cells = cells.trim_end_matches(" |").split(" | ");
            let Some(id) = cells.next().filter(|id| is_id(id)) else { continue };
            let row = rows.entry(id.to_owned()).or_default();
            if let Some(shown) = cells.last().filter(|_| has_shown) {
                row.add(id, shown);
            }
        } else if let Some(item) = block.strip_prefix("- ") {
            let ids = item.split_once(':').map_or("", |(ids, _)| ids);
            for id in ids.split([' ', ',']).filter(|id| is_id(id)) {
                rows.entry(id.to_owned()).or_default().add(id, item);
            }
        } else if block.starts_with("All rows: planned:") {
            let planned = Some(format!("{table}: {block}"));
            rows.insert(format!("{table}*"), Entry { reason: planned, texts: Vec::new() });
        }
    }
    for (id, entry) in std::mem::take(&mut rows) {
        let whole = |rows: &BTreeMap<String, Entry>| {
            rows.get(&format!("{}*", &id[..1])).and_then(|table| table.reason.clone())
        };
        let reason = entry.reason.clone().or_else(|| whole(&rows));
        rows.insert(id.clone(), Entry { reason, ..entry });
    }
    rows
}

/// The scenarios: headings with an id and what is below `**Shown.**`, and the items of the list at the end.
fn scenarios(text: &str) -> BTreeMap<String, Entry> {
    let mut scenarios: BTreeMap<String, Entry> = BTreeMap::new();
    let mut id = String::new();
    for block in blocks(text) {
        if let Some(heading) = block.strip_prefix("### ") {
            id = heading.split(' ').next().unwrap_or_default().to_owned();
            scenarios.entry(id.clone()).or_default();
        } else if let Some(shown) = block.strip_prefix("**Shown.**") {
            scenarios.entry(id.clone()).or_default().add(&id, shown);
        } else if let Some((item, text)) = block.strip_prefix("- **").and_then(|rest| rest.split_once("** "))
        {
            let shown = text.split_once("**Shown.**").map_or("", |(_, shown)| shown);
            scenarios.entry(item.to_owned()).or_default().add(item, shown);
        }
    }
    scenarios
}

/// Paragraphs, items and rows, each in one line.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut begins = true;
    for line in text.lines() {
        begins |= line.starts_with(['|', '-', '#']) || line.starts_with("**Shown");
        match (line.trim(), blocks.last_mut()) {
            ("", _) => {
                begins = true;
                continue;
            }
            (more, Some(last)) if !begins => *last += &format!(" {more}"),
            (first, _) => blocks.push(first.to_owned()),
        }
        begins = line.starts_with('#');
    }
    blocks
}

fn is_id(word: &str) -> bool {
    let number = word.strip_prefix(|c: char| c.is_ascii_uppercase());
    number.is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// All tests, by name, each with the words of its path: crate, folders, file, modules.
#[derive(Debug, Default)]
struct Tests {
    by_name: BTreeMap<String, Vec<BTreeSet<String>>>,
    modules: BTreeSet<String>,
}

impl Tests {
    fn of(root: &Path) -> Result<Self, String> {
        let mut tests = Self::default();
        for file in tidy::tracked(root)? {
            if file.ends_with(".rs")
                && let Ok(text) = std::fs::read_to_string(root.join(&file))
            {
                tests.read(&file, &text);
            }
        }
        Ok(tests)
    }

    fn read(&mut self, file: &str, text: &str) {
        let mut places: BTreeSet<String> =
            file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        places.extend(text.lines().filter_map(|line| {
            let module = line.trim_start().trim_start_matches("pub(crate) ").strip_prefix("mod ")?;
            Some(module.split([' ', ';']).next().unwrap_or_default().to_owned())
        }));
        // Groups of cases are named in text.
        places.extend(text.split("cases![\"").skip(1).filter_map(|t| Some(t.split_once('"')?.0.to_owned())));
        self.modules.extend(places.iter().cloned());
        // Cases of the suites are functions without an attribute.
        let all = file.starts_with("tests/conformance/src/cases") || file.starts_with("tests/interop/tests");
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            // Cases of several groups.
            if let Some((name, _)) = line.split_once("{word}::").and_then(|(_, rest)| rest.split_once('"')) {
                self.by_name.entry(name.to_owned()).or_default().push(places.clone());
            }
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some((_, rest)) = line.split_once("fn ").filter(|(before, _)| !before.contains("//")) else {
                continue;
            };
            let name =
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
            if is_test || all {
                self.by_name.entry(name.to_owned()).or_default().push(places.clone());
            }
            is_test = false;
        }
    }

    /// Whether this is the name of a test, abbreviated by `…` or not, with the places where it is.
    fn has(&self, pointer: &str) -> bool {
        let (place, name) = pointer.rsplit_once("::").unwrap_or(("", pointer));
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_…".contains(c);
        if !(name.contains('_') || pointer.contains("::")) || !name.chars().all(is_name) {
            return false;
        }
        let places = || place.split("::").filter(|place| !matches!(*place, "" | "*" | "…"));
        self.by_name.iter().any(|(test, found)| {
            // Cases of the suite are named after stores and adapters, too.
            let is_at = |at: &BTreeSet<String>| {
                at.contains("conformance") || places().all(|place| at.contains(place))
            };
            fits(name, test) && found.iter().any(is_at)
        })
    }

    /// Whether this is the name of a test, or of a module with all of its tests.
    fn leads_to_any(&self, pointer: &str) -> bool {
        let module = pointer.trim_end_matches("::*");
        self.has(pointer) || module.split("::").all(|part| self.modules.contains(part))
    }
}

/// Whether a name with gaps fits this one.
fn fits(with_gaps: &str, name: &str) -> bool {
    let mut parts = with_gaps.split('…');
    let mut rest = match parts.next().map(|first| name.strip_prefix(first)) {
        Some(Some(rest)) => rest,
        _ => return false,
    };
    let mut last = "";
    let mut gaps = false;
    for part in parts {
        (last, gaps) = (part, true);
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    if gaps { name.ends_with(last) } else { rest.is_empty() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root;

    const ROWS: &str = "## A. One\n\n| id | failure | what | shown |\n| --- | --- | --- | --- |\n\
        | A1 | x | y | `group::one_thing` |\n| A2 | x | y | redis |\n| A3 | x | y | `tests/it/file.rs` |\n\
        | A4 | x | y | no test: it cannot be |\n| A5 | x | y | `group::gone_…` |\n\n\
        - A2 and A6: the word\n  `group::one_…`\n\n\
        ## F. Two\n\nAll rows: planned: later.\n\n| id | failure | what |\n| --- | --- | --- |\n| F1 | x | y |\n| F2 | x | y |\n";

    fn tests() -> Tests {
        let mut tests = Tests::default();
        tests.read("crates/x/tests/it/group.rs", "#[test]\nfn one_thing() {}\nfn no_test() {}\n");
        tests
    }

    #[test]
    fn each_row_names_a_test_or_a_reason() {
        let found = judge(&rows(ROWS), &tests());
        let expected = ["A3 names neither", "A5 names neither", "A5: there is no test `group::gone_…`"];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        assert!(found.iter().zip(expected).all(|(is, begins)| is.starts_with(begins)), "{found:#?}");
    }

    #[test]
    fn each_scenario_names_a_test_or_a_reason() {
        let text = "### S1 One\n\nText.\n\n**Shown.** Conformance `group::one_thing`.\n\n### S2 Two\n\nText.\n\n\
            ## X\n\n- **X1** Text. **Shown.** `group::one_…`\n- **X2** Text\n  `group::one_thing`.\n";
        let found = judge(&scenarios(text), &tests());
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].starts_with("S2 ") && found[1].starts_with("X2 "), "{found:#?}");
    }

    #[test]
    fn many_reasons_are_too_many() {
        let rows = |n: usize| {
            let rows = (0..n).map(|i| format!("| A{i} | x | y | no test: {i} |\n")).collect::<String>();
            super::rows(&format!("| id | failure | what | shown |\n{rows}"))
        };
        assert!(judge(&rows(REASONS), &tests()).is_empty());
        assert_eq!(judge(&rows(REASONS + 1), &tests()).len(), 1);
    }

    #[test]
    fn abbreviations_have_gaps() {
        assert!(fits("a_b", "a_b") && fits("a_…", "a_b") && fits("…_b", "a_b") && fits("a…c", "a_b_c"));
        assert!(!fits("a_b", "a_b_c") && !fits("a…c", "a_b") && !fits("b_…", "a_b"));
    }

    #[test]
    fn every_row_and_scenario_is_shown() {
        let found = faults(&root()).unwrap();
        assert!(found.is_empty(), "{found:#?}");
    }
}
