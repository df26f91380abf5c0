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

#[cfg(test)]
mod tests {
    /// What is accepted here and there is the same, and means the same.
    #[test]
    fn the_grammar_is_that_of_the_library() {
        let numbers = ["", "0", "5", "1.5", ".5", "5.", "1.2.3", "007", "-1", "1e3", "99999999999999"];
        let units = ["", "us", "µs", "ms", "s", "m", "min", "h", "d", "x", "S", " s"];
        let mut texts = vec![String::from(" 5s "), "1m 30s".into()];
        for a in numbers {
            for unit in units {
                texts.push(format!("{a}{unit}"));
                texts.push(format!("1m{a}{unit}"));
                texts.push(format!("{a}{unit}300ms"));
            }
        }
        let mut good = 0;
        for text in &texts {
            assert_eq!(super::parse(text), tenure::parse_duration(text).ok(), "{text:?}");
            good += usize::from(super::parse(text).is_some());
        }
        assert!(good > 50 && good < texts.len() - 50, "{good} of {}", texts.len());
    }
}
