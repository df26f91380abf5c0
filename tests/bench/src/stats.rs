//! Percentiles, medians with their intervals, and waits in buckets.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

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

/// The median, and the interval that contains the true one in 95 of 100 runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// By order statistics, which suppose nothing but independence: the true median lies below the k-th smallest of n
    /// values as seldom as n tosses of a coin show fewer than k heads. Fewer than six values only have their range.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |rank: usize| sorted.get(rank).copied().unwrap_or(0.0);
        // The chance of exactly k heads, and of at most as many.
        let (mut chance, mut below, mut rank) = (0.5_f64.powi(n as i32), 0.0, 0);
        for k in 0..n / 2 {
            below += chance;
            if below > 0.025 {
                break;
            }
            rank = k + 1;
            chance *= (n - k) as f64 / (k + 1) as f64;
        }
        let rank = rank.saturating_sub(1);
        Self { median: median(values), low: at(rank), high: at(n.saturating_sub(rank + 1)) }
    }
}

/// How long tasks waited: how many waits there were in each bucket, of which 50 make a factor of e. The drivers of all
/// peers count in the same buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Waits(BTreeMap<i32, usize>);

const BUCKETS: f64 = 50.0;

impl Waits {
    pub(crate) fn record(&mut self, wait: Duration) {
        let micros = (wait.as_secs_f64() * 1e6).max(1.0);
        *self.0.entry((micros.ln() * BUCKETS).round() as i32).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (bucket, n) in &other.0 {
            *self.0.entry(*bucket).or_default() += n;
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.0.values().sum()
    }

    /// For each bucket its milliseconds, and the percentage of waits that were no longer.
    pub(crate) fn distribution(&self) -> Vec<(f64, f64)> {
        let (all, mut below) = (self.count() as f64, 0);
        let point = |(bucket, n): (&i32, &usize)| {
            below += n;
            ((f64::from(*bucket) / BUCKETS).exp() / 1e3, 100.0 * below as f64 / all)
        };
        self.0.iter().map(point).collect()
    }

    /// Milliseconds.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        let rank = ((part * self.count() as f64).ceil() as usize).max(1);
        let mut below = 0;
        let bucket = self.0.iter().find(|(_, n)| {
            below += **n;
            below >= rank
        });
        bucket.map_or(0.0, |(bucket, _)| (f64::from(*bucket) / BUCKETS).exp() / 1e3)
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets: Vec<String> = self.0.iter().map(|(bucket, n)| format!("{bucket}:{n}")).collect();
        f.write_str(&buckets.join(","))
    }
}

impl FromStr for Waits {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut waits = Self::default();
        for bucket in text.split(',').filter(|bucket| !bucket.is_empty()) {
            let (bucket, n) = bucket.split_once(':').ok_or_else(|| format!("no bucket {bucket:?}"))?;
            *waits.0.entry(bucket.parse()?).or_default() += n.parse::<usize>()?;
        }
        Ok(waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(median(&[]), 0.0);
    }

    /// The ranks of the tables of order statistics.
    #[test]
    fn intervals_of_the_median() {
        let of = |n: i32| Spread::of(&(1..=n).map(f64::from).collect::<Vec<_>>());
        assert_eq!(of(15), Spread { median: 8.0, low: 4.0, high: 12.0 });
        assert_eq!(of(20), Spread { median: 10.0, low: 6.0, high: 15.0 });
        assert_eq!(of(6), Spread { median: 3.0, low: 1.0, high: 6.0 });
        assert_eq!(of(3), Spread { median: 2.0, low: 1.0, high: 3.0 });
    }

    #[test]
    fn waits_are_read_as_they_are_written() {
        let mut waits = Waits::default();
        for n in 1..=100 {
            waits.record(Duration::from_millis(n));
        }
        assert_eq!(waits.to_string().parse::<Waits>().unwrap(), waits);
        let p99 = waits.percentile(0.99);
        assert!((98.0..=100.0).contains(&p99), "{p99}");
        let mut twice = waits.clone();
        twice.add(&waits);
        assert_eq!((twice.count(), twice.percentile(0.99)), (200, p99));
    }
}
