//! Durations as people write them, in the grammar of `tenure::parse_duration`: read when the program is compiled, so
//! that a bad one is found then.

use std::time::Duration;

/// `300ms`, `30s`, `5m`, `2h`, `1d`, or sums such as `1m30s`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = None::<Duration>;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, after) = rest.split_at(number);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let seconds = match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        let amount: f64 = amount.parse().ok()?;
        let term = Duration::try_from_secs_f64(amount * seconds).ok()?;
        total = Some(total.unwrap_or_default().checked_add(term)?);
        rest = after;
    }
    total
}
