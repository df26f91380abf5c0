//! Percentiles, medians and spreads.

/// The `part` percentile by nearest rank, with `part` from 0 to 1. Zero if there are no values.
pub(crate) fn percentile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// The median by nearest rank.
pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// The median, minimum and maximum of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        Self { median: median(values), min: percentile(values, 0.0), max: percentile(values, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(Spread::of(&hundred), Spread { median: 50.0, min: 1.0, max: 100.0 });
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(median(&[]), 0.0);
    }
}
