//! Parses durations. The macro crate has this file as a symlink, since a proc-macro crate cannot export functions.

use std::time::Duration;

/// Parses a duration such as `300ms`, `30s`, `5m`, `2h`, `1d`, or a sum such as `1m30s`.
///
/// ```
/// assert_eq!(tenure::parse_duration("1m30s"), Ok(std::time::Duration::from_secs(90)));
/// assert!(tenure::parse_duration("90").is_err()); // no unit
/// ```
///
/// # Errors
/// A sentence for people that says what is wrong.
pub fn parse_duration(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || {
        format!("{text:?} is not a duration: expected a number with a unit, such as 300ms, 30s, 5m or 1h30m")
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        let term = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(term).ok_or_else(wrong)?;
        rest = &rest[unit..];
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_alike() {
        for (text, ms) in
            [("300ms", 300), ("30s", 30_000), ("1.5s", 1500), ("1h30m", 5_400_000), ("1m 30s", 0)]
        {
            match parse_duration(text) {
                Ok(d) => assert_eq!(d.as_millis(), ms, "{text}"),
                Err(_) => assert_eq!(ms, 0, "{text}"),
            }
        }
        for bad in ["", "5", "s", "5x", "-1s", "1e9d", "99999999999999d99999999999999d99999999999999d"] {
            assert!(parse_duration(bad).unwrap_err().contains("not a duration"), "{bad}");
        }
    }
}
