//! The table of mutants in the documentation, written by a run of all of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::Tried;

const PAGE: &str = "docs/testing.md";
/// The table begins below this heading and ends with the page.
const HEADING: &str = "### What there is\n";

/// Writes the table anew.
///
/// # Errors
/// When the page cannot be read or written, or has no such heading.
pub(super) fn write(root: &Path, tried: &[Tried<'_>], took: Duration, verdict: &str) -> Result<(), String> {
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|e| format!("{PAGE}: {e}"))?;
    let (before, _) =
        page.split_once(HEADING).ok_or(format!("{PAGE} has no heading `{}`", HEADING.trim()))?;
    let text = format!("{before}{HEADING}{}", table(tried, took, verdict));
    std::fs::write(&path, text).map_err(|e| format!("{PAGE}: {e}"))
}

fn table(tried: &[Tried<'_>], took: Duration, verdict: &str) -> String {
    let mut text = format!(
        "\nWritten by `cargo xtask mutants`. The last run of all took {:.0} s on {} cores: {verdict}. A row has the time \
         from the edit to the end of the test, build included.\n",
        took.as_secs_f64(),
        crate::cores(),
    );
    let mut groups: BTreeMap<&str, Vec<&Tried<'_>>> = BTreeMap::new();
    for one in tried {
        groups.entry(&one.mutant.group).or_default().push(one);
    }
    for (group, mut rows) in groups {
        rows.sort_by_key(|one| &one.mutant.name);
        text.push_str(&format!(
            "\n**{group}**\n\n| mutant | bug | test | result | seconds |\n| --- | --- | --- | --- | --- |\n"
        ));
        for Tried { mutant, fate, took } in rows {
            let (name, bug, catch) = (&mutant.name, mutant.bug.replace('|', "\\|"), &mutant.catch);
            text.push_str(&format!("| {name} | {bug} | `{catch}` | {fate} | {:.0} |\n", took.as_secs_f64()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::Fate;
    use crate::mutants::list::Mutant;
    use crate::scratch::Scratch;

    #[test]
    fn a_run_replaces_the_table_and_nothing_else() {
        let scratch = Scratch::new("table").unwrap();
        let folder = scratch.path();
        let page = folder.join(PAGE);
        std::fs::create_dir_all(page.parent().unwrap()).unwrap();
        std::fs::write(&page, format!("# Testing\n\n{HEADING}\nold\n")).unwrap();
        let mutant =
            Mutant { group: "core".into(), name: "a".into(), bug: "b | c".into(), ..Mutant::default() };
        let tried = [Tried { mutant: &mutant, fate: Fate::Survived, took: Duration::from_secs(3) }];
        write(folder, &tried, Duration::from_secs(60), "0 caught, 1 survived").unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.starts_with(&format!("# Testing\n\n{HEADING}")) && !text.contains("old"), "{text}");
        assert!(text.contains("| a | b \\| c | `unit  ` | SURVIVED | 3 |"), "{text}");
        std::fs::write(&page, "# Testing\n").unwrap();
        assert!(write(folder, &tried, Duration::ZERO, "").is_err());
    }
}
