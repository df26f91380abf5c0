//! Suggestions for misspelled words.

/// The closest word, if its edit distance is at most 2.
pub(crate) fn nearest<'a>(word: &str, from: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    from.into_iter().map(|w| (distance(word, w), w)).filter(|(d, _)| *d <= 2).min().map(|(_, w)| w)
}

/// A "did you mean" suffix for errors, or an empty string.
pub(crate) fn hint<'a>(word: &str, from: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, from).map(|w| format!("; did you mean {w}?")).unwrap_or_default()
}

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
    fn little_differences_are_forgiven() {
        let words = ["lease", "poll", "timeout"];
        assert_eq!(nearest("leese", words), Some("lease"));
        assert_eq!(nearest("time_out", words), Some("timeout"));
        assert_eq!(nearest("deadline", words), None);
        assert_eq!(hint("pol", words), "; did you mean poll?");
    }
}
