//! Formats times: `3 min 5 s`, `2026-11-15 21:40:03 UTC`.

use std::time::Duration;

/// Formats a duration with its two largest units that are not zero.
pub(crate) fn human(d: Duration) -> String {
    let s = d.as_secs();
    let two = |a: u64, a_unit: &str, b: u64, b_unit: &str| {
        if b == 0 { format!("{a} {a_unit}") } else { format!("{a} {a_unit} {b} {b_unit}") }
    };
    match s {
        0 => format!("{} ms", d.as_millis()),
        1..60 => format!("{s} s"),
        60..3600 => two(s / 60, "min", s % 60, "s"),
        3600..86_400 => two(s / 3600, "h", s % 3600 / 60, "min"),
        _ => two(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

/// Time since `micros` after 1970; zero if that is in the future, as with clock skew.
pub(crate) fn ago(micros: u64) -> Duration {
    Duration::from_micros(tenure::backend::wall_micros().saturating_sub(micros))
}

/// Formats `micros` since 1970 as date and time in UTC.
pub(crate) fn utc(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02} UTC")
}

/// Date of a day since 1970. Years begin in March here, so that the leap day is the last day of the year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        for (ms, says) in [
            (0, "0 ms"),
            (340, "340 ms"),
            (12_900, "12 s"),
            (60_000, "1 min"),
            (185_000, "3 min 5 s"),
            (7_380_000, "2 h 3 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(human(Duration::from_millis(ms)), says);
        }
    }

    #[test]
    fn dates_know_their_leap_years() {
        for (seconds, says) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (1_794_778_803, "2026-11-15 21:40:03 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds * 1_000_000), says);
        }
    }
}
