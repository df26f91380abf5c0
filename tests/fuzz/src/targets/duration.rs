//! Durations, as in `1m30s`.

use crate::Target;

pub(super) struct Duration;

impl Target for Duration {
    fn name(&self) -> &'static str {
        "duration"
    }

    fn tokens(&self) -> &'static [&'static str] {
        &[
            "ms",
            "s",
            "m",
            "h",
            "d",
            "us",
            ".",
            "1e9",
            "1h30m",
            " ",
            "inf",
            "０",
            "µs",
            "99999999999999999999d",
        ]
    }

    fn most_memory(&self, length: usize) -> usize {
        (64 << 10) + 40 * length
    }

    fn read(&mut self, input: &[u8]) {
        let text = String::from_utf8_lossy(input);
        if let Err(why) = tenure::parse_duration(&text) {
            assert!(!why.is_empty());
        }
    }
}
