//! Suggestions for misspelled words.

/// The closest word, if its edit distance is at most 2.
pub(crate) fn closest<'a>(word: &str, from: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    from.into_iter().map(|w| (distance(word, w), w)).filter(|(d, _)| *d <= 2).min().map(|(_, w)| w)
}

/// A "did you mean" suffix for errors, or an empty string.
pub(crate) fn did_you_mean<'a>(word: &str, from: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, from).map(|w| format!("; did you mean {w}?")).unwrap_or_default()
}

#[expect(clippy::indexing_slicing, reason = "a row has one number more than `b` has characters")]
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_differences_are_recognised() {
        let words = ["lease", "poll", "timeout"];
        assert_eq!(closest("leese", words), Some("lease"));
        assert_eq!(closest("time_out", words), Some("timeout"));
        assert_eq!(closest("deadline", words), None);
        assert_eq!(did_you_mean("pol", words), "; did you mean poll?");
    }
}
